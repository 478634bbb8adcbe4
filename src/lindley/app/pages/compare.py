"""Compare models: a table, some models, some splits; a run that goes on by itself, and its report."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lindley.app.pages.jobs import shown_job, wanted_job
from lindley.app.site import page

__all__ = ["ROUTES"]


async def index(request: Request) -> Response:
    bench = request.app.state.bench
    return page(request, "compare.html", tables=bench.tables(), runs=bench.queue.jobs("run"))


async def one(request: Request) -> Response:
    job = wanted_job(request, "run")
    return page(request, "job_page.html", job=job, shown=shown_job(request, job), printed="")


ROUTES = [
    Route("/compare", index),
    Route("/compare/{id:int}", one),
]
