"""The whole loop on a simulated retailer, for people who want to see it first: run it, judge it, report it."""
