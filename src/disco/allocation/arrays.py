"""The array type of compiled kernels: element types are decided where they are called."""

from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
