"""The first page: what there is, what is at work, and where to begin."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lindley.app import approvals
from lindley.app.site import page

__all__ = ["ROUTES"]


async def first(request: Request) -> Response:
    bench = request.app.state.bench
    jobs = bench.queue.jobs()
    return page(
        request,
        "first.html",
        tables=bench.tables()[:5],
        active=[job for job in jobs if job.active],
        broken=[job for job in jobs if job.state == "broken"],
        folder=str(bench.folder),
        trouble=bench.queue.trouble,
        damaged=bench.database.damaged[:3],
        unread=approvals.unread(bench) if bench.database.damaged else [],
    )


ROUTES = [Route("/", first)]
