"""The paper, figure by figure: what it says, what a simulated retailer says, and whether the two agree."""
