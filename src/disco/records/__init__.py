"""Frozen values and table schemas that pass between rooms, the ports that shells implement, and the errors."""
