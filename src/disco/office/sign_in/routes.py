"""People: signing in and out, invitations, roles."""

from datetime import datetime
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Request, Response
from pydantic import BaseModel, Field

from disco.office.people.use_cases import Person
from disco.office.sign_in.use_cases import NewSession, SignedOut, accept_invitation, change_password, sign_in, sign_out
from disco.records.errors import AuthenticationError
from disco.records.people import ActorKind, Role
from disco.web.reading import RequestBody
from disco.web.replies import json_reply, reply
from disco.web.route import Routes
from disco.web.security import (
    CSRF_COOKIE,
    PUBLIC,
    csrf_token,
    is_secure,
    refuse_cross_site,
    session_cookie,
    slowed,
)

router = Routes(tags=["people"])
_API = "/api/v1"
Password = Annotated[str, Field(min_length=1, max_length=1024)]


class SignInRequest(RequestBody):
    """Name and password."""

    name: str = Field(min_length=1, max_length=100)
    password: Password


class AcceptRequest(RequestBody):
    """The token of an invitation, and the password that is chosen."""

    token: str = Field(min_length=1, max_length=200)
    password: Password
    name: str | None = Field(None, min_length=1, max_length=100, description="Of the first administrator.")


class PasswordRequest(RequestBody):
    """The password that was in use, and the new one."""

    password: Password
    new_password: Password


class SignedIn(BaseModel):
    """Who is signed in."""

    name: str
    kind: ActorKind
    role: Role
    csrf_token: str | None = Field(description="For the header X-CSRF-Token of requests that change something.")
    expires_at: datetime | None = None


@router.post("/sign-in", PUBLIC, summary="Begin a session", response_model=SignedIn)
async def begin(request: Request, body: SignInRequest) -> Response:
    """The session is kept in a cookie that no script can read."""
    service = request.app.state.service
    refuse_cross_site(request, service)

    def signed_in() -> NewSession:
        shop = service.shop()
        return sign_in(shop.held_store, name=body.name, password=body.password, clock=shop.clock)

    try:
        session = await to_thread.run_sync(signed_in, limiter=service.hashing)
    except AuthenticationError as refused:
        raise await slowed(refused, request, service) from None
    return with_session(request, session)


def with_session(request: Request, session: NewSession) -> Response:
    """The reply that begins a session in the browser."""
    response = json_reply(
        {
            "name": session.name,
            "kind": "person",
            "role": str(session.role),
            "csrf_token": csrf_token(session.token),
            "expires_at": session.expires_at.isoformat(),
        }
    )
    set_cookies(response, request, session)
    return response


def set_cookies(response: Response, request: Request, session: NewSession) -> None:
    """The session's cookie, and the token that our pages send with their changes."""
    service = request.app.state.service
    seconds = max(0, int((session.expires_at - service.shop().clock.now()).total_seconds()))
    options: dict[str, Any] = {
        "max_age": seconds,
        "path": "/",
        "secure": is_secure(request, service),
        "samesite": "lax",
    }
    response.set_cookie(session_cookie(request, service), session.token, httponly=True, **options)
    response.set_cookie(CSRF_COOKIE, csrf_token(session.token), httponly=False, **options)


@router.post("/sign-out", Role.VIEWER, summary="End the session", response_model=SignedOut)
def end(request: Request) -> Response:
    service = request.app.state.service
    cookie = session_cookie(request, service)
    shop = service.shop()
    response = reply(sign_out(shop.held_store, request.cookies.get(cookie, "")))
    response.delete_cookie(cookie, path="/", secure=is_secure(request, service), httponly=True, samesite="lax")
    response.delete_cookie(CSRF_COOKIE, path="/", secure=is_secure(request, service), samesite="lax")
    return response


@router.get("/me", Role.VIEWER, summary="Who calls", response_model=SignedIn)
async def me(request: Request) -> Response:
    caller = request.state.caller
    token = request.cookies.get(session_cookie(request, request.app.state.service), "")
    return json_reply(
        {
            "name": caller.actor.name,
            "kind": str(caller.actor.kind),
            "role": str(caller.role),
            "csrf_token": csrf_token(token) if caller.session_id is not None else None,
            "expires_at": None,
        }
    )


@router.post("/me/password", Role.VIEWER, summary="Change one's own password", response_model=Person)
async def password(request: Request, body: PasswordRequest) -> Response:
    """All other sessions of this person end."""
    service, caller = request.app.state.service, request.state.caller
    shop = service.shop().by(caller.actor)

    def changed() -> Person:
        return change_password(
            shop.held_store,
            name=caller.actor.name,
            password=body.password,
            new_password=body.new_password,
            clock=shop.clock,
            session_id=caller.session_id,
        )

    return reply(await to_thread.run_sync(changed, limiter=service.hashing))


@router.post("/invitations/accept", PUBLIC, summary="Choose a password by an invitation", response_model=Person)
async def accept(request: Request, body: AcceptRequest) -> Response:
    service = request.app.state.service
    refuse_cross_site(request, service)

    def accepted() -> Person:
        shop = service.shop()
        return accept_invitation(shop.held_store, body.token, password=body.password, clock=shop.clock, name=body.name)

    return reply(await to_thread.run_sync(accepted, limiter=service.hashing))
