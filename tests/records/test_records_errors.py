"""Errors say found, expected and what to do; they survive a process boundary."""

import inspect
import pickle

import pytest

from disco.records import errors
from disco.records.errors import DiscoError, InfeasibleError, InputError, Problem, TableError

PROBLEM = Problem("null", "orders.csv", "paid", "nothing", "a value", "Fill it in.", row=3, rows=2)


def every_error() -> list[type[DiscoError]]:
    members = inspect.getmembers(errors, inspect.isclass)
    return [kind for name, kind in members if issubclass(kind, DiscoError) and not name.startswith("_")]


def test_the_tree_on_top_of_the_file_is_true() -> None:
    drawn = errors.__doc__ or ""
    for kind in every_error():
        assert f"{kind.__name__} " in drawn or f"{kind.__name__}\n" in drawn


def test_the_message_in_order() -> None:
    error = InputError("plan.yaml", found=20, expected="a share", fix="Did you mean 0.20?")
    assert str(error) == "plan.yaml: found 20; expected a share. Did you mean 0.20?"
    assert str(InputError("nothing to say")) == "nothing to say"
    assert str(InputError("x", found=0)) == "x: found 0"


def test_a_problem_names_its_place() -> None:
    assert str(PROBLEM).startswith("orders.csv, column paid, row 3 (and 1 more): found nothing")
    assert PROBLEM.within_file().startswith("column paid, row 3")
    whole = Problem("empty_table", "orders.csv", "", "no rows", "rows", "Fill it.")
    assert str(whole) == "orders.csv: found no rows; expected rows. Fill it."


@pytest.mark.parametrize(
    "error",
    [
        InputError("a", found=1, expected=2, fix="b"),
        TableError("orders.csv:", [PROBLEM]),
        InfeasibleError("limits", conflicts=["cap 3 < floor 4"], fix="Lower the floor."),
    ],
)
def test_errors_survive_pickling(error: DiscoError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__
