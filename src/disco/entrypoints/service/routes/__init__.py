"""The routes, one file per topic: parse, call one use case, reply."""

from disco.entrypoints.service import pages
from disco.entrypoints.service.routes import (
    audit,
    campaigns,
    demo,
    drafts,
    health,
    jobs,
    keys,
    model,
    openid,
    people,
    plans,
    schedules,
    settings,
    tables,
    upkeep,
    webhooks,
)

_PEOPLE = (keys, people, openid, demo, audit)
_TOPICS = (health, campaigns, plans, drafts, model, tables, jobs, schedules, webhooks, settings, *_PEOPLE, upkeep)
ROUTERS = (*(topic.router for topic in _TOPICS), *pages.ROUTERS)
