"""Webhooks: addresses that are told about events."""

from typing import Annotated

from fastapi import Path, Response
from pydantic import Field

from disco.office.webhooks.use_cases import NewWebhook, RemovedWebhook, add_webhook, list_webhooks, remove_webhook
from disco.records.jobs import Event, Webhook
from disco.records.people import Role
from disco.web.reading import RequestBody
from disco.web.replies import Cursor, ItemPage, Limit, json_reply, page_form, page_of, reply
from disco.web.route import SECRET, ClockOf, Routes, StoreOf

router = Routes("/api/v1", tags=["jobs"])


class WebhookRequest(RequestBody):
    """A webhook to be made."""

    url: str = Field(min_length=1, max_length=2000, description="Where deliveries are sent; or mailto: and an address.")
    events: list[Event] = Field(min_length=1, max_length=20, description="What it is told about.")


@router.get("/webhooks", Role.ADMIN, summary="The webhooks, without their secrets", response_model=ItemPage[Webhook])
def webhooks(store: StoreOf, limit: Limit = 100, cursor: Cursor = None) -> Response:
    found, after = page_of(list_webhooks(store).items, limit=limit, cursor=cursor)
    return json_reply(page_form(found, after))


@router.post(
    "/webhooks",
    Role.ADMIN,
    summary="Add a webhook; its secret is shown once",
    status_code=201,
    response_model=NewWebhook,
    openapi_extra={SECRET: True},
)
def add(store: StoreOf, clock: ClockOf, body: WebhookRequest) -> Response:
    """Each delivery is a job and is signed with the secret (docs/jobs.md)."""
    return reply(add_webhook(store, url=body.url, events=body.events, clock=clock), status=201)


@router.delete("/webhooks/{webhook_id}", Role.ADMIN, summary="Remove a webhook", response_model=RemovedWebhook)
def remove(store: StoreOf, webhook_id: Annotated[str, Path(max_length=100)]) -> Response:
    return reply(remove_webhook(store, webhook_id))
