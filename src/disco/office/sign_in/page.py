"""The doors: where people sign in, and where they choose a password by an invitation."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request, Response
from starlette.responses import HTMLResponse

from disco.web.route import Routes
from disco.web.security import PUBLIC
from disco.web.shell import Page, PageRoute, respond

router = Routes(tags=["service"], kind=PageRoute)
FIRST_PAGE = "/campaigns"
_MOST_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInPage(Page):
    """Name and password, or an identity provider."""

    template = "sign-in.html"
    rail = ""
    then: str
    """Where a session begins."""
    provider: str | None
    """By whom one can sign in, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationPage(Page):
    """A password is chosen. The token stands behind the # of the address, which no server sees."""

    template = "invitation.html"
    rail = ""


@router.get("/sign-in", PUBLIC, summary="The page where people sign in", response_class=HTMLResponse)
def sign_in_page(
    request: Request, then: Annotated[str, Query(description="A path of this server, to go on with.")] = FIRST_PAGE
) -> Response:
    oidc = request.app.state.service.shop().settings.oidc
    page = SignInPage(
        title="Sign in",
        answer="Sign in to plan campaigns and see what they brought.",
        then=own_path(then),
        provider=None if oidc is None else oidc.name,
    )
    return respond(request, page)


def own_path(then: str) -> str:
    r"""A path of this server; the first page for anything that could lead elsewhere.

    >>> own_path("/jobs?state=done"), own_path("//evil.example"), own_path("/\\evil.example"), own_path("https://evil.example")
    ('/jobs?state=done', '/campaigns', '/campaigns', '/campaigns')

    Browsers leave out tabs and line breaks of an address, so these are refused, too.

    >>> own_path("/\t/evil.example")
    '/campaigns'
    """
    is_path = then.startswith("/") and then[1:2] not in ("/", "\\")
    return then if is_path and then.isprintable() and len(then) <= _MOST_CHARACTERS else FIRST_PAGE


@router.get(
    "/invitation", PUBLIC, summary="The page where invited people choose a password", response_class=HTMLResponse
)
async def invitation_page(request: Request) -> Response:
    answer = "Choose the password that you will sign in with. This link works once."
    return respond(request, InvitationPage(title="Choose a password", answer=answer))
