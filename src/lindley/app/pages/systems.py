"""Systems: trained from a table, validated against the laboratory's criteria, approved for casework, set side by side."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lindley.app import approvals
from lindley.app.approvals import ENDING, System, Validated
from lindley.app.bench import Bench, Stored
from lindley.app.files import plain_file_name
from lindley.app.forms import Form, post
from lindley.app.jobs import Job, typed
from lindley.app.pages.jobs import ADDRESSES, address, asked, shown_job, wanted_job
from lindley.app.pages.tables import options_of
from lindley.app.site import page, report, words
from lindley.app.words import Words
from lindley.errors import LindleyError
from lindley.files import sha256_of, write_whole
from lindley.pages.numerals import fixed, number

__all__ = ["ROUTES"]

ADDRESSES |= {
    "train": "/systems/training/{}",
    "validate": "/systems/validations/{}",
    "versions": "/systems/comparisons/{}",
    "update": "/systems/updates/{}",
}
MODELS = (
    ("robust", "similarity over typicality, also of few sources; some minutes"),
    ("tlm+logistic", "the classical two-level model, calibrated"),
    ("tlm-kde+logistic", "sources that are not normally distributed, calibrated"),
    ("tlm-bayes", "the two-level model, not sure of its variances"),
    ("ht-plda+logistic", "heavy tails, as in speech"),
)
"""Models that are offered, the first one unless another is chosen."""
CHARACTERISTICS = {
    "accuracy": "Accuracy",
    "discriminating_power": "Discriminating power",
    "calibration": "Calibration",
    "robustness": "Robustness",
    "coherence": "Coherence",
    "generalisation": "Generalisation",
    "misleading_evidence": "Misleading evidence",
}
SAME_LABELS = {
    "": "refuse them",
    "same": "are one source",
    "different": "are different sources",
}
"""What labels are that stand in the old and in the new background."""
STATES = {
    "approved": "approved for casework",
    "none": "not approved",
    "withdrawn": "approval withdrawn",
    "changed": "changed since it was approved",
    "differs": "lists of approvals differ",
}
FOR_A_SYSTEM = (
    "source_column", "group_column", "session_column", "instance_column", "header_row", "sheet", "hidden", "decimal",
    "below_limit", "allow_duplicates", "no_profile",
)  # fmt: skip
"""How a table is read for a system, which itself says what the features are: options of ``lindley evaluate``."""
_NAME = re.compile(r"[A-Za-z0-9:+@._=\[\]-]{1,100}")
MOST_REPLICATES, MOST_SEED = 1000, 2**31
LARGEST_CRITERIA = 200_000
"""Bytes."""


@dataclass(frozen=True)
class Criteria:
    """A file of criteria in ``criteria/``; its key is its digest, by which a form names it."""

    key: str
    name: str
    relative: str


@dataclass(frozen=True)
class Report:
    """A validation of a system, with the job that made it."""

    job: Job
    found: Validated
    current: bool  # of the file as it is now


# what there is


def wanted_system(request: Request) -> System:
    """The system of an address, ``{id:int}`` in its route; 404 if there is none."""
    found = approvals.system(request.app.state.bench, request.path_params["id"])
    if found is None:
        raise HTTPException(404)
    return found


async def _headers(bench: Bench, systems: list[System]) -> list[tuple[System, dict[str, Any]]]:
    if not systems:
        return []
    found = await bench.reader.ask("headers", paths=[str(bench.path(each.relative)) for each in systems])
    return list(zip(systems, found, strict=True))


def all_criteria(bench: Bench) -> list[Criteria]:
    """The laboratory's criteria, the latest first."""
    found = []
    places = [*(bench.folder / "criteria").glob("*.yaml"), *(bench.folder / "criteria").glob("*.yml")]
    for path in sorted(places, key=lambda path: (-path.stat().st_mtime, path.name)):
        if not path.name.startswith(".") and path.stat().st_size <= LARGEST_CRITERIA:
            key = sha256_of(path)[:16]
            found.append(Criteria(key, path.name, f"criteria/{path.name}"))
    return found


def reports_of(bench: Bench, one: System) -> list[Report]:
    """The validations of a system, the latest first."""
    found = []
    for job in bench.queue.jobs("validate"):
        if job.about.get("system") == one.file and job.output is not None and not job.active:
            said = approvals.read_validation(bench, job.output)
            if said is not None:
                found.append(Report(job, said, said.of == one.sha256))
    return found


async def index(request: Request) -> Response:
    bench = request.app.state.bench
    systems = await _headers(bench, await asyncio.to_thread(approvals.systems, bench))
    jobs = [job for job in bench.queue.jobs("train", "update") if job.state != "done"][:5]
    return page(request, "systems.html", systems=systems, states=STATES, jobs=jobs, address=address)


# training


async def training(request: Request) -> Response:
    return _training(request)


def _training(request: Request, problem: str = "", chosen: dict[str, str] | None = None) -> Response:
    asked = request.query_params.get("table", "")
    first = {"table": asked if asked.isdecimal() else "", "model": MODELS[0][0], "other": "", "name": "", "replicates": "",
             "seed": "0"}  # fmt: skip
    return page(
        request, "train.html", 422 if problem else 200, tables=request.app.state.bench.tables(), models=MODELS,
        chosen=chosen or first, problem=problem, most_replicates=MOST_REPLICATES,
    )  # fmt: skip


async def train(request: Request, form: Form) -> Response | str:
    """Look whether a system can be trained so, and put it into the queue."""
    bench, t = request.app.state.bench, words(request)
    chosen = {name: form.text(name) for name in ("table", "model", "other", "name", "replicates", "seed")}
    try:
        stored = _table(bench, t, chosen["table"])
        model = chosen["other"] or chosen["model"]
        if not _NAME.fullmatch(model) or "pretrain" in model:
            raise LindleyError(
                t("{name} cannot be asked for here: give the name of a model, without files.", name=model[:60])
            )
        options = ["--seed", str(_whole(t, t("Seed"), chosen["seed"], MOST_SEED))]
        if chosen["replicates"]:
            replicates = _whole(t, t("Bootstrap replicates"), chosen["replicates"], MOST_REPLICATES)
            options += ["--replicates", str(replicates)]
        out = _new_place(bench, t, chosen["name"] or f"{stored.name.rpartition('.')[0]}-{model}")
        plan = await bench.reader.ask(
            "plan_training", path=str(bench.path(stored.relative)), reading=stored.reading, model=model
        )
    except LindleyError as error:
        return _training(request, str(error), chosen)
    command = ["train", stored.relative, "--model", model, *options, *options_of(plan["reading"]), "--out", out]
    title = t("Train {model} on {table}", model=model, table=stored.name)
    return address(bench.queue.add("train", title, command, output=out, files=_files(stored)))


async def _reading(bench: Bench, stored: Stored, *systems: System) -> list[str]:
    """The options by which a command reads a table for systems, if it can be read for them."""
    plan = await bench.reader.ask(
        "plan_validation", systems=[str(bench.path(each.relative)) for each in systems],
        path=str(bench.path(stored.relative)), reading=stored.reading, used=FOR_A_SYSTEM,
    )  # fmt: skip
    return options_of(plan["reading"])


def _files(stored: Stored, *systems: System) -> dict[str, str]:
    """What a job reads, as it is now."""
    return {stored.relative: stored.sha256, **{each.relative: each.sha256 for each in systems}}


def _table(bench: Bench, t: Words, chosen: str) -> Stored:
    stored = bench.table(int(chosen)) if chosen.isascii() and chosen.isdigit() else None
    if stored is None:
        raise LindleyError(t("Choose a table."))
    return stored


def _whole(t: Words, name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= most):
        raise LindleyError(t("{name}: give a whole number from {least} to {most}.", name=name, least=0, most=most))
    return int(text)


def _new_place(bench: Bench, t: Words, name: str) -> str:
    """Where a system is written: a name that no file has, and that no job is about to make."""
    plain = plain_file_name(name.removesuffix(ENDING) + ".x").removesuffix(".x")
    place = f"systems/{plain}{ENDING}"
    taken = {job.output for job in bench.queue.jobs("train", "update") if job.active}
    if bench.path(place).exists() or place in taken:
        raise LindleyError(t("There is a system called {name} already: give another name.", name=plain))
    return place


async def trained(request: Request) -> Response:
    """A job that makes a system."""
    job, bench = wanted_job(request, "train", "update"), request.app.state.bench
    made = [each for each in approvals.systems(bench) if each.relative == job.output] if job.state == "done" else []
    headers = await _headers(bench, made[:1])
    there = job.kind == "update" and job.state == "done" and _updated(bench, job).is_file()
    return page(
        request, "training.html", job=job, shown=shown_job(request, job), printed=bench.queue.printed(job.id),
        made=made[0] if made else None, there=there, doubt=headers[0][1].get("doubt") if headers else None,
    )  # fmt: skip


# one system


async def one(request: Request) -> Response:
    return await _one(request)


async def _one(request: Request, problem: str = "", chosen: dict[str, str] | None = None) -> Response:
    bench, found = request.app.state.bench, await asyncio.to_thread(wanted_system, request)
    ((_, header),) = await _headers(bench, [found])
    reports = reports_of(bench, found)
    current = [each for each in reports if each.current]
    folders = {entry.validation for entry in found.entries if entry.validation}
    rests_on = {folder: approvals.read_validation(bench, folder) for folder in folders}
    altered = [
        entry
        for entry in found.entries
        if entry.validation and getattr(rests_on[entry.validation], "sha256", "") != entry.validation_sha256
    ]
    first = {"who": "", "why": "", "exception": "", "table": "", "criteria": ""}
    first["validation"] = next((str(each.job.id) for each in current if each.found.passed), "")
    jobs = [job for job in bench.queue.jobs("validate") if job.about.get("system") == found.file and job.active]
    return page(
        request, "system.html", 422 if problem else 200, system=found, header=header, states=STATES, reports=reports,
        current=current, characteristics=CHARACTERISTICS, tables=bench.tables(), criteria=all_criteria(bench), jobs=jobs,
        chosen={**first, **(chosen or {})}, problem=problem, number=number, fixed=fixed, address=address,
        same_labels=SAME_LABELS, altered=altered, command=typed(["info", found.relative]),
    )  # fmt: skip


async def approve(request: Request, form: Form) -> Response | str:
    """Approve the bytes that the page showed; a file that was swapped meanwhile is refused."""
    bench, t, found = request.app.state.bench, words(request), wanted_system(request)
    chosen = {name: form.text(name) for name in ("who", "why", "exception", "validation")}
    reports = {str(each.job.id): each.found for each in reports_of(bench, found)}
    try:
        approvals.approve(
            bench, t, found.id, form.text("seen"), chosen["who"], chosen["why"], reports.get(chosen["validation"]),
            chosen["exception"],
        )  # fmt: skip
    except LindleyError as error:
        return await _one(request, str(error), chosen)
    return f"/systems/{found.id}"


async def withdraw(request: Request, form: Form) -> Response | str:
    """Take the approval back."""
    bench, found = request.app.state.bench, wanted_system(request)
    chosen = {name: form.text(name) for name in ("who", "why")}
    try:
        approvals.withdraw(bench, words(request), found.id, chosen["who"], chosen["why"])
    except LindleyError as error:
        return await _one(request, str(error), chosen)
    return f"/systems/{found.id}"


# validation


async def validate(request: Request, form: Form) -> Response | str:
    """Put a validation into the queue; the same one twice is one."""
    bench, t, found = request.app.state.bench, words(request), wanted_system(request)
    chosen = {name: form.text(name) for name in ("table", "criteria")}
    try:
        stored = _table(bench, t, chosen["table"])
        limits = [each for each in all_criteria(bench) if each.key == chosen["criteria"]]
        if chosen["criteria"] and not limits:
            raise LindleyError(t("Choose criteria that are here."))
        options = await _reading(bench, stored, found)
    except LindleyError as error:
        return await _one(request, str(error), chosen)
    files = _files(stored, found)
    if limits:
        options += ["--criteria", limits[0].relative]
        files |= bench.digests(limits[0].relative)
    if form.text("allow_overlap") == "yes":
        options.append("--allow-overlap")
    what = [found.sha256, stored.relative, *options, *([limits[0].key] if limits else [])]
    out = f"systems/validations/{Path(found.file).stem}-{_key(what)}"
    command = ["evaluate", found.relative, stored.relative, *options, "--out", out]
    title = t("Validate {system} on {table}", system=found.file, table=stored.name)
    about = {"system": found.file, "criteria": limits[0].name if limits else ""}
    return asked(bench, "validate", title, command, files, output=out, about=about)


def _key(what: list[str]) -> str:
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:10]


async def validated(request: Request) -> Response:
    job, bench = wanted_job(request, "validate"), request.app.state.bench
    found = None if job.active or job.output is None else approvals.read_validation(bench, job.output)
    of = [each for each in approvals.systems(bench) if each.file == job.about.get("system")]
    return page(
        request, "validation.html", job=job, shown=shown_job(request, job), printed=bench.queue.printed(job.id),
        found=found, of=of[0] if of else None, characteristics=CHARACTERISTICS,
    )  # fmt: skip


async def validation_report(request: Request) -> Response:
    return _report(request, "validate", "validation.html")


def _report(request: Request, kind: str, name: str) -> Response:
    job = wanted_job(request, kind)
    if job.output is None or job.active:
        raise HTTPException(404)
    return report(request.app.state.bench.path(job.output) / name)


async def criteria_page(request: Request) -> Response:
    return _criteria_page(request)


def _criteria_page(request: Request, problem: str = "", text: str = "", name: str = "") -> Response:
    bench = request.app.state.bench
    listed = [(each, bench.path(each.relative).read_text("utf-8", "replace")) for each in all_criteria(bench)]
    asked = next((content for each, content in listed if each.key == request.query_params.get("of")), "")
    return page(
        request, "criteria.html", 422 if problem else 200, listed=listed, problem=problem, name=name,
        text=text or asked or _template(),
    )  # fmt: skip


def _template() -> str:
    from importlib.resources import files

    return files("lindley.casework").joinpath("criteria.yaml").read_text("utf-8")


async def keep_criteria(request: Request, form: Form) -> Response | str:
    """Keep criteria that read: under a name with their digest, so that what a report was judged by is never replaced."""
    bench, t = request.app.state.bench, words(request)
    files = form.files("file")
    text, name = form.text("text"), form.text("name") or t("criteria")
    try:
        data = text.replace("\r\n", "\n").encode() + b"\n"
        if files:
            data, name = await files[0].read(LARGEST_CRITERIA + 1), (files[0].filename or "").rpartition(".")[0]
        if len(data) > LARGEST_CRITERIA:
            raise LindleyError(t("These are no criteria: the file is too large."))
        folder = bench.folder / "criteria"
        folder.mkdir(exist_ok=True)
        digest = hashlib.sha256(data).hexdigest()
        plain = plain_file_name(f"{name}.x").removesuffix(".x")
        place = folder / f"{plain[:40]}-{digest[:8]}.yaml"
        trial = folder / f".{digest}.part"
        try:
            write_whole(trial, data)
            await bench.reader.ask("criteria", path=str(trial))
            write_whole(place, data)
        except LindleyError as error:
            raise LindleyError(str(error).replace(str(trial), name).replace(trial.name, name)) from error
        finally:
            trial.unlink(missing_ok=True)
    except LindleyError as error:
        return _criteria_page(request, str(error), text, form.text("name"))
    return "/systems/criteria"


# versions side by side


async def versions(request: Request) -> Response:
    return await _versions(request)


async def _versions(request: Request, problem: str = "", chosen: dict[str, str] | None = None) -> Response:
    bench = request.app.state.bench
    systems = await _headers(bench, await asyncio.to_thread(approvals.systems, bench))
    ids = [str(each.id) for each, _ in systems]
    asked = {name: request.query_params.get(name, "") for name in ("first", "second")}
    chosen = chosen or {**asked, "table": ""}
    if not chosen["first"] and not chosen["second"] and len(ids) > 1:
        chosen = {**chosen, "first": ids[1], "second": ids[0]}
    pair = [next((each for each in systems if str(each[0].id) == chosen[name]), None) for name in ("first", "second")]
    return page(
        request, "versions.html", 422 if problem else 200, systems=systems, chosen=chosen, tables=bench.tables(),
        pair=[each for each in pair if each is not None], states=STATES, number=number, fixed=fixed, problem=problem,
        jobs=bench.queue.jobs("versions"), address=address,
    )  # fmt: skip


async def compare(request: Request, form: Form) -> Response | str:
    """Put the comparison of two systems into the queue."""
    bench, t = request.app.state.bench, words(request)
    chosen = {name: form.text(name) for name in ("first", "second", "table")}
    systems = {str(each.id): each for each in await asyncio.to_thread(approvals.systems, bench)}
    try:
        pair = [systems[chosen[name]] for name in ("first", "second") if chosen[name] in systems]
        if len(pair) < 2 or pair[0] == pair[1]:
            raise LindleyError(t("Choose two systems."))
        stored = _table(bench, t, chosen["table"])
        options = await _reading(bench, stored, *pair)
    except LindleyError as error:
        return await _versions(request, str(error), chosen)
    if form.text("allow_overlap") == "yes":
        options.append("--allow-overlap")
    out = f"systems/comparisons/{_key([*(each.sha256 for each in pair), stored.relative, *options])}"
    files = [each.relative for each in pair]
    command = ["evaluate", *files, "--data", stored.relative, *options, "--out", out]
    names = {"first": pair[0].file, "second": pair[1].file, "table": stored.name}
    title = t("{first} and {second} on {table}", **names)
    return asked(bench, "versions", title, command, _files(stored, *pair), output=out)


async def compared(request: Request) -> Response:
    job, bench = wanted_job(request, "versions"), request.app.state.bench
    there = job.state == "done" and job.output is not None and (bench.path(job.output) / "comparison.html").is_file()
    return page(
        request,
        "comparison.html",
        job=job,
        shown=shown_job(request, job),
        printed=bench.queue.printed(job.id),
        there=there,
    )


async def comparison_report(request: Request) -> Response:
    return _report(request, "versions", "comparison.html")


# more background


async def update(request: Request, form: Form) -> Response | str:
    """Train a system afresh on its old background and a new table; the old tables are found by their digests."""
    bench, t, found = request.app.state.bench, words(request), wanted_system(request)
    try:
        stored = _table(bench, t, form.text("table"))
        out = _new_place(bench, t, form.text("name") or _next_name(bench, found.file))
        options = await _reading(bench, stored)
    except LindleyError as error:
        return await _one(request, str(error), {"table": form.text("table")})
    ((_, header),) = await _headers(bench, [found])
    digests = {each["sha256"] for each in header.get("files", [])}
    background = [each.relative for each in bench.tables() if each.sha256 in digests]
    options += [part for place in background for part in ("--background", place)]
    if form.text("same_labels") in SAME_LABELS and form.text("same_labels"):
        options += ["--same-labels", form.text("same_labels")]
    command = ["update", found.relative, stored.relative, *options, "--out", out]
    title = t("{system} with more background: {table}", system=found.file, table=stored.name)
    return address(bench.queue.add("update", title, command, output=out, files=_files(stored, found)))


def _next_name(bench: Bench, file: str) -> str:
    stem, count = Path(file).stem, 2
    while bench.path(f"systems/{stem}-{count}{ENDING}").exists():
        count += 1
    return f"{stem}-{count}"


def _updated(bench: Bench, job: Job) -> Path:
    """The report of what more background changed, which stands beside the new system."""
    place = bench.path(job.output or "")
    return place.with_name(f"{place.stem}-update.html")


async def update_report(request: Request) -> Response:
    job = wanted_job(request, "update")
    if job.output is None or job.active:
        raise HTTPException(404)
    return report(_updated(request.app.state.bench, job))


ROUTES = [
    Route("/systems", index),
    Route("/systems/train", training),
    post("/systems/train", train),
    Route("/systems/training/{id:int}", trained),
    Route("/systems/criteria", criteria_page),
    post("/systems/criteria", keep_criteria),
    Route("/systems/versions", versions),
    post("/systems/versions", compare),
    Route("/systems/comparisons/{id:int}", compared),
    Route("/systems/comparisons/{id:int}/report", comparison_report),
    Route("/systems/validations/{id:int}", validated),
    Route("/systems/validations/{id:int}/report", validation_report),
    Route("/systems/updates/{id:int}", trained),
    Route("/systems/updates/{id:int}/report", update_report),
    Route("/systems/{id:int}", one),
    post("/systems/{id:int}/validate", validate),
    post("/systems/{id:int}/approve", approve),
    post("/systems/{id:int}/withdraw", withdraw),
    post("/systems/{id:int}/update", update),
]
