"""Plans that are being written."""
