"""Bandit simulations on the truth of a simulated retailer: the loop of production, batch by batch, many times over."""
