"""Read an experiment from a built-in name or a YAML file, with some of its values replaced; what does not read has its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lindley.errors import LindleyError
from lindley.experiment.config import Experiment
from lindley.experiment.lines import Lines, read_text, read_yaml
from lindley.table.splits import Protocol

__all__ = ["BUILT_IN", "load_experiment"]

BUILT_IN = ("demo", "paper")
_SECTIONS = {
    "data": "{data: glass.csv}",
    "protocol": "{splits: 21}",
    "training": "{epochs: 2000}",
    "output": "{folder: results/glass}",
}
"""The parts of an experiment that hold names and values, with an example of each."""


_PLAIN = {
    "extra_forbidden": "there is no such setting here; 'lindley schema' lists all",
    "unexpected_keyword_argument": "there is no such setting here; 'lindley schema' lists all",
    "missing": "is missing",
    "tuple_type": "must be a list, such as [A, B]",
    "model_type": "must be a name, or names and values such as {model: tlm, label: benchmark}",
}
"""Messages of pydantic's that speak of Python, in other words."""


def load_experiment(name_or_path: str, overrides: dict[str, dict[str, Any]] | None = None) -> Experiment:
    """A built-in experiment, or one from a YAML file, with some of its values replaced.

    ``overrides`` holds values for the sections (``data``, ``protocol``, ``training``, ``output``) and, under
    ``experiment``, for the top level. A new ``data`` entry starts afresh: the columns of another table would not fit. A
    value of ``training`` counts for all models, also for those with an option of their own. What does not read is told with
    its line.
    """
    content, lines = _read(name_or_path)
    overrides = overrides or {}
    if "data" in overrides.get("data", {}):
        content["data"] = {}
    if isinstance(content.get("data"), str):
        content["data"] = {"data": content["data"]}
    for section, example in _SECTIONS.items():
        given = {} if content.get(section) is None else content[section]
        if not isinstance(given, dict):
            raise LindleyError(
                f"the experiment '{name_or_path}' does not read: {lines.at((section,))}{section} must hold names and "
                f"values, such as {section}: {example}, and not {given!r}"
            )
        content[section] = {**given, **overrides.get(section, {})}
    content |= overrides.get("experiment", {})
    if isinstance(content.get("models"), list):
        content["models"] = [_without(model, overrides.get("training", {})) for model in content["models"]]
    replaced: set[tuple[str, ...]] = {(section, key) for section in _SECTIONS for key in overrides.get(section, {})}
    replaced |= {(key,) for key in overrides.get("experiment", {})}
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        problems = []
        for problem in error.errors():
            message = _PLAIN.get(problem["type"], problem["msg"].removeprefix("Value error, "))
            place = problem["loc"]
            if place == ("protocol",):  # the message names the value that is wrong
                named = [f.name for f in fields(Protocol) if f.name in message and f.name in content["protocol"]]
                place += tuple(named[:1])
            line = "" if any(place[: len(path)] == path for path in replaced) else lines.at(place)
            problems.append(f"  {line}{'.'.join(map(str, place)) or 'experiment'}: {message}")
        raise LindleyError(f"the experiment '{name_or_path}' does not read:\n" + "\n".join(problems)) from error


def _without(model: Any, replaced: Mapping[str, Any]) -> Any:
    """A model without options of its own for what is replaced for all models."""
    if not isinstance(model, dict) or not isinstance(model.get("options"), dict):
        return model
    return {**model, "options": {key: value for key, value in model["options"].items() if key not in replaced}}


def _read(name_or_path: str) -> tuple[dict[str, Any], Lines]:
    if name_or_path in BUILT_IN:
        text, name = files("lindley.experiment").joinpath(f"{name_or_path}.yaml").read_text("utf-8"), name_or_path
    else:
        path = Path(name_or_path)
        if not path.is_file():
            raise LindleyError(
                f"there is no experiment '{name_or_path}': give a built-in one ({', '.join(BUILT_IN)}) or the path of "
                "a YAML file"
            )
        text, name = read_text(path), path.stem
    try:
        content, lines = read_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # the 40th of January is a ValueError
        raise LindleyError(f"{name_or_path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise LindleyError(f"{name_or_path} must hold the keys data and models, such as data: glass.csv")
    return {"name": name, **content}, lines
