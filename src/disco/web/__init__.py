"""What every route and page of the service shares: one request, from its admission to its reply."""
