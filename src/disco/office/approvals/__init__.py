"""A second person's consent before a launch."""
