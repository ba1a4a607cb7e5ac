"""Functions for Numba to compile, without importing Numba before one of them is called.

Importing Numba takes longer than a short command takes to answer. So `njit` keeps the function and its options, and the
first call compiles it or loads what an earlier process has compiled. A question about one customer or one model need
not wait even for that: under `without_compiler` small arrays are computed by the interpreter. And in an environment
where nothing was compiled yet, a `patient` kernel is interpreted until that has taken about as long as compiling it.
The bits are the same, because the functions that may run so use exactly rounded operations in a fixed order, and name
the types of what they read (`belief/elementary.py`).
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, update_wrapper
from threading import RLock
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

#: Elements in the arguments of a call. With more, the interpreter would be slower than importing the compiler.
MOST_INTERPRETED = 20_000
# Seconds for which a process interprets a patient kernel; most take .1 to 2 s to compile.
_PATIENCE = 0.7
# Seconds per element of the arguments that the interpreter is taken to need, unless the kernel says otherwise.
_WORK = 5e-6
_interpreting: ContextVar[bool] = ContextVar("interpreting", default=False)
_building = RLock()  # an engine's threads may make the first call at the same time


@contextmanager
def without_compiler() -> Iterator[None]:
    """Within it, kernels on small arrays are interpreted unless Numba is loaded already: for a few rows only."""
    before = _interpreting.set(True)
    try:
        yield
    finally:
        _interpreting.reset(before)


_UNNOTICED = 0.5  # seconds of compilation about which a terminal is not told


@cache
def _watch_compiler() -> None:
    """Tell a terminal, once, what a first call waits for. Loading compiled kernels is no event of Numba's compiler."""
    from numba.core import event

    class Compilation(event.Listener):
        def __init__(self) -> None:
            self.began, self.told = 0.0, False

        def on_start(self, event: Any) -> None:
            now = time.monotonic()
            self.began = self.began or now
            if not self.told and now - self.began >= _UNNOTICED:
                self.told = True
                if sys.stderr is not None and sys.stderr.isatty():
                    sys.stderr.write(_NOTICE)
                    sys.stderr.flush()

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Compilation())  # type: ignore[no-untyped-call]


_NOTICE = "disco: compiling kernels for this machine. This takes some seconds, once per installation.\n"

#: Without a second entry point for C, which nobody calls: it would be compiled for every kernel.
_LEAN = {"no_cfunc_wrapper": True, "_nrt": True}


class Kernel(Generic[Parameters, Returned]):
    """A function that is compiled when it is first called."""

    __wrapped__: Callable[Parameters, Returned]

    def __init__(
        self,
        function: Callable[Parameters, Returned],
        signature: str | None,
        options: dict[str, Any],
        *,
        patient: bool,
        work: float,
    ) -> None:
        update_wrapper(self, function)
        self._signature, self._options = signature, options
        self._patience, self._work = _PATIENCE if patient else 0.0, work  # seconds that are left, and per element
        self._compiled: Callable[..., Returned] | None = None
        self._plain: Callable[..., Returned] | None = None
        self._left_by_earlier: bool | None = None  # None: not looked for yet

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        if self._compiled is not None:
            return self._compiled(*args, **kwargs)
        if _interpreting.get() and "numba" not in sys.modules and _elements(args) <= MOST_INTERPRETED:
            return self._interpreted(*args, **kwargs)
        if self._patience > 0.0 and self._patience > self._work * _elements(args) and self.is_patient():
            return self._interpreted(*args, **kwargs)
        return self.compiled()(*args, **kwargs)

    def _interpreted(self, *args: Any, **kwargs: Any) -> Returned:
        start = time.thread_time()
        try:
            with np.errstate(all="ignore"):  # 64-bit words wrap around, as compiled ones do
                return self.plain()(*args, **kwargs)
        finally:
            self._patience -= time.thread_time() - start

    def plain(self) -> Callable[..., Returned]:
        """The function for the interpreter, in which the kernels it calls are plain functions as well."""
        if self._plain is None:
            self._plain = _with_names(self.__wrapped__, lambda kernel: kernel.plain())
        return self._plain

    def compiled(self) -> Callable[..., Returned]:
        """Numba's form of the function, in which the kernels it calls are Numba's as well."""
        with _building:
            if self._compiled is None:
                import numba

                _watch_compiler()
                options = {**_LEAN, **self._options}
                decorate = numba.njit(**options) if self._signature is None else numba.njit(self._signature, **options)
                self._compiled = decorate(_with_names(self.__wrapped__, lambda kernel: kernel.compiled()))
            return self._compiled

    def is_patient(self) -> bool:
        """Whether a call may still be interpreted, so that it had better be short."""
        return self._patience > 0.0 and not self.is_ready()

    def is_ready(self) -> bool:
        """Whether a call compiles nothing: this process has called it, or an earlier one has left its compiled form.

        The files of an earlier process are looked for once.
        """
        if self._compiled is not None:
            return True
        if self._left_by_earlier is None:
            from numba.core.caching import FunctionCache

            files: Any = FunctionCache(self.__wrapped__)  # type: ignore[no-untyped-call]
            self._left_by_earlier = bool(files._cache_file._load_index())
        return self._left_by_earlier

    def __reduce__(self) -> str:
        return self.__qualname__  # a name of its module, as functions are pickled

    __qualname__: str


def njit(
    signature: str | None = None, *, patient: bool = False, work: float = _WORK, **options: Any
) -> Callable[[Callable[Parameters, Returned]], Kernel[Parameters, Returned]]:
    """As `numba.njit`, at the first call. A signature is text: the types of Numba are not there to be named.

    patient: small first calls are interpreted where nothing was compiled yet. All that it calls must give the same bits
        in the interpreter: no transcendental functions of NumPy, no arithmetic of single precision, no literals that
        only a compiler makes floats.
    work: seconds per element of its arguments that the interpreter needs, or more.

    >>> @njit(error_model="numpy")
    ... def total(values):
    ...     sum = 0.0
    ...     for value in values:
    ...         sum += value
    ...     return sum
    >>> total(np.array([1.0, 2.5]))
    3.5
    """
    return lambda function: Kernel(function, signature, options, patient=patient, work=work)


def inner_kernel(
    signature: str | None = None, **options: Any
) -> Callable[[Callable[Parameters, Returned]], Kernel[Parameters, Returned]]:
    """`njit` for what only other kernels call: without an entry point for Python, which takes as long to compile as
    the function itself where it is short."""
    return njit(signature, **{"no_cpython_wrapper": True, "_nrt": False, **options})


def _with_names(function: Any, form: Callable[[Kernel[Any, Any]], Any]) -> Any:
    """The function with a form of each kernel among its globals; where there is none, the function itself."""
    names = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    kernels = {name: form(value) for name, value in names.items() if isinstance(value, Kernel)}
    if not kernels:
        return function
    copy = FunctionType(
        function.__code__,
        {**function.__globals__, **kernels},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    return update_wrapper(copy, function)


def _elements(args: tuple[Any, ...]) -> int:
    """Of all arrays, also of those in tuples."""
    sizes = (
        _elements(arg) if isinstance(arg, tuple) else arg.size for arg in args if isinstance(arg, tuple | np.ndarray)
    )
    return sum(sizes)
