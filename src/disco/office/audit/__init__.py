"""The journal of everything that was written."""
