"""The console: server-rendered pages over the same use cases as the routes of the API."""

from disco.entrypoints.service.pages import (
    audit,
    campaign,
    campaigns,
    data,
    decisions,
    demand,
    frontier,
    jobs,
    launch,
    learning,
    people,
    planner,
    plans,
    results,
    settings,
    sign_in,
)
from disco.web import shell

_TOPICS = (
    shell,
    sign_in,
    campaigns,
    campaign,
    audit,
    data,
    decisions,
    demand,
    frontier,
    jobs,
    launch,
    learning,
    people,
    planner,
    plans,
    results,
    settings,
)
ROUTERS = tuple(topic.router for topic in _TOPICS)
