"""The console: server-rendered pages over the same use cases as the routes of the API."""

from disco.entrypoints.service.pages import campaign, campaigns, header, sign_in, static_files

ROUTERS = tuple(topic.router for topic in (static_files, sign_in, campaigns, header, campaign))
