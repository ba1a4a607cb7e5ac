"""The whole loop on a simulated retailer, as one study: run it, judge it, report it."""
