"""The part of the settings page that shows webhooks and changes them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Path, Request, Response

from disco.adapters.shop import ShopFolder
from disco.office.webhooks.use_cases import add_webhook, list_webhooks, remove_webhook, set_webhook_active
from disco.records.errors import InputError
from disco.records.jobs import Event, Webhook
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.wording import local_text
from disco.views.table import Table
from disco.web.reading import EMPTY, FormOf, Typed
from disco.web.route import SECRET, Routes, ShopOf
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)
ItemId = Annotated[str, Path(max_length=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhooksPage(Page):
    """The webhooks, and the form that adds one. Only administrators see any: an address may hold a secret."""

    template = "webhooks.html"
    rail = "Settings"
    webhooks: tuple[Webhook, ...]
    webhooks_table: Table
    events: tuple[str, ...] = tuple(Event)
    hooking: Typed = EMPTY
    hooked: tuple[str, ...] = ()
    """The events that are ticked."""
    secret: str = ""
    """The secret of a webhook that was made just now."""

    def tables(self) -> Mapping[str, Table]:
        return {"webhooks": self.webhooks_table}


def webhooks_page(webhooks: tuple[Webhook, ...], locale: Locale) -> WebhooksPage:
    """Webhooks as they are now."""
    return WebhooksPage(title="Settings", answer="", webhooks=webhooks, webhooks_table=_webhooks(webhooks, locale))


def _page(shop: ShopFolder, **changes: Any) -> WebhooksPage:
    with shop.store() as store:
        return replace(webhooks_page(list_webhooks(store).items, shop.settings.locale), **changes)


@router.post("/webhooks", Role.ADMIN, openapi_extra={SECRET: True})
def hook(request: Request, shop: ShopOf, form: FormOf) -> Response:
    try:
        with shop.store() as store:
            made = add_webhook(store, url=form.text("url"), events=form.texts("events"), clock=shop.clock)
    except InputError as error:
        names = {"event of a webhook": "events", "events of a webhook": "events"}
        typed = Typed.refused(form, error, names=names, otherwise="url")
        page = _page(shop, hooking=typed, hooked=form.texts("events"))
        return respond(request, page, status=422, part="hooks")
    return respond(request, _page(shop, secret=made.secret), part="hooks")


@router.post("/webhooks/{item}/switch", Role.ADMIN)
def switch_webhook(request: Request, shop: ShopOf, item: ItemId, form: FormOf) -> Response:
    with shop.store() as store:
        webhook = set_webhook_active(store, item, active=form.text("active") == "yes")
    said = "The webhook is active again." if webhook.active else "The webhook is paused."
    return respond(request, _page(shop), part="hooks", said=said)


@router.post("/webhooks/{item}/remove", Role.ADMIN)
def unhook(request: Request, shop: ShopOf, item: ItemId) -> Response:
    with shop.store() as store:
        remove_webhook(store, item)
    return respond(request, _page(shop), part="hooks", said="The webhook was removed.")


def _webhooks(webhooks: tuple[Webhook, ...], locale: Locale) -> Table:
    return Table.of(
        "Webhooks",
        webhooks,
        {
            "Address": lambda one: one.url,
            "Is told about": lambda one: ", ".join(one.events),
            "State": lambda one: "told" if one.active else "paused",
            "Made": lambda one: f"{local_text(one.created_at, locale)} by {one.actor.name}",
        },
    )
