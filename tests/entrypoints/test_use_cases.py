"""Each use case is declared once, and the declaration fits the method that it names."""

from inspect import signature

import pytest

from disco.entrypoints.python import Shop
from disco.entrypoints.use_cases import USE_CASES, UseCase, routed
from disco.office.jobs.bodies import BODIES
from disco.records.jobs import JobKind
from disco.records.result import Result


@pytest.mark.parametrize("case", USE_CASES, ids=lambda case: f"{case.function.__name__} {case.result}")
def test_a_declaration_fits_its_method(case: UseCase) -> None:
    parameters = signature(case.function).parameters
    assert issubclass(case.kind, Result)
    if isinstance(returned := signature(case.function).return_annotation, str):
        assert case.kind.__name__ in returned
    assert case.command or case.route
    if case.job is not None and case.run is None:
        takes_more = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        assert takes_more or set(BODIES[case.job].model_fields) <= set(parameters)
    if (route := case.route) is not None:
        body = () if route.body is None else route.body.model_fields
        assert {*set(route.takes) - set(route.in_path), *body} <= set(parameters)
        assert set(route.in_path) <= set(route.takes)


def test_every_kind_of_job_but_deliveries_is_the_work_of_one_use_case() -> None:
    kinds = [case.job for case in USE_CASES if case.job is not None]
    assert sorted(kinds) == sorted(BODIES) == sorted(set(JobKind) - {JobKind.WEBHOOK})


def test_every_method_of_a_shop_that_returns_a_result_is_declared() -> None:
    """What is left out serves other methods or servers, or makes a shop: it takes and returns more than plain data."""
    declared = {case.function.__name__ for case in USE_CASES}
    public = {name for name in vars(Shop) if not name.startswith("_") and callable(getattr(Shop, name))}
    assert public - declared == {
        "against_network_in_use",
        "create",
        "late_look_up",
        "late_decide",
        "maturity",
        "own_codes",
        "predictive",
        "rebuild",
    }


def test_arguments_have_the_names_of_the_method() -> None:
    case, route = routed(Shop.propensities)
    assert (route.method, route.path, route.in_path) == ("POST", "/campaigns/{name}/propensities", ("name",))
    assert case.arguments("A", draws=50) == {"campaign": "A", "draws": 50}
