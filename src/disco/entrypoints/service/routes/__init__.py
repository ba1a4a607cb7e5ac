"""All routes: those of campaigns lie here, one file per topic, and those of the office with its features."""

from disco.entrypoints.service import pages
from disco.entrypoints.service.routes import campaigns, declared, health, model, plans, tables, upkeep
from disco.office.audit import routes as audit
from disco.office.drafts import routes as drafts
from disco.office.jobs import routes as jobs
from disco.office.keys import routes as keys
from disco.office.people import routes as people
from disco.office.schedules import routes as schedules
from disco.office.settings import routes as settings
from disco.office.sign_in import demo, openid
from disco.office.sign_in import routes as sign_in
from disco.office.webhooks import routes as webhooks

_PEOPLE = (keys, people, sign_in, openid, demo, audit)
_OFFICE = (drafts, jobs, schedules, webhooks, settings, *_PEOPLE)
_TOPICS = (health, declared, campaigns, plans, model, tables, *_OFFICE, upkeep)
ROUTERS = (*(topic.router for topic in _TOPICS), *pages.ROUTERS)
