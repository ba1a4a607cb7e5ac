"""Names for the arrays that pass between rooms."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = NDArray[np.floating[Any]]  # float64, or float32 where a caller wants half the memory
Integers: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = NDArray[np.uint64]  # 64-bit hashes of customer ids
Flags: TypeAlias = NDArray[np.bool_]
Ids: TypeAlias = NDArray[Any]  # customer ids as the user gave them: int64 or text
Labels: TypeAlias = NDArray[np.object_]  # text
Array: TypeAlias = NDArray[Any]  # of compiled kernels, whose element types are decided where they are called
