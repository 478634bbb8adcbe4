"""Write down what lindley promises to its users today: ``make freeze``. `test_frozen.py` compares it with what is committed.

Dates, versions, digests and folders differ from one machine to the next, and are replaced by their names (`plain`).
"""

from __future__ import annotations

import html
import inspect
import json
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pytest
import typer
import yaml

import lindley
from lindley.adapters.sklearn import TwoLevelClassifier
from lindley.app.bench import Bench
from lindley.app.site import make_site
from lindley.casework.applicability import TEXTS
from lindley.casework.laboratory import BUILT_IN_SCALES
from lindley.cli.commands import app
from lindley.experiment.config import BUILT_IN, json_schema
from lindley.llrs import Floats
from lindley.pages.run_page import render_run
from lindley.settings import speaking
from lindley.system.header import KEY, read_header
from lindley.system.kinds import CALIBRATIONS, GAUSSIANISERS, INTEGRATIONS, KINDS
from lindley.system.system import System
from lindley.table.datasets import dataset_names
from lindley.table.findings import render_findings
from lindley.table.simulated import simulated_table
from tests.bad_tables import BAD_TABLES
from tests.casework.factory import items, population, write_csv
from tests.command import here
from tests.conftest import shorten_search
from tests.pages.factory import make_report
from tests.test_bad_tables import examine

FOLDER = Path(__file__).parent
DOCUMENTED = FOLDER.parents[1] / "docs/python.md"
PACKAGE = Path(lindley.__file__).parent
NUMBERS = "llrs.txt"
CLOSE = {"robust": 1e-3, "ntlm": 1e-5}
"""How far LLRs may be off, absolutely and relatively, if not 1e-9; trainings differ by 1e-6 from one processor to the next."""
SESSION = """\
check few.csv
train few.csv --model tlm --replicates 6 --out tlm.safetensors
train few.csv --model tlm+logistic --replicates 6 --out calibrated.safetensors
info calibrated.safetensors
case tlm.safetensors --trace odd.csv --ref ref.csv --case 2026-17 --examiner "J. de Vries" --log log.jsonl --out tlm-en.html
case tlm.safetensors --trace trace.csv --ref ref.csv --language nl --out tlm-nl.html
case calibrated.safetensors --trace trace.csv --ref ref.csv --out calibrated-en.html
case calibrated.safetensors --trace odd.csv --ref ref.csv --language nl --scale enfsi --out calibrated-nl.html
case calibrated.safetensors --trace odd.csv --ref ref.csv --out case.json
case calibrated.safetensors --trace odd.csv --ref odd.csv
case calibrated.safetensors --trace new.csv --ref ref.csv --out matrix.html
review tlm-en.html --reviewer "A. Reviewer" --log log.jsonl
verify tlm-en.html calibrated-nl.html
log log.jsonl
evaluate tlm.safetensors new.csv --out .
evaluate tlm.safetensors calibrated.safetensors new.csv --out .
update tlm.safetensors new.csv --same-labels different --out grown.safetensors
run --data new.csv --models tlm,tlm+logistic --splits 2 --no-report --out run
compare run --to tlm
train fwe.csv --out other.safetensors
"""
"""Commands that a laboratory gives, one after the other."""
INLINE = "a|abbr|b|bdi|code|em|i|small|span|strong|sub|sup|tspan"


def plain(text: str, folder: Path) -> str:
    """The text without what differs from one day or machine to the next."""
    for pattern, name in (
        (re.escape(str(folder)), "<folder>"),
        (r"\b[0-9a-f]{64}\b", "<sha256>"),
        (r"\b20\d\d-\d\d-\d\d\b", "<date>"),
        (r"\s+(lindley|numpy|scipy|scikit-learn|torch|Python)\s+\d+\.\d+[\w.+]*", r" \1 <version>"),
        (r"(?m)( +)\d+\.\d │$", r"\1<s> │"),
        (r"<function \S+( at 0x[0-9a-f]+)?>", "<function>"),
        (r"tensor\(\[[^)]*\)", "<tensor>"),
    ):
        text = re.sub(pattern, name, text)
    return text


def text_of(page: str) -> str:
    """What is read on a page: a line for each element that is not inside a line."""
    page = re.sub(r"(?s)<(style|script)\b.*?</\1>|<!--.*?-->", "", page)
    page = re.sub(rf"</?({INLINE})\b[^>]*>", "", page)
    lines = (" ".join(html.unescape(line).split()) for line in re.split(r"<[^>]+>", page))
    return "\n".join(filter(None, lines))


def commands(command: Any, name: str) -> Iterator[str]:
    """Every command, argument and option, with its type, its default and its help."""
    yield f"{name}: {' '.join((command.help or '').split())}"
    for each in command.params:
        kind = re.sub(r"[a-z_]+\.", "", inspect.formatannotation(each.type_descriptor.annotation))
        limits = {limit: getattr(each, limit) for limit in ("metavar", "min", "max")}
        facts = [kind, *(f"{limit}={value}" for limit, value in limits.items() if value is not None)]
        facts.append("required" if each.required else f"default={each.default!r}")
        told = " ".join((getattr(each, "help", None) or "").split())
        yield f"{name} {'/'.join([*each.opts, *each.secondary_opts])} ({', '.join(facts)}): {told}"
    for key, inside in getattr(command, "commands", {}).items():
        yield from commands(inside, f"{name} {key}")


def routes() -> Iterator[str]:
    """The method and the path of every page of the app."""
    for route in make_site(cast(Bench, None)).routes:
        yield from (f"{method} {route.path}" for method in route.methods)  # type: ignore[attr-defined]


def codes() -> set[str]:
    """Words with hyphens where tables are read, as codes of findings are; what is filled in is {}."""
    written = "\n".join(path.read_text("utf-8") for path in PACKAGE.joinpath("table").glob("*.py"))
    found = re.findall(r'"([a-z{}]+(?:-[a-z{}][a-z0-9{}]*)+)"', re.sub(r"{\w+}", "{}", written))
    return {*found} - {"{}-{}", *dataset_names()}


def names() -> Iterator[str]:
    """What can be imported: all that the documentation names, and the packages; of a class also what it offers."""
    places = re.findall(r"(?m)^::: (\S+)", DOCUMENTED.read_text("utf-8"))
    for place in (*places, "lindley", "lindley.calibration", "lindley.evaluation", "lindley.table"):
        home, _, name = place.rpartition(".")
        found = getattr(import_module(home or place), name, None) or import_module(place)
        if not inspect.ismodule(found):
            yield from called(place, found)
            continue
        for each in found.__all__:
            yield from called(f"{place}.{each}", getattr(found, each))


def called(place: str, value: Any) -> Iterator[str]:
    """A name with the parameters that it takes, and those of its methods."""
    value = getattr(value, "__func__", value)  # of a class method
    of_class = inspect.isclass(value) and not issubclass(value, Exception)
    if not of_class and not inspect.isfunction(value):
        yield place
        return
    taken = inspect.signature(value)
    bare = [each.replace(annotation=each.empty) for each in taken.parameters.values()]
    yield f"{place}{taken.replace(parameters=bare, return_annotation=taken.empty)}"
    for home in value.__mro__ if of_class else ():
        for name in vars(home) if home.__module__.startswith("lindley") else ():
            if not name.startswith("_"):
                yield from called(f"{place}.{name}", inspect.getattr_static(value, name))


def choices() -> Iterator[str]:
    """What can be typed as the name of a model, a data set, an experiment or a scale."""
    for what, known in (("model", KINDS), ("with", INTEGRATIONS), ("before", GAUSSIANISERS), ("after", CALIBRATIONS)):
        yield from (f"{what} {name}: {each.label}; {each.words}" for name, each in known.items())
    for what, listed in (("data set", dataset_names()), ("experiment", BUILT_IN), ("scale", BUILT_IN_SCALES)):
        yield from (f"{what} {name}" for name in listed)
    for section, entries in yaml.safe_load((PACKAGE / "adapters/lir/registry.yaml").read_text("utf-8")).items():
        yield from (f"LiR {section} {name}: {target}" for name, target in entries.items())


def keys(value: Any, at: str) -> Iterator[str]:
    """Where values stand in JSON; the names of formats and of stored classes with what they are."""
    if isinstance(value, dict):
        for key, inside in value.items():
            told = key in ("format", "schema", "kind") and not isinstance(inside, dict)
            yield from [f"{at}.{key} = {inside}"] if told else keys(inside, f"{at}.{key}")
    elif isinstance(value, list):
        yield from chain.from_iterable(keys(inside, f"{at}[]") for inside in value or [None])
    else:
        yield at


def system_keys(content: bytes) -> set[str]:
    """The tensors of a system file, with their numbers of axes, and the rest of its header."""
    tensors, header, _ = read_header(content, "system")
    del tensors["__metadata__"]
    held = [f"tensor {path}: {each['dtype']}, {len(each['shape'])} axes" for path, each in tensors.items()]
    return {re.sub(r"\.\d+\b", "[]", path) for path in (*held, *keys(header, f"header {KEY}"))}


def fitted() -> Iterator[tuple[str, System, Floats]]:
    """A model of every kind on 40 sources of the embedded data set, and LLRs (traces, refs) of 10 others."""
    whole = simulated_table()
    values = whole.values.reshape(len(whole.sources), -1, len(whole.features))[..., ::5]  # (source, instance, feature)
    known, new = values[:40, :3], values[40:50]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        shorten_search(patch)
        warnings.simplefilter("ignore")  # of so few sources
        for name, kind in KINDS.items():
            model = TwoLevelClassifier(name, options={"epochs": 2} if kind.is_trained else None, random_state=3)
            model.fit(known.reshape(-1, known.shape[2]), np.repeat(whole.sources[:40], 3))
            yield name, model.system_, model.decision_matrix(new[:, :2], new[:, 2:4])


def settled(made: str, kept: str) -> str:
    """Lines of a name and its LLRs; those that were kept, where they are as good as equal."""
    lines = made.splitlines()
    for at, (now, then) in enumerate(zip(lines, kept.splitlines(), strict=False)):
        (name, *found), (before, *expected) = now.split(), then.split()
        if (name, len(found)) == (before, len(expected)):
            numbers = np.array([found, expected], dtype=float)
            close = CLOSE.get(name.partition("-")[0], 1e-9)
            lines[at] = then if np.allclose(*numbers, rtol=close, atol=close) else now
    return "\n".join(lines) + "\n"


def session(folder: Path) -> Iterator[str]:
    """What the commands of a session print; their files are in the folder."""
    for name, (values, source) in {"few": population(60, 4, 1), "new": population(40, 3, 77)}.items():
        write_csv(folder / f"{name}.csv", values.round(6), source=source)
    a, b = items(3, 2, 5)
    for name, values in {"trace": a[:2], "ref": a[2:], "odd": b[:1] + 3}.items():
        write_csv(folder / f"{name}.csv", values.round(6))
    for line in SESSION.splitlines():
        done = here(*shlex.split(line), cwd=folder)
        yield f"$ lindley {line}\n{done.stdout}{done.stderr}[{done.returncode}]\n"


def findings(folder: Path) -> Iterator[str]:
    """What is said of every bad table."""
    with speaking("shell"):
        for name, bad in BAD_TABLES.items():
            yield f"# {name}\n{render_findings(examine(bad, bad.write(folder)).findings)}\n"


def make(folder: Path) -> dict[str, str]:
    """All files by their names; the folder is for what is made on the way."""
    texts, formats, rows = {"schema.json": json.dumps(json_schema(), indent=1)}, [], []
    texts["findings.txt"] = "\n".join(findings(folder))
    holders: dict[str, list[str]] = {}
    for name, fit, llr in fitted():
        rows += [f"{name} {' '.join(f'{value:.12g}' for value in row)}" for row in llr.tolist()]
        for line in system_keys(fit.to_bytes()):
            holders.setdefault(line, []).append(name)
    texts[NUMBERS] = "\n".join(rows)
    for line, kinds in holders.items():
        formats.append(f"system {line} ({'every kind' if len(kinds) == len(KINDS) else ', '.join(kinds)})")

    with warnings.catch_warnings():
        warnings.simplefilter("default")  # which commands print
        texts["session.txt"] = "\n".join(session(folder))
    for path in folder.glob("*.html"):
        texts[f"{path.stem}.txt"] = text_of(path.read_text("utf-8"))
    for path in (*folder.glob("*.json"), folder / "run/results.json"):
        formats += keys(json.loads(path.read_text("utf-8")), path.name)
    for entry in folder.joinpath("log.jsonl").read_text("utf-8").splitlines():
        formats += keys(json.loads(entry), "log.jsonl")
    formats += (f"calibrated {line}" for line in system_keys(folder.joinpath("calibrated.safetensors").read_bytes()))
    formats += (path.relative_to(folder).as_posix() for path in folder.glob("run/**/*") if path.is_file())
    texts["run.txt"] = text_of(render_run(make_report(axes=2, neural=1, epochs=20, sources=12), {}))

    ledger: dict[str, Iterable[str]] = {
        "commands": commands(typer.main.get_command(app), "lindley"),
        "routes": routes(),
        "codes of findings": codes(),
        "remarks": (f"{code} {language}: {text}" for code, texts in TEXTS.items() for language, text in texts.items()),
        "names in Python": names(),
        "choices": choices(),
        "formats": formats,
    }
    texts["ledger.txt"] = "\n\n".join("\n".join([f"# {what}", *sorted(set(it))]) for what, it in ledger.items())
    return {name: plain(text, folder).rstrip("\n") + "\n" for name, text in texts.items()}


def main() -> None:
    with TemporaryDirectory() as folder:
        for name, text in make(Path(folder).resolve()).items():
            path = FOLDER / name
            kept = path.read_text("utf-8") if path.exists() else ""
            path.write_text(settled(text, kept) if name == NUMBERS else text, "utf-8", newline="\n")


if __name__ == "__main__":
    main()
