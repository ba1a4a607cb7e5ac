"""Signing in through an identity provider (OpenID Connect): there, and back with a code."""

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from disco.entrypoints.service.openid import CALLBACK, attempt_of, set_attempt
from disco.entrypoints.service.routes.people import set_cookies
from disco.operations.openid import Attempt
from disco.operations.sign_in import NewSession
from disco.records.errors import AuthenticationError, DiscoError, RoleError, ServiceError
from disco.web.route import DiscoRoute, problem_reply
from disco.web.security import own_origin, slowed

router = APIRouter(route_class=DiscoRoute, tags=["people"])
_THEN = "/campaigns"  # always: a page that the request could name would lead people anywhere
_Text = Annotated[str | None, Query(max_length=4000)]


@router.get(
    "/sign-in/oidc",
    summary="Sign in at the identity provider",
    status_code=303,
    response_class=RedirectResponse,
)
async def leave(request: Request) -> Response:
    """Leads the browser to the provider that `oidc` in disco.yaml names."""
    service = request.app.state.service

    def begun() -> tuple[Attempt, str]:
        shop = service.shop()
        attempt = Attempt.begin(shop.clock.now())
        return attempt, service.openid.authorization_url(shop, attempt, origin=own_origin(request, service))

    attempt, url = await to_thread.run_sync(begun, limiter=service.openid.limiter)
    response = RedirectResponse(url, 303)
    set_attempt(response, request, attempt)
    return response


@router.get(CALLBACK, summary="Come back from the identity provider", status_code=303, response_class=RedirectResponse)
async def come_back(
    request: Request,
    code: _Text = None,
    state: _Text = None,
    iss: _Text = None,
    error: _Text = None,
) -> Response:
    """Begins a session in a cookie, as signing in with a password does."""
    service = request.app.state.service

    def signed_in() -> NewSession:
        found: NewSession = service.openid.session(
            service.shop(),
            attempt_of(request),
            code=code or "",
            state=state or "",
            issuer=iss,
            error=error,
            origin=own_origin(request, service),
        )
        return found

    try:
        session = await to_thread.run_sync(signed_in, limiter=service.openid.limiter)
        response: Response = RedirectResponse(_THEN, 303)
        set_cookies(response, request, session)
    except DiscoError as refused:
        if isinstance(refused, AuthenticationError | RoleError | ServiceError):
            refused = await slowed(refused, request, service)
        response = problem_reply(request, refused)
    set_attempt(response, request, None)  # whatever came of it, an attempt is used once
    return response
