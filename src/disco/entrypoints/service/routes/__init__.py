"""The routes, one file per topic: parse, call one use case, reply."""

from disco.entrypoints.service.routes import campaigns, drafts, health, keys, model, plans, settings, tables

_TOPICS = (health, campaigns, plans, drafts, model, tables, settings, keys)
ROUTERS = tuple(topic.router for topic in _TOPICS)
