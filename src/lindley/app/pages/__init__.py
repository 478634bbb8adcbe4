"""The pages, each a module of this folder with ``ROUTES``; in the order of the navigation."""

from __future__ import annotations

from starlette.routing import BaseRoute

from lindley.app.pages import cases, compare, first, jobs, systems, tables

__all__ = ["NAVIGATION", "ROUTES"]

ROUTES: list[BaseRoute] = [
    *first.ROUTES,
    *tables.ROUTES,
    *compare.ROUTES,
    *systems.ROUTES,
    *cases.ROUTES,
    *jobs.ROUTES,
]
NAVIGATION = (
    ("/tables", "Tables"),
    ("/compare", "Compare models"),
    ("/systems", "Systems"),
    ("/cases", "Cases"),
    ("/jobs", "Work"),
)
"""Address and name of each part of the bench."""
