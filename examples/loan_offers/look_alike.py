"""A generated campaign with the columns and oddities of the real one, for those who do not have the file.

Everything here is made up. Only its shape is borrowed: three risk bands with their own standard rates, offers on a
near-continuous scale dealt at random within band and wave, few takers, incomes unknown in the first wave, ages of 0.
"""

import numpy as np
import pyarrow as pa

_BANDS = ("HIGH", "MEDIUM", "LOW")
_STANDARD_RATE = np.array([11.75, 9.75, 7.75])  # per cent a month
_LOWEST_RATE = 3.25


def look_alike(*, rows: int = 16_000, waves: int = 2, seed: int = 7) -> pa.Table:
    """`rows` letters over `waves` waves; the first wave is the smallest."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, waves + 1) / np.arange(1, waves + 1).sum()
    wave = np.sort(rng.choice(np.arange(1, waves + 1), size=rows, p=share))
    band = rng.choice(3, size=rows, p=(0.72, 0.12, 0.16))
    standard = _STANDARD_RATE[band]
    # better bands have a smaller range below their standard rate, so deep offers went to those who take up least
    offer = np.round((standard - (standard - _LOWEST_RATE) * rng.beta(0.8, 1.4, rows)) * 4) / 4
    depth = 1 - offer / standard
    dormancy, appscore = rng.integers(0, 25, rows), rng.normal(29, 9, rows).clip(0).round()
    last_amount = np.exp(rng.normal(6.7, 0.7, rows)).round(-1).clip(100)
    wish = np.array([-3.0, -2.0, -1.8])[band] + 0.45 * depth - 0.06 * (dormancy - 10)
    took = rng.random(rows) < 1 / (1 + np.exp(-wish))
    size = np.exp(2.4 + 0.65 * np.log(last_amount) + 0.15 * depth + rng.normal(0, 0.6, rows)).round(-1).clip(100)
    unknown = (wave == 1) & (rng.random(rows) < 0.05)

    def known_to_most(values: "np.ndarray") -> "np.ndarray":
        return np.where(unknown, np.nan, values)

    columns = {
        "customer_id": np.arange(1, rows + 1),
        "wave": wave,
        "risk": np.array(_BANDS)[band],
        "grossincome": np.where(wave == 1, np.nan, np.exp(rng.normal(1.1, 0.8, rows))),
        "dependants": known_to_most(rng.poisson(1.6, rows).clip(0, 10)),
        "dormancy": dormancy,
        "itcscore": np.where(rng.random(rows) < 0.2, 0, rng.normal(630, 70, rows).round()),
        "itczero": np.zeros(rows, int),
        "appscore": appscore,
        "lastterm": rng.choice([1, 4, 6, 12], size=rows, p=(0.04, 0.88, 0.06, 0.02)),
        "lastamount": last_amount,
        "trcount": known_to_most(1 + rng.poisson(4, rows)),
        "female": rng.integers(0, 2, rows),
        "married": known_to_most(rng.integers(0, 2, rows)),
        "edhi": rng.integers(0, 2, rows),
        "age": np.where(unknown, 0.0, rng.normal(42, 12, rows).clip(18, 90)),
        "rural": (rng.random(rows) < 0.24).astype(int),
        "province": np.full(rows, "Nowhere"),
        "branchuse": np.array(["A", "B", "C"])[rng.integers(0, 3, rows)],
        "std_rate": standard,
        "offer4": offer,
        "depth": depth,
        "applied": (took | (rng.random(rows) < 0.02)).astype(int),
        "tookup": took.astype(int),
        "loansize": np.where(took, size, 0.0).astype(int),
        "grossinterest": np.where(took, size * offer / 100 * 4, 0.0),
    }
    columns["itczero"] = (columns["itcscore"] == 0).astype(int)
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
