"""Work: what was asked for, how far it is, and how it ended; the same part of a page wherever a job is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from lindley.app.bench import Bench
from lindley.app.forms import Form, post
from lindley.app.jobs import Job, Progress
from lindley.app.site import page, part
from lindley.app.words import Words

__all__ = ["ADDRESSES", "ROUTES", "address", "asked", "duration", "shown_job", "wanted_job"]

ADDRESSES = {"run": "/compare/{}"}
"""The page of a job, by its kind; else /jobs/NUMBER. Whoever adds a kind with a page of its own adds it here."""


def address(job: Job) -> str:
    """Where a job is shown."""
    return ADDRESSES.get(job.kind, "/jobs/{}").format(job.id)


def asked(bench: Bench, kind: str, title: str, command: list[str], files: Mapping[str, str], **more: Any) -> str:
    """The page of a job, which is added unless it is there: one that is done or at work stays, any other starts again."""
    for job in bench.queue.jobs(kind):
        if list(job.command) == command and job.about.get("files") == files:
            bench.queue.go_on(job.id)
            return address(job)
    return address(bench.queue.add(kind, title, command, files=files, **more))


def wanted_job(request: Request, *kinds: str) -> Job:
    """The job of an address, ``{id:int}`` in its route; 404 if there is none, or it is of another kind."""
    job = request.app.state.bench.queue.job(request.path_params["id"])
    if job is None or (kinds and job.kind not in kinds):
        raise HTTPException(404)
    return job  # type: ignore[no-any-return]


def duration(t: Words, seconds: float) -> str:
    """About how long."""
    if seconds < 60:
        return t("less than a minute")
    minutes = round(seconds / 60)
    if minutes < 60:
        return t("1 minute") if minutes == 1 else t("{n} minutes", n=minutes)
    return t("{h} h {m} min", h=minutes // 60, m=f"{minutes % 60:02d}")


def shown_job(request: Request, job: Job) -> str:
    """The part of a page that tells of a job: state, progress, time left, what was said, and what can be done."""
    queue = request.app.state.bench.queue
    progress: Progress = queue.progress(job.id)
    before = sum(each.active and each.id < job.id for each in queue.jobs())
    return part(
        request, "job.html", job=job, progress=progress, before=before, duration=duration, address=address(job),
        trouble=queue.trouble if job.active or queue.is_unwritten(job) else "",
        percent=int(100 * progress.done),
    )  # fmt: skip


async def index(request: Request) -> Response:
    jobs = request.app.state.bench.queue.jobs()
    return page(request, "jobs.html", jobs=jobs, address=address)


async def one(request: Request) -> Response:
    job = wanted_job(request)
    printed = request.app.state.bench.queue.printed(job.id)
    return page(request, "job_page.html", job=job, shown=shown_job(request, job), printed=printed)


async def events(request: Request) -> Response:
    """The part of the page, whenever it changes, as server-sent events; ``end`` when there is no more to come."""
    job = wanted_job(request)
    bench = request.app.state.bench

    async def stream() -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        async for number in bench.changes(job.id):
            now = bench.queue.job(number)
            if now is None:
                return
            if not now.active:
                yield b"event: end\ndata: \n\n"
                return
            lines = "".join(f"data: {line}\n" for line in shown_job(request, now).splitlines())
            yield f"event: part\n{lines}\n".encode()

    return StreamingResponse(stream(), media_type="text/event-stream")


async def cancel(request: Request, form: Form) -> str:
    job = wanted_job(request)
    request.app.state.bench.queue.cancel(job.id)
    return address(job)


async def go_on(request: Request, form: Form) -> str:
    job = wanted_job(request)
    request.app.state.bench.queue.go_on(job.id)
    return address(job)


ROUTES = [
    Route("/jobs", index),
    Route("/jobs/{id:int}", one),
    Route("/jobs/{id:int}/events", events),
    post("/jobs/{id:int}/cancel", cancel),
    post("/jobs/{id:int}/go-on", go_on),
]
