"""Work that is asked for by the clock."""
