"""Arguments of the studies' commands: lists with commas, numbers in a range. What is wrong is said in one sentence."""

from argparse import ArgumentTypeError
from collections.abc import Callable

from disco.retailer.settings import Shape


def whole_number(low: int, high: int | None = None) -> Callable[[str], int]:
    """
    >>> whole_number(1, 100)("7")
    7
    """
    expected = f"a whole number of {low:,} or more" if high is None else f"a whole number from {low:,} to {high:,}"

    def parsed(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < low or (high is not None and int(text) > high):
            raise ArgumentTypeError(f"found {text}; expected {expected}")
        return int(text)

    return parsed


def whole_numbers(text: str) -> tuple[int, ...]:
    """
    >>> whole_numbers("1,2")
    (1, 2)
    """
    return tuple(whole_number(0)(part) for part in text.split(","))


def chances(text: str) -> tuple[float, ...]:
    """
    >>> chances("0.1,0.3")
    (0.1, 0.3)
    """
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < chance < 1 for chance in found):
        raise ArgumentTypeError(f"found {text}; expected numbers between 0 and 1, with commas between them")
    return found


def shapes(text: str) -> tuple[Shape, ...]:
    """
    >>> [str(shape) for shape in shapes("concave,s-shaped")]
    ['concave', 's-shaped']
    """
    unknown = [part for part in text.split(",") if part not in list(Shape)]
    if unknown:
        raise ArgumentTypeError(f"found {', '.join(unknown)}; expected some of {', '.join(Shape)}")
    return tuple(Shape(part) for part in text.split(","))
