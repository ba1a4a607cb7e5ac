"""The grid that contexts and ln F are rounded to, and their limits: the constants that make sums of evidence exact.

Byte-critical: every stored context, evidence and model file rests on these numbers. They never change.
"""

GRID = 65536.0  # units per 1.0: figures are multiples of 2⁻¹⁶, so that their products are exact in float64
CONTEXT_LIMIT = 4.0  # |ψ1| is at most this, in standard deviations
LOG_PRICE_LIMIT = 32.0  # |ln F| is below this in evidence, and at most this where full prices are served
