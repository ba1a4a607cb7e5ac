"""The customers study: what 76 features say about baskets, and what a context made of them is worth."""
