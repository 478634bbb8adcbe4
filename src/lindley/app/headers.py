"""What is known of systems, tables for them, and criteria before anything is computed: for the pages of systems.

Runs in the process of `lindley.app.reader`. What a system is stands in the header of its file; its numbers, which need torch,
are not read. A header may be forged: everything of it is a text or a number of a bounded size here, or is left out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lindley.app.look import settled
from lindley.casework.laboratory import load_criteria
from lindley.errors import LindleyError
from lindley.settings import speaking
from lindley.shown import visible
from lindley.system.header import may_say_nothing, read_header, read_system, table_of
from lindley.system.names import ModelName
from lindley.table.config import DataConfig

__all__ = ["criteria", "doubt", "headers", "plan_training", "plan_validation"]

LONGEST = 300
"""Letters of a text of a header that are shown."""
MOST = 500
"""Features, or files, of a header that are shown."""


def headers(paths: Sequence[str]) -> list[dict[str, Any]]:
    """What each system is, or why it cannot be read."""
    return [_header(path) for path in paths]


def _header(path: str) -> dict[str, Any]:
    name = path.replace("\\", "/").rpartition("/")[2]
    try:
        data = read_system(path)
        _, header, layout = read_header(data, name)
        return {"error": "", "sha256": hashlib.sha256(data).hexdigest(), **_facts(header, data, name), "layout": layout}
    except LindleyError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": f"{name}: its header cannot be read ({type(error).__name__})."}


def _facts(header: Mapping[str, Any], data: bytes, name: str) -> dict[str, Any]:
    fields, about = _map(_map(header.get("structure")).get("fields")), _map(header.get("about"))
    casework = _map(fields.get("casework")).get("fields")
    trained_on, validation = _map(about.get("data")), _map(about.get("validation"))
    table = table_of(data, name)
    if table is None or not isinstance(casework, dict):
        raise LindleyError(f"{name} was not trained for casework, or its header is damaged.")
    model = _text(_map(fields.get("name")).get("value"))
    bounds = [_number(_map(each).get("value")) for each in _list(_map(casework.get("bounds")).get("tuple"))[:2]]
    columns = [
        f"{column} [{unit}]" if unit else column
        for column, unit in zip(
            (*table["features"], *([table["reference"]] if table["reference"] else [])), table["units"], strict=True
        )
    ]
    return {
        "model": model,
        "words": _words(model),
        "features": [visible(each[:LONGEST]) for each in columns[:MOST]],
        "count": len(table["features"]),
        "transform": table["transform"],
        "reference": visible(table["reference"][:LONGEST]) if table["reference"] else "",
        "bounds": bounds if len(bounds) == 2 else [None, None],
        "private": not _list(_map(casework.get("digests")).get("tuple")),
        "created": _text(about.get("created")),
        "seed": _number(about.get("seed")),
        "replicates": _number(about.get("bootstrap")),
        "lindley": _text(about.get("lindley")),
        "table": _text(trained_on.get("name")),
        "table_sha256": _text(trained_on.get("sha256")),
        "rows": _number(trained_on.get("rows")),
        "sources": _number(trained_on.get("sources")),
        "files": [
            {"name": _text(each.get("file", each.get("table"))), "sha256": _text(each.get("sha256"))}
            for each in map(_map, _list(trained_on.get("files"))[:MOST])
        ],
        "updates": _text(_map(about.get("updates")).get("file")),
        **{name: _number(validation.get(name)) for name in ("cllr", "cllr_min", "cllr_cal")},
        "doubt": doubt(header),
    }


def doubt(header: Mapping[str, Any]) -> list[float | int] | None:
    """Cllr and its interval of a system that may say nothing, by its own validation; else nothing."""
    validation = _map(_map(header.get("about")).get("validation"))
    ends = _list(validation.get("cllr_interval"))[:2]
    figures = [each for each in map(_number, [validation.get("cllr"), *ends]) if each is not None]
    return figures if figures and may_say_nothing({"cllr": figures[0], "cllr_interval": figures[1:]}) else None


def _words(model: str) -> list[str]:
    with suppress(LindleyError):
        return ModelName.parse(model).parts
    return []


def _map(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _text(found: Any) -> str:
    return visible(found[:LONGEST]) if isinstance(found, str) else ""


def _number(found: Any) -> float | int | None:
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return found


def plan_training(path: str, reading: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Check that a system can be trained, before that waits in the queue; with what it would be trained on."""
    with speaking("shell"):
        ModelName.parse(model)
        described = _described(path, reading).with_profile()
        table = described.load()
        return {"sources": len(table.sources), "features": len(table.features), "reading": settled(described)}


def plan_validation(
    systems: Sequence[str], path: str, reading: Mapping[str, Any], used: Sequence[str]
) -> dict[str, Any]:
    """How a table is read now, if it can be for every one of the systems; ``used`` are the options that count."""
    with speaking("shell"):
        described = _described(path, {name: reading[name] for name in reading if name in used}).with_profile(used)
        for system in systems:
            wanted = table_of(read_system(system), system)
            if wanted is not None:
                described.load(**wanted)
        return {"reading": settled(described)}


def _described(path: str, reading: Mapping[str, Any]) -> DataConfig:
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in reading.items()
    }
    return DataConfig(data=path, **given)


def criteria(path: str) -> dict[str, Any]:
    """What a file of criteria says, or what is wrong with it, by line."""
    return load_criteria(path).to_json()
