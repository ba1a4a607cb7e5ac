"""API keys of programs."""
