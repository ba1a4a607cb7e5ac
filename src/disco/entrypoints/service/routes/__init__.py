"""The routes, one file per topic: parse, call one use case, reply."""

from disco.entrypoints.service.routes import campaigns, health, model, plans, tables

ROUTERS = (health.router, campaigns.router, plans.router, model.router, tables.router)
