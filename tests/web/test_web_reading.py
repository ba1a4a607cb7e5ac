"""JSON means one thing only, and an error becomes a problem and the same error again."""

import json

import pytest

from disco.records import errors
from disco.records.errors import Problem, ServiceError
from disco.web.problems import error_of, problem_of, status_of
from disco.web.reading import read_json


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "1e999"),
        ('{"a": 1, "a": 2}', "'a' twice"),
        ('{"a": {"b": 1, "b": 1}}', "'b' twice"),
        ("[" * 50 + "]" * 50, "nested too deeply"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "5000 digits"),
        ('"\\u0000"', "cannot be kept"),
        ('{"\\ud800": 1}', "cannot be kept"),
        ("{", "line 1, column 2"),
        ("", "line 1"),
        ("\ufeff{}", "line 1"),
    ],
)
def test_json_that_could_be_misread_is_refused(text: str, said: str) -> None:
    with pytest.raises(ServiceError, match="body") as refused:
        read_json(text.encode())
    assert said in str(refused.value)
    assert refused.value.status == 400


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ServiceError, match="byte 3, which is not UTF-8"):
        read_json(b'{"\xff": 1}')


def test_plain_json_is_read_as_it_is() -> None:
    value = {"a": [1, 2.5, None, True, "ä😀"], "b": {"c": -1e300, "n": 10**300}}
    assert read_json(json.dumps(value).encode()) == value


PROBLEM = Problem("wrong_type", "orders.csv", "paid", "x", "a number", "Correct it.", row=3, rows=2)


@pytest.mark.parametrize(
    "error",
    [
        errors.InputError("uplift", found=-1, expected="above 0", fix="Give one."),
        errors.NotFoundError("There is no plan ab"),
        errors.StateError("campaign first", found="closed", expected="running"),
        errors.PlanError("The plan has problems:", [PROBLEM]),
        errors.TableError("The table has problems:", [PROBLEM, PROBLEM]),
        errors.InfeasibleError("Limits contradict each other", conflicts=["one", "two"], fix="Raise a cap."),
        errors.AuthenticationError("The key is not valid"),
        errors.RoleError("The role viewer may not do this"),
        errors.UnavailableError("The database is away"),
        errors.DefectError("This is a defect"),
        ServiceError("body", status=413, kind="too-large", found="much", expected="less"),
    ],
)
def test_an_error_comes_back_as_it_was(error: errors.DiscoError) -> None:
    problem = json.loads(json.dumps(problem_of(error, instance="abc")))
    again = error_of(problem)
    assert type(again) is type(error)
    assert str(again) == str(error) == problem["detail"]
    assert problem["status"] == status_of(error) == status_of(again)
    assert problem["instance"] == "urn:disco:request:abc"
    assert getattr(again, "problems", None) == getattr(error, "problems", None)
    assert getattr(again, "conflicts", None) == getattr(error, "conflicts", None)


def test_every_error_class_has_a_type_of_its_own() -> None:
    kinds = {name: getattr(errors, name) for name in dir(errors) if name.endswith("Error") and name != "DiscoError"}
    made = [kind.__new__(kind) for kind in kinds.values() if kind is not ServiceError and not name_is_private(kind)]
    for one in made:
        one.__dict__.update(what="x", found=None, expected=None, fix=None, conflicts=())
    types = [problem_of(one, instance="")["type"] for one in made]
    assert len(set(types)) == len(types)


def name_is_private(kind: type) -> bool:
    return kind.__name__.startswith("_")
