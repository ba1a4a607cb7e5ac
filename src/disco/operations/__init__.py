"""A campaign's life on the ports: plan, launch, codes, ledger, learning, results. One module per use case."""
