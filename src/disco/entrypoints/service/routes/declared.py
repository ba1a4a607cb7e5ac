"""The routes of the API that are made from the declarations of use cases."""

from collections.abc import Callable, Iterator
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args

from fastapi import Path, Query, Request, Response
from pydantic.fields import FieldInfo

from disco.entrypoints.python import Shop
from disco.entrypoints.service.shop_of import ShopOf
from disco.entrypoints.use_cases import USE_CASES, ApiRoute, UseCase
from disco.office.jobs.bodies import BODIES
from disco.office.jobs.routes import Accepted, ask_for
from disco.web.replies import reply
from disco.web.route import Routes
from disco.web.security import refuse_below


def _handler(case: UseCase, route: ApiRoute) -> Callable[..., Response]:
    """What FastAPI calls. Its signature says what a request holds, as the declaration does."""

    def handle(shop: Shop, request: Request, *, body: Any = None, **given: Any) -> Response:
        named = {} if body is None else dict(body)
        for name, needed in route.roles.items():
            if (given | named)[name]:
                refuse_below(request, needed)
        if case.job is not None and body is not None:
            return ask_for(shop, request, case.job, body)
        in_path = [given.pop(name) for name in route.in_path]
        arguments = case.arguments(*in_path, **given, **named)
        if case.job is not None:
            return ask_for(shop, request, case.job, BODIES[case.job](**arguments))
        return reply(case.function(shop, **arguments))

    handle.__name__ = route.name or case.function.__name__
    handle.__doc__ = route.about or None
    handle.__signature__ = Signature(list(_parameters(case, route)))  # type: ignore[attr-defined]
    return handle


def _parameters(case: UseCase, route: ApiRoute) -> Iterator[Parameter]:
    yield Parameter("shop", Parameter.KEYWORD_ONLY, annotation=ShopOf)
    yield Parameter("request", Parameter.KEYWORD_ONLY, annotation=Request)
    defaults = signature(case.function).parameters
    for name, kind in route.takes.items():
        described = next((one.description for one in get_args(kind) if isinstance(one, FieldInfo)), None)
        if name in route.in_path:
            read, default = Annotated[kind, Path(description=described)], Parameter.empty
        else:
            read, default = Annotated[kind, Query(description=described)], defaults[name].default
        yield Parameter(name, Parameter.KEYWORD_ONLY, annotation=read, default=default)
    model = route.body or (None if case.job is None or route.takes else BODIES[case.job])
    if model is not None:
        needed = any(field.is_required() for field in model.model_fields.values())
        yield Parameter(
            "body", Parameter.KEYWORD_ONLY, annotation=model, default=Parameter.empty if needed else model()
        )


router = Routes("/api/v1")
for _case in USE_CASES:
    if _case.route is not None:
        _is_job = _case.job is not None
        router.add(
            _case.route.method,
            _case.route.path,
            _case.route.role,
            _handler(_case, _case.route),
            summary=_case.route.summary,
            tags=[*_case.route.topics],
            status_code=202 if _is_job else 200,
            response_model=Accepted if _is_job else _case.kind,
        )
