"""Compare models: a table, some models, some splits; a run that goes on by itself, and its report."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lindley.app.files import plain_file_name
from lindley.app.forms import Form, post
from lindley.app.pages.jobs import asked, shown_job, wanted_job
from lindley.app.pages.tables import options_of
from lindley.app.site import page, report, words
from lindley.errors import LindleyError

__all__ = ["EXAMPLE", "ROUTES"]

EXAMPLE = "glass-simulated"
"""A named data set, for whoever has no table at hand."""
MODELS = (
    ("robust", True, "similarity over typicality, also of few sources; some minutes"),
    ("tlm", True, "the classical two-level model, as it is"),
    ("tlm+logistic", True, "the same, calibrated: the baseline that everybody knows"),
    ("tlm+logistic+elub", True, "the same, kept to what the data support"),
    ("tlm-kde+logistic", True, "sources that are not normally distributed, calibrated"),
    ("tlm-bayes", False, "the two-level model, not sure of its variances"),
    ("ht-plda+logistic", False, "heavy tails, as in speech"),
    ("ntlm-single-sources-n2-varying", False, "a network of the paper; long"),
)
"""Models that are offered, whether they are chosen to begin with, and what they are for."""
_NAME = re.compile(r"[A-Za-z0-9:+@._=\[\]-]{1,100}")
"""Letters of a model's name; an option that would read a file is for the command line."""
SPLITS, MOST_SPLITS = 5, 1000
MOST_SEED = 2**31


async def index(request: Request) -> Response:
    return _form(request)


def _form(request: Request, problem: str = "", chosen: dict[str, Any] | None = None) -> Response:
    bench = request.app.state.bench
    asked = request.query_params.get("table", "")
    first = {
        "table": asked if asked.isdecimal() else "",
        "models": [name for name, from_the_start, _ in MODELS if from_the_start],
        "more": "",
        "splits": str(SPLITS),
        "seed": "0",
    }
    return page(
        request, "compare.html", 422 if problem else 200, tables=bench.tables(), runs=bench.queue.jobs("run"),
        models=MODELS, chosen=chosen or first, example=EXAMPLE, problem=problem, most_splits=MOST_SPLITS,
    )  # fmt: skip


async def start(request: Request, form: Form) -> Response | str:
    """Look whether the run can be, and put it into the queue; the same run twice is one."""
    bench, t = request.app.state.bench, words(request)
    chosen = {name: form.text(name) for name in ("table", "more", "splits", "seed")} | {"models": form.texts("models")}
    try:
        models = [name for name, _, _ in MODELS if name in form.texts("models")]
        models += [name.strip() for line in csv.reader(io.StringIO(form.text("more"))) for name in line if name.strip()]
        for name in models:
            if not _NAME.fullmatch(name) or "pretrain" in name:
                raise LindleyError(
                    t("{name} cannot be asked for here: give the name of a model, without files.", name=name[:60])
                )
        if not models:
            raise LindleyError(t("Choose at least one model."))
        splits = _number(t("Splits"), form.text("splits"), 1, MOST_SPLITS)
        seed = _number(t("Seed"), form.text("seed"), 0, MOST_SEED)
        name, data, reading, path, files = _table(request, form.text("table"))
        found = await bench.reader.ask("plan", path=path, reading=reading, models=models, splits=splits, seed=seed)
    except LindleyError as error:
        return _form(request, str(error), chosen)
    settings = ["--models", ",".join(models), "--splits", str(splits), "--seed", str(seed)]
    settings += options_of(found["reading"])
    key = hashlib.sha256(json.dumps([data, settings]).encode()).hexdigest()[:10]
    folder = f"runs/{plain_file_name(name.rpartition('.')[0] or name)[:40]}-{key}"
    command = ["run", "demo", "--data", data, *settings, "--out", folder]
    of_models = t("1 model") if len(models) == 1 else t("{n} models", n=len(models))
    on_splits = t("1 split") if splits == 1 else t("{n} splits", n=splits)
    title = t("{name}: {models} on {splits}", name=name, models=of_models, splits=on_splits)
    return asked(bench, "run", title, command, files, output=folder)


def _number(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise LindleyError(f"{name}: give a whole number from {least} to {most}.")
    return int(text)


def _table(request: Request, chosen: str) -> tuple[str, str, dict[str, Any], str, dict[str, str]]:
    """The name of the table that was chosen, what a command calls it, how it is read, its path, and its digest."""
    if chosen == EXAMPLE:
        return EXAMPLE, EXAMPLE, {}, EXAMPLE, {}
    bench = request.app.state.bench
    stored = bench.table(int(chosen)) if chosen.isascii() and chosen.isdigit() else None
    if stored is None:
        raise LindleyError(words(request)("Choose a table."))
    files = {stored.relative: stored.sha256}
    return stored.name, stored.relative, stored.reading, str(bench.path(stored.relative)), files


async def one(request: Request) -> Response:
    job = wanted_job(request, "run")
    bench = request.app.state.bench
    there = job.state == "done" and job.output is not None and (bench.path(job.output) / "report.html").is_file()
    return page(
        request, "run.html", job=job, shown=shown_job(request, job), printed=bench.queue.printed(job.id), there=there
    )


async def show_report(request: Request) -> Response:
    job = wanted_job(request, "run")
    if job.output is None or job.active:
        raise HTTPException(404)
    return report(request.app.state.bench.path(job.output) / "report.html")


ROUTES = [
    Route("/compare", index),
    post("/compare", start),
    Route("/compare/{id:int}", one),
    Route("/compare/{id:int}/report", show_report),
]
