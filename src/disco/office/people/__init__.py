"""Who can sign in, and as what."""
