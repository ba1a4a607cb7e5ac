"""Other systems that hear about events."""
