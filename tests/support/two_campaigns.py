"""The plans of a small simulated shop: a random campaign, and one that is decided with a control group."""

FIRST = """
campaign: first
customers: {table: customers, eligible: "country = 'GB'", as_of: 2025-09-01}
depths: {0.10: {at_most: 30%}, 0.20: {at_most: 30%}, 0.30: {at_most: 30%}}
objective: {revenue_weight: 3}
policy: {name: random}
valid: {from: 2025-09-01, days: 30}
seed: 7
"""
SECOND = """
campaign: second
customers: {table: customers, eligible: "country = 'GB'", as_of: 2025-10-01}
depths: {0.10: {at_most: 25%}, 0.20: {at_most: 20%}, 0.30: {at_most: 10%}}
objective: {revenue_weight: 3}
control: {share: 20%}
holdout: {share: 10%}
reserve: {share: 10%}
valid: {from: 2025-10-01, days: 31}
seed: 7
"""
