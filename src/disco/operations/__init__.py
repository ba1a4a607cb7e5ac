"""A campaign's life on the store; one module per verb."""
