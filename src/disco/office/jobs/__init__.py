"""Long work that a worker does."""
