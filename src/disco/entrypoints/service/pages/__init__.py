"""The console: server-rendered pages over the same use cases as the routes of the API."""

from disco.entrypoints.service.pages import (
    access,
    added,
    campaign,
    campaigns,
    data,
    decisions,
    demand,
    favoured,
    frontier,
    launch,
    learning,
    planner,
    plans,
    results,
)
from disco.office.audit import page as audit
from disco.office.jobs import page as jobs
from disco.office.keys import page as keys
from disco.office.people import page as people
from disco.office.schedules import page as schedules
from disco.office.settings import page as settings
from disco.office.sign_in import account
from disco.office.sign_in import page as sign_in
from disco.office.webhooks import page as webhooks
from disco.web import shell

_OFFICE = (sign_in, account, audit, jobs, keys, people, settings, schedules, webhooks)
_CAMPAIGN = (campaigns, campaign, decisions, favoured, launch, planner, plans, results)
_SHOP = (access, added, data, demand, frontier, learning)
ROUTERS = tuple(topic.router for topic in (shell, *_OFFICE, *_CAMPAIGN, *_SHOP))
