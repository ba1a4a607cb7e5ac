"""The link of `disco serve --demo`: it signs an operator of the simulated shop in."""

import hmac
from typing import Annotated

from anyio import to_thread
from fastapi import Path, Request, Response

from disco.office.people.use_cases import DEMO_ISSUER
from disco.office.sign_in.routes import set_cookies
from disco.office.sign_in.use_cases import NewSession, sign_in_external
from disco.records.errors import NotFoundError
from disco.records.people import Role
from disco.web.route import Routes
from disco.web.security import PUBLIC, refuse_cross_site
from disco.web.shell import PageRoute, go_to

router = Routes(is_described=False, kind=PageRoute)
_NAME = "Demo operator"  # the demo's last campaign is theirs


@router.get("/demo/{secret}", PUBLIC)
async def enter(request: Request, secret: Annotated[str, Path(max_length=100)]) -> Response:
    """Whoever has the link may come in, as often as they like, until the server ends."""
    service = request.app.state.service
    if service.demo is None or not hmac.compare_digest(secret.encode(), service.demo.encode()):
        raise NotFoundError("The link is not valid", fix="`disco serve --demo` prints one that is.")
    refuse_cross_site(request, service)

    def signed_in() -> NewSession:
        shop = service.shop()
        return sign_in_external(
            shop.held_store, issuer=DEMO_ISSUER, subject=_NAME, name=_NAME, role=Role.ADMIN, clock=shop.clock
        )

    session = await to_thread.run_sync(signed_in)
    response = go_to(request, "/campaigns")
    set_cookies(response, request, session)
    return response
