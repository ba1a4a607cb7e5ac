"""The application: the service of a shop, with all routes and pages."""

import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import disco
from disco.entrypoints.python import Shop
from disco.entrypoints.service import checkout
from disco.entrypoints.service.late_queue import LateQueue, warm
from disco.entrypoints.service.routes import ROUTERS
from disco.office.keys.use_cases import caller_of_key
from disco.office.sign_in.openid import OpenIdSignIn
from disco.office.sign_in.use_cases import caller_of_session
from disco.web.route import DiscoRoute, problem_reply
from disco.web.security import Needed
from disco.web.service import RequestMiddleware, Service
from disco.web.shell import refusal

if TYPE_CHECKING:
    from disco.entrypoints.service.planner_desk import PlannerDesk
    from disco.operations.read_out_cache import KeptReadings
    from disco.operations.what_if import OpenAudiences

_LATE_THREADS = 4  # transactions about late arrivals at once
_SWITCH_S = 0.001  # how long a thread that decides may keep the one that answers waiting; Python's own is 5 ms


class ShopService(Service[Shop]):
    """A service with what the routes and pages of campaigns keep in memory.

    shop: as `Shop.open` gave it. hosts: names under which it answers beside loopback; None: as `refuse_host` says.
    demo: the secret of the link that signs a demo operator in; None: there is no such link.
    """

    def __init__(self, shop: Shop, *, hosts: Collection[str] | None = (), demo: str | None = None) -> None:
        super().__init__(shop, by_key=caller_of_key, by_session=caller_of_session, hosts=hosts)
        self.demo = demo
        self.openid = OpenIdSignIn()
        # SQLite has one writer, whom readers keep from committing: they would sleep in front of each other's locks
        in_a_file = not shop.settings.database_url.startswith("postgresql")
        self.late = LateQueue(self.shop, threads=1 if in_a_file else _LATE_THREADS)

    def close(self) -> None:
        """Close the planners and the database."""
        if "desk" in self.__dict__:  # it is made when the first planner is opened
            self.desk.close()
        super().close()

    @cached_property
    def audiences(self) -> "OpenAudiences":
        """The customers whom planners have open."""
        from disco.operations.what_if import OpenAudiences

        return OpenAudiences(self.settings.service.planner_megabytes)

    @cached_property
    def readings(self) -> "KeptReadings":
        """Read-outs of campaigns that pages have shown."""
        from disco.operations.read_out_cache import KeptReadings

        return KeptReadings()

    @cached_property
    def desk(self) -> "PlannerDesk":
        """Where planners open customers and solve limits."""
        from disco.entrypoints.service.planner_desk import PlannerDesk

        return PlannerDesk(self.audiences, stopping=self.stopping)


def create_app(shop: Shop, *, hosts: Collection[str] | None = (), demo: str | None = None) -> FastAPI:
    """The service of a shop. hosts: names under which it answers beside loopback; None: as `refuse_host` says.
    demo: the secret of the link that signs a demo operator in."""
    service = ShopService(shop, hosts=hosts, demo=demo)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = service.settings.service.threads
        await to_thread.run_sync(warm)
        sys.setswitchinterval(_SWITCH_S)
        try:
            yield
        finally:
            service.stopping.set()
            await service.late.close()
            await to_thread.run_sync(service.close)

    app = routed(lifespan=life)
    app.state.service = service
    app.add_middleware(RequestMiddleware, service=service, shortcut=partial(checkout.shortcut, service=service))
    return app


def roles() -> dict[tuple[str, str], Needed]:
    """The least role for every route, by method and template."""
    routes = (route for router in ROUTERS for route in router.routes)
    return {
        (method, route.path_format): route.needed
        for route in routes
        if isinstance(route, DiscoRoute)
        for method in sorted(route.methods or ())
    }


def routed(**options: Any) -> FastAPI:
    """An application with all routes; without a shop it can only describe itself."""
    app = FastAPI(
        title="DISCO",
        version=disco.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        **options,
    )
    # the routes themselves: `include_router` would build each of them again for every application, at its first request
    app.router.routes.extend(route for router in ROUTERS for route in router.routes)

    async def refused(request: Request, error: Exception) -> Response:
        is_for_people = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
        return refusal(request, error) if is_for_people else problem_reply(request, error)

    app.add_exception_handler(HTTPException, refused)
    return app
