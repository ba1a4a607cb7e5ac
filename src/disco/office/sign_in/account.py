"""One's own account: who somebody is here, and their password."""

from dataclasses import dataclass

from anyio import to_thread
from fastapi import Request, Response

from disco.adapters.shop import ShopFolder
from disco.office.people.use_cases import list_people, way_in
from disco.office.sign_in.use_cases import LEAST_PASSWORD_CHARACTERS, change_password
from disco.records.errors import AuthenticationError, InputError, NotFoundError
from disco.records.people import Role
from disco.web.reading import EMPTY, FormOf, Typed, sentence
from disco.web.route import Routes, ShopOf
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPage(Page):
    """Whoever looks, and their password."""

    template = "account.html"
    rail = ""
    has_password: bool
    typed: Typed = EMPTY
    least: int = LEAST_PASSWORD_CHARACTERS


@router.get("/account", Role.VIEWER)
def account(request: Request, shop: ShopOf) -> Response:
    return respond(request, _account(request, shop))


@router.post("/account/password", Role.VIEWER)
async def password(request: Request, shop: ShopOf, form: FormOf) -> Response:
    """All other sessions of this person end."""
    service, caller = request.app.state.service, request.state.caller

    def changed() -> None:
        if form.as_typed("new_password") != form.as_typed("again"):
            raise InputError("again", found="another password", expected="the new password once more")
        change_password(
            shop.held_store,  # type: ignore[arg-type]  # the service's shop is held open
            name=caller.actor.name,
            password=form.as_typed("password"),
            new_password=form.as_typed("new_password"),
            clock=shop.clock,
            session_id=caller.session_id,
        )

    try:
        await to_thread.run_sync(changed, limiter=service.hashing)
    except (AuthenticationError, InputError) as error:
        # names of fields
        names = {"password": "new_password", "again": "again"} if isinstance(error, InputError) else {}  # nosec B105
        what = {names.get(error.what, "password"): sentence(error)}
        page = await to_thread.run_sync(lambda: _account(request, shop, typed=Typed(errors=what)))
        return respond(request, page, status=422, part="form")
    page = await to_thread.run_sync(lambda: _account(request, shop))
    return respond(request, page, part="form", said="The password was changed. Other browsers have to sign in again.")


def _account(request: Request, shop: ShopFolder, *, typed: Typed = EMPTY) -> AccountPage:
    caller = request.state.caller
    with shop.store() as store:
        known = [one for one in list_people(store, shop.clock).people if one.name == caller.actor.name]
    if not known:
        raise NotFoundError("A key has no account", fix="Sign in as a person.")
    has_password = not known[0].external
    how = f"with {way_in(known[0])}"
    return AccountPage(
        title="Your account",
        answer=f"{caller.actor.name} signs in {how} and is {caller.role}.",
        has_password=has_password,
        typed=typed,
    )
