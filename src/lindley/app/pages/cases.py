"""Cases: what is said of one, its files and what was recognised in them, its reports, their review, the log; and try-outs."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from lindley.app.approvals import approved, was_approved, withdrawn
from lindley.app.cases import NOTES, SIDES, TRYOUT, Case, Chosen, Side
from lindley.app.forms import Form, post
from lindley.app.jobs import Job, typed
from lindley.app.pages.jobs import ADDRESSES, address, shown_job, wanted_job
from lindley.app.pages.tables import CHOICES, MOST_ROW, options_of
from lindley.app.site import page, report, words
from lindley.app.words import LANGUAGES
from lindley.errors import LindleyError
from lindley.files import sha256_of
from lindley.pages.numerals import fixed
from lindley.shown import CONTROLS

__all__ = ["ROUTES"]

ADDRESSES |= {"case": "/cases/of/{}", "verify": "/cases/verified/{}", "tryout": "/cases/of/{}"}
SCALES = ("nfi", "enfsi")
LONGEST = 500
"""Letters of what is said of a case, as a case file takes it."""
MOST_SHOWN = 200
"""Cases of a list."""
AT_ONCE = 200
"""Cases that one command verifies: a command line has an end."""
SYSTEM = f"{TRYOUT}/try-out-glass.safetensors"
"""The system of try-outs: it is not among those that can be approved."""
READING = {"source_column": "item", "transform": "log10"}
"""How the table of a try-out is read."""


def wanted_case(request: Request) -> Case:
    """The case of an address, ``{id:int}`` in its route; 404 if there is none."""
    case = request.app.state.bench.cases.case(request.path_params["id"])
    if case is None:
        raise HTTPException(404)
    return case  # type: ignore[no-any-return]


# the list, and a new case


async def index(request: Request) -> Response:
    bench = request.app.state.bench
    asked = request.query_params.get("q", "")[:LONGEST].strip()
    found = bench.cases.search(asked) if asked else bench.cases.all()
    jobs = {job.id: job for job in bench.queue.jobs("case")}
    return page(
        request, "cases.html", cases=found[:MOST_SHOWN], more=max(0, len(found) - MOST_SHOWN), asked=asked, jobs=jobs,
        any_done=any(job.state == "done" for job in jobs.values()), any_approved=bool(approved(bench)),
        verified=bench.queue.jobs("verify")[:5],
    )  # fmt: skip


async def new(request: Request) -> Response:
    return _new(request)


def _new(request: Request, said: Mapping[str, str] | None = None, problem: str = "", twice: bool = False) -> Response:
    t = words(request)
    said = {"language": t.language, "scale": SCALES[0], **(said or {})}
    return page(
        request, "case_new.html", 422 if problem else 200, said=said, problem=problem, twice=twice, scales=SCALES,
        report_languages=LANGUAGES, longest=LONGEST,
    )  # fmt: skip


async def create(request: Request, form: Form) -> Response | str:
    """A new draft; a number that is known already is asked about first."""
    bench, t = request.app.state.bench, words(request)
    said = _said(form)
    try:
        notes = await _notes(request, said)
    except LindleyError as error:
        return _new(request, said, str(error))
    before = _same_number(request, notes["case"])
    if before and form.text("again") != "yes":
        problem = t(
            "There is a case with the number {number} already, of {date}. If this is another evaluation of the same case, "
            "say so below.", number=notes["case"], date=before[0].added[:10],
        )  # fmt: skip
        return _new(request, said, problem, twice=True)
    case = bench.cases.create(notes, {"language": said["language"], "scale": said["scale"]})
    offered = _offered(request, case)
    if len(offered) == 1:
        bench.cases.choose(case, offered[0])
    return f"/cases/{case.id}"


def _said(form: Form) -> dict[str, str]:
    said = {name: " ".join(form.text(name).split()) for name in NOTES}
    said["language"] = form.text("language") if form.text("language") in LANGUAGES else "en"
    said["scale"] = form.text("scale") if form.text("scale") in SCALES else SCALES[0]
    return said


async def _notes(request: Request, said: Mapping[str, str]) -> dict[str, str]:
    t = words(request)
    if not said["case"] or not said["examiner"]:
        raise LindleyError(t("Give the number of the case, and who examines it."))
    for name in NOTES:
        if len(said[name]) > LONGEST:
            raise LindleyError(t("A text has {n} letters at most: write less.", n=LONGEST))
        if CONTROLS.search(said[name]):
            raise LindleyError(t("A text holds characters that nobody can see: write it anew."))
    notes = {name: said[name] for name in NOTES if said[name]}
    await request.app.state.bench.reader.ask("notes", given=notes)
    return notes


def _same_number(request: Request, number: str, but: int = 0) -> list[Case]:
    wanted = "".join(number.casefold().split())
    return [
        case
        for case in request.app.state.bench.cases.all()
        if not case.tryout and case.id != but and "".join(case.number.casefold().split()) == wanted
    ]


# one case


async def one(request: Request) -> Response:
    return await _show(request, wanted_case(request))


async def _show(request: Request, case: Case, problem: str = "", asked: Form | None = None) -> Response:
    bench, t = request.app.state.bench, words(request)
    job = bench.cases.job(case)
    training = _training(request) if case.tryout else None
    status = 422 if problem else 200
    shared = {"case": case, "problem": problem, "sides": SIDES, "training": training}
    if job is None:
        return await _draft(request, case, status, shared)
    if job.state != "done":
        return page(request, "case_job.html", status, job=job, shown=shown_job(request, job), **shared)
    found = await bench.reader.ask("results", output=str(bench.path(job.output)), log=str(bench.path(case.log)))
    chosen = request.query_params.get("report", "1")
    reports = found["reports"]
    number = int(chosen) if chosen.isascii() and chosen.isdigit() and len(chosen) < 6 else 1
    number = min(max(number, 1), max(len(reports), 1))
    doubts = _doubts(request, case, job, found)
    signatures = _signatures(reports)
    places = [str(job.output) if Path(str(job.output)).suffix else f"{job.output}/{each['name']}" for each in reports]
    signing = typed(["review", *places, "--reviewer", t("NAME"), "--log", case.log])
    return page(
        request, "case_done.html", status, job=job, found=found, number=number, doubts=doubts, signatures=signatures,
        fixed=fixed, signing=signing, asked=asked, verified=_verified(request, case),
        at={(each["trace"], each["ref"]): place for place, each in enumerate(reports, 1)}, **shared,
    )  # fmt: skip


async def _draft(request: Request, case: Case, status: int, shared: Mapping[str, Any]) -> Response:
    bench = request.app.state.bench
    offered = _offered(request, case)
    if case.tryout and case.system is None and offered:
        bench.cases.choose(case, offered[0])
        case = wanted_case(request)
    files = {side: bench.cases.files(case, side) for side in SIDES}
    seen, found, unread = bench.cases.seen(case), None, ""
    if case.system in offered and any(files.values()):
        try:
            found = await _evidence(request, case)
        except LindleyError as error:
            unread = str(error)
    return page(
        request, "case.html", status, **{**shared, "case": case}, files=files, offered=offered, found=found, unread=unread,
        seen=seen, choices={name: CHOICES[name] for name in ("decimal", "below_limit", "hidden")}, scales=SCALES,
        report_languages=LANGUAGES, longest=LONGEST, gone=case.system is not None and case.system not in offered,
        ready=found is not None and found["usable"] and _one_label(case, found) is None,
        label_problem=None if found is None else _one_label(case, found),
    )  # fmt: skip


def _offered(request: Request, case: Case) -> list[Chosen]:
    """The systems that may be chosen now: those that are approved, and of a try-out its own."""
    bench = request.app.state.bench
    if case.tryout:
        return _tryout_system(request)
    return [Chosen(each.relative, each.sha256) for each in approved(bench)]


async def _evidence(request: Request, case: Case) -> Any:
    bench = request.app.state.bench
    assert case.system is not None
    places = {side: str(bench.path(case.side(side))) for side in SIDES}
    return await bench.reader.ask("evidence", **places, system=str(bench.path(case.system.relative)))


def _one_label(case: Case, found: Mapping[str, Any]) -> Side | None:
    """The side that has a label or a number for one item, and several items."""
    for side in SIDES:
        if len(found[side]["items"]) > 1 and any(case.notes.get(f"{side}_{name}") for name in ("label", "number")):
            return side
    return None


async def say(request: Request, form: Form) -> Response | str:
    bench, case, t = request.app.state.bench, wanted_case(request), words(request)
    said = _said(form)
    try:
        notes = await _notes(request, said)
        if _same_number(request, notes["case"], case.id) and notes["case"] != case.number:
            raise LindleyError(t("There is another case with the number {number} already.", number=notes["case"]))
    except LindleyError as error:
        return await _show(request, case, str(error))
    bench.cases.say(case, notes, {"language": said["language"], "scale": said["scale"]})
    return f"/cases/{case.id}"


def _send(which: Side) -> Any:
    async def send(request: Request, form: Form) -> Response | str:
        bench, case = request.app.state.bench, wanted_case(request)
        sent = form.files("file")
        try:
            if not sent:
                raise LindleyError(words(request)("Choose a file first."))
            for file in sent:
                await asyncio.to_thread(bench.cases.add_file, case, which, file.filename or "", file.file)
        except LindleyError as error:
            return await _show(request, case, str(error))
        return f"/cases/{case.id}#{which}"

    return send


def _which(form: Form) -> Side:
    return "ref" if form.text("side") == "ref" else "trace"


async def remove(request: Request, form: Form) -> str:
    case = wanted_case(request)
    request.app.state.bench.cases.remove_file(case, _which(form), form.text("sha256"))
    return f"/cases/{case.id}#{_which(form)}"


async def read_otherwise(request: Request, form: Form) -> str:
    """How the files of a side are read; nothing of it is a path."""
    case, which = wanted_case(request), _which(form)
    reading: dict[str, Any] = {}
    if not form.text("forget"):
        for name in ("source_column", "session_column", "sheet"):
            if text := form.text(name)[:LONGEST]:
                reading[name] = text
        ignored = [name[:LONGEST] for name in form.texts("ignore_columns") if name and name not in reading.values()]
        if ignored:
            reading["ignore_columns"] = ignored[:1000]
        header = form.text("header_row")
        if header.isascii() and header.isdigit() and 1 <= int(header[:8]) <= MOST_ROW:
            reading["header_row"] = int(header)
        for name in ("decimal", "below_limit", "hidden"):
            if form.text(name) in CHOICES[name] and form.text(name):
                reading[name] = form.text(name)
    request.app.state.bench.cases.read(case, which, reading)
    return f"/cases/{case.id}#{which}"


async def choose_system(request: Request, form: Form) -> Response | str:
    case, t = wanted_case(request), words(request)
    chosen = next((each for each in _offered(request, case) if each.sha256 == form.text("system")), None)
    if chosen is None:
        return await _show(
            request, case, t("This system is not approved for casework, or not any more. Choose another.")
        )
    request.app.state.bench.cases.choose(case, chosen)
    return f"/cases/{case.id}"


async def start(request: Request, form: Form) -> Response | str:
    """Compute what was seen, with a system that is approved at this moment; else show it again."""
    bench, case, t = request.app.state.bench, wanted_case(request), words(request)
    if not case.draft:
        return f"/cases/{case.id}"
    seen = form.text("seen")
    try:
        if case.system not in _offered(request, case):
            raise LindleyError(t("This system is not approved for casework, or not any more. Choose another."))
        if bench.cases.seen(case) != seen:
            raise LindleyError(
                t("The case is not what you saw: files or settings were changed meanwhile. Look at it again.")
            )
        found = await _evidence(request, case)
        if not found["usable"] or _one_label(case, found) is not None:
            raise LindleyError(t("The case cannot be computed as it is: see below."))
        if found["doubt"] and form.text("force") != "yes":
            raise LindleyError(t("This system may say nothing, by its own validation: see below."))
        items = {side: found[side]["items"] for side in SIDES}
        bench.cases.begin(case, seen, items, _title(t, case, items))
    except LindleyError as error:
        return await _show(request, case, str(error))
    return f"/cases/{case.id}"


def _title(t: Any, case: Case, items: Mapping[Side, Any]) -> str:
    name = t("Try-out {number}" if case.tryout else "Case {number}", number=case.number)
    if all(len(labels) == 1 for labels in items.values()):
        return f"{name}: {items['trace'][0][:60]} × {items['ref'][0][:60]}"
    return f"{name}: {len(items['trace'])} × {len(items['ref'])}"


async def change(request: Request, form: Form) -> str:
    case = wanted_case(request)
    request.app.state.bench.cases.reopen(case)
    return f"/cases/{case.id}"


async def discard(request: Request, form: Form) -> str:
    request.app.state.bench.cases.discard(wanted_case(request))
    return "/cases"


async def of_job(request: Request) -> Response:
    job = wanted_job(request, "case", "tryout")
    return RedirectResponse(f"/cases/{int(job.about.get('case', 0))}", 303)


# what came out


def _doubts(request: Request, case: Case, job: Job, found: Mapping[str, Any]) -> list[str]:
    """Why a result is not to be trusted: other files, another system, no approval, not in the log."""
    bench, t = request.app.state.bench, words(request)
    doubts = [str(problem) for problem in found["log"]]
    if not found["reports"]:
        doubts.append(t("The reports are not there any more."))
    for each in found["reports"]:
        name = each["name"]
        if not each["logged"]:
            doubts.append(t("{name} is not what was logged: it was changed after it was written.", name=name))
        for side in SIDES:
            known = set(case.files.get(side, {}).values())
            if not each["files"].get(side) or not set(each["files"][side].values()) <= known:
                doubts.append(t("{name} was computed from another file than the one that you saw.", name=name))
                break
        if case.system is None or each["system"] != case.system.sha256:
            doubts.append(t("{name} was computed with another system than the one that was approved.", name=name))
        if each["doubt"]:
            doubts.append(f"{name}: {each['doubt']}")
    if not case.tryout and case.system is not None:
        if not was_approved(bench, case.system):
            doubts.append(t("No approval of the system is known any more."))
        last = withdrawn(bench, case.system)
        if last is not None:
            before = last.at <= (job.started or "")
            doubts.append(
                t("The approval of the system was withdrawn on {date}, before this was computed.", date=last.at[:10])
                if before
                else t(
                    "The approval of the system was withdrawn on {date}, after this was computed.", date=last.at[:10]
                )
            )
    return list(dict.fromkeys(doubts))


def _signatures(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Who reviewed: each once, with how many of the reports."""
    found: dict[str, dict[str, Any]] = {}
    for each in reports:
        for review in each["reviews"]:
            found.setdefault(review["reviewer"], {**review, "reports": 0})["reports"] += 1
    return list(found.values())


async def _reports(request: Request) -> tuple[Case, Job, Any]:
    bench, case = request.app.state.bench, wanted_case(request)
    job = bench.cases.job(case)
    if job is None or job.state != "done":
        raise HTTPException(404)
    found = await bench.reader.ask("results", output=str(bench.path(job.output)), log=str(bench.path(case.log)))
    return case, job, found


async def _report_path(request: Request) -> Path:
    """The report with the number of the address: names come from the folder, and never from a request."""
    _, job, found = await _reports(request)
    number = request.path_params["n"]
    if not 1 <= number <= len(found["reports"]):
        raise HTTPException(404)
    place: Path = request.app.state.bench.path(job.output)
    return place if place.suffix else place / found["reports"][number - 1]["name"]


async def show_report(request: Request) -> Response:
    return report(await _report_path(request))


async def keep_report(request: Request) -> Response:
    return _download(await _report_path(request), wanted_case(request))


async def keep_pdf(request: Request) -> Response:
    """The report as a PDF, which is made when it is first asked for."""
    path = await _report_path(request)
    written = path.with_suffix(".pdf")
    if not written.is_file() or written.stat().st_mtime < path.stat().st_mtime:
        await request.app.state.bench.reader.ask("pdf", report=str(path))
    return _download(written, wanted_case(request))


async def keep_matrix(request: Request) -> Response:
    case, job, found = await _reports(request)
    name = "matrix.xlsx" if request.path_params["kind"] == "xlsx" else "matrix.html"
    if name not in found["matrix"]:
        raise HTTPException(404)
    return _download(request.app.state.bench.path(job.output) / name, case)


def _download(path: Path, case: Case) -> Response:
    try:
        content = path.read_bytes()
    except OSError:
        raise HTTPException(404) from None
    name = f"{case.folder.rpartition('/')[2]}-{path.name}"
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(content, media_type=kind, headers=headers)


async def review(request: Request, form: Form) -> Response | str:
    """A second signature under all reports of the case, as they were seen."""
    bench, t = request.app.state.bench, words(request)
    case, job, found = await _reports(request)
    place: Path = bench.path(job.output)
    paths = [str(place if place.suffix else place / each["name"]) for each in found["reports"]]
    try:
        if form.text("read") != "yes":
            raise LindleyError(t("Say first that you have read the reports."))
        if CONTROLS.search(form.text("reviewer") + form.text("remark").replace("\r", "").replace("\n", "")):
            raise LindleyError(t("A text holds characters that nobody can see: write it anew."))
        if _doubts(request, case, job, found):
            raise LindleyError(t("There are doubts about these reports: they cannot be signed."))
        seen = form.text("seen").split(",")
        if len(seen) != len(paths):
            raise LindleyError(t("The reports are not those that you saw. Read them again."))
        signed = await bench.reader.ask(
            "review", reports=paths, reviewer=form.text("reviewer"), remark=form.text("remark"),
            log=str(bench.path(case.log)), seen=seen, other=form.text("other") == "yes",
        )  # fmt: skip
        if not signed:
            return await _show(
                request, case, t("This may be the name of the examiner in another spelling. Say that it is another person."),
                form,
            )  # fmt: skip
    except LindleyError as error:
        return await _show(request, case, str(error))
    return f"/cases/{case.id}#review"


# verify, and the log


async def verify(request: Request, form: Form) -> str:
    case = wanted_case(request)
    bench, t = request.app.state.bench, words(request)
    job = bench.cases.job(case)
    if job is None or job.state != "done" or case.system is None:
        raise LindleyError(t("There is no report of this case yet."))
    command = ["verify", job.output, "--systems", case.system.relative]
    title = t("Verify case {number}", number=case.number)
    return address(bench.queue.add("verify", title, command, about={"cases": [case.id]}))


async def verify_all(request: Request, form: Form) -> str:
    bench, t = request.app.state.bench, words(request)
    done = {job.id: job for job in bench.queue.jobs("case") if job.state == "done" and job.output}
    cases = [case for case in bench.cases.all() if case.job in done and case.system is not None]
    if not cases:
        raise LindleyError(t("There is no report of a case yet."))
    added = []
    for first in range(0, len(cases), AT_ONCE):
        some = cases[first : first + AT_ONCE]
        command = ["verify", *(str(done[case.job].output) for case in some)]
        for system in dict.fromkeys(case.system.relative for case in some):
            command += ["--systems", system]
        title = t("Verify {n} cases", n=len(some))
        added.append(bench.queue.add("verify", title, command, about={"cases": [case.id for case in some]}))
    return address(added[0])


async def verified(request: Request) -> Response:
    """What a verification found, in its own words."""
    job, bench = wanted_job(request, "verify"), request.app.state.bench
    printed = bench.queue.printed(job.id)
    cases = [bench.cases.case(number) for number in job.about.get("cases", ())]
    outcome = _outcome(job, printed)
    return page(
        request, "verified.html", job=job, shown=shown_job(request, job), told=printed if outcome else "",
        printed="" if outcome else printed, cases=[case for case in cases if case is not None], outcome=outcome,
    )  # fmt: skip


def _outcome(job: Job, printed: str) -> str:
    """``same``, ``in part``, ``parted``, or nothing where the command found neither."""
    if job.state == "done":
        return "same"
    if job.state != "failed":
        return ""
    return "parted" if "not verified" in printed else "in part" if "verified in part" in printed else ""


def _verified(request: Request, case: Case) -> tuple[Job, str] | None:
    """The last verification that this case was in."""
    queue = request.app.state.bench.queue
    for job in queue.jobs("verify"):
        if case.id in job.about.get("cases", ()):
            return job, _outcome(job, queue.printed(job.id))
    return None


async def log(request: Request) -> Response:
    bench = request.app.state.bench
    parent = TRYOUT if request.query_params.get("of") == TRYOUT else "cases"
    file = f"{parent}/lindley-log.jsonl"
    try:
        found, problem = await bench.reader.ask("log", log=str(bench.path(file)), folder=str(bench.path(parent))), ""
    except LindleyError as error:
        found, problem = None, str(error)
    return page(
        request,
        "log.html",
        found=found,
        problem=problem,
        command=typed(["log", file]),
        tryout=parent == TRYOUT,
        fixed=fixed,
    )


# try-outs


async def try_out(request: Request, form: Form) -> str:
    """One click: a table, a small system, files of a trace and a ref, and a case that is ready to be computed."""
    bench, t = request.app.state.bench, words(request)
    places = await bench.reader.ask("try_out", folder=str(bench.folder / TRYOUT))
    with open(places["table"], "rb") as file:
        stored = bench.store(Path(places["table"]).name, file)
    if not stored.reading:
        bench.choose(stored.id, READING)
    number = 1 + sum(case.tryout for case in bench.cases.all())
    notes = {
        "case": t("TRY-OUT {n}", n=number),
        "examiner": t("a newcomer"),
        "laboratory": t("TRY-OUT with simulated glass: this is no evidence"),
    }
    case = bench.cases.create(notes, {"language": t.language, "scale": SCALES[0]}, tryout=True)
    for side in SIDES:
        with open(places[side], "rb") as file:
            bench.cases.add_file(case, side, Path(places[side]).name, file)
        bench.cases.read(wanted(bench, case.id), side, {"source_column": READING["source_column"]})
    if not bench.path(SYSTEM).is_file():
        reading = options_of({**READING, "no_profile": True})
        command = ["train", stored.relative, "--model", "tlm-kde+logistic", "--replicates", "20", *reading]
        title = t("Try-out: a small system of simulated glass")
        about, files = {"case": case.id}, {stored.relative: stored.sha256}
        bench.queue.add("tryout", title, [*command, "--out", SYSTEM], output=SYSTEM, about=about, files=files)
    return f"/cases/{case.id}"


def wanted(bench: Any, number: int) -> Case:
    """A case that is there."""
    case = bench.cases.case(number)
    assert case is not None
    return case  # type: ignore[no-any-return]


def _tryout_system(request: Request) -> list[Chosen]:
    path = request.app.state.bench.path(SYSTEM)
    return [Chosen(SYSTEM, sha256_of(path))] if path.is_file() else []


def _training(request: Request) -> dict[str, Any] | None:
    """The job that makes the system of try-outs, while there is none."""
    bench = request.app.state.bench
    if bench.path(SYSTEM).is_file():
        return None
    job = next(iter(bench.queue.jobs("tryout")), None)
    return None if job is None else {"job": job, "shown": shown_job(request, job)}


ROUTES = [
    Route("/cases", index),
    Route("/cases/new", new),
    post("/cases/new", create),
    Route("/cases/log", log),
    post("/cases/verify", verify_all),
    Route("/cases/verified/{id:int}", verified),
    Route("/cases/of/{id:int}", of_job),
    post("/tryout", try_out),
    Route("/cases/{id:int}", one),
    post("/cases/{id:int}/notes", say),
    post("/cases/{id:int}/trace", _send("trace")),
    post("/cases/{id:int}/ref", _send("ref")),
    post("/cases/{id:int}/remove", remove),
    post("/cases/{id:int}/reading", read_otherwise),
    post("/cases/{id:int}/system", choose_system),
    post("/cases/{id:int}/start", start),
    post("/cases/{id:int}/change", change),
    post("/cases/{id:int}/discard", discard),
    Route("/cases/{id:int}/reports/{n:int}", show_report),
    Route("/cases/{id:int}/keep/{n:int}", keep_report),
    Route("/cases/{id:int}/pdf/{n:int}", keep_pdf),
    Route("/cases/{id:int}/matrix/{kind}", keep_matrix),
    post("/cases/{id:int}/review", review),
    post("/cases/{id:int}/verify", verify),
]
