"""What customers paid beside a campaign's codes, from the retailer's own table of orders."""

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Vector
from disco.records.errors import InputError

_COLUMNS = ("customer_id", "ordered_at", "paid", "code")


def revenue_beside(orders: pa.Table, decisions: pa.Table, period: tuple[date, date]) -> Vector:
    """(n,) paid by each decision's customer on or after the first day and before the second, without its own code."""
    missing = [name for name in _COLUMNS if name not in orders.column_names]
    if missing:
        raise InputError("orders", found=f"no column {', '.join(missing)}", expected=", ".join(_COLUMNS))
    first, after = (pa.scalar(day).cast(pa.timestamp("us")) for day in period)
    moment = orders["ordered_at"].cast(pa.timestamp("us"), safe=False)
    own = pc.is_in(orders["code"].cast(pa.string()), value_set=pc.drop_null(decisions["code"]).combine_chunks())
    within = pc.and_(pc.and_(pc.greater_equal(moment, first), pc.less(moment, after)), pc.invert(own))
    wanted = orders.filter(within)
    customers = decisions["customer_id"].cast(pa.string()).combine_chunks()
    place = pc.index_in(wanted["customer_id"].cast(pa.string()), value_set=customers)
    known = np.asarray(place.is_valid().to_numpy(), np.bool_)
    paid = wanted["paid"].cast(pa.float64(), safe=False).to_numpy()[known]
    sums = np.bincount(pc.drop_null(place).to_numpy(), weights=paid, minlength=len(customers))
    return sums.astype(np.float64)  # without any order bincount counts instead of summing
