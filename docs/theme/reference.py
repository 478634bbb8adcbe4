"""Pages that are made from the program itself, so that they cannot go stale: the command line and the experiment file.

`hooks.py` hands them to MkDocs at every build; the tests read them too. Nothing here needs MkDocs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from lindley.cli.commands import app
from lindley.experiment.config import json_schema

__all__ = ["GENERATED", "changes", "command_line", "contributing", "equations", "experiment_file", "inside_the_site"]

ROOT = Path(__file__).parents[2]
SECTIONS = {
    "DataConfig": (
        "data",
        "A named data set, or a file and how to read it. `data: NAME` is short for `data: {data: NAME}`.",
    ),
    "Protocol": ("protocol", "How the table becomes splits into train, validate and test."),
    "TrainingConfig": ("training", "How neural models are trained; the classical ones have no use for it."),
    "ModelConfig": ("models", "A list. Each entry is a name, which is short for `{model: NAME}`, or these:"),
    "Options": (
        "options",
        "Of one model, inside its entry under `models`: a neural one; of `robust`, `pretrain`, and of `nplda`, `epochs`.",
    ),
    "OutputConfig": ("output", "Where the results go."),
}


def command_line() -> str:
    """Every command with its arguments and options, as ``--help`` has them."""
    root = typer.main.get_command(app)
    pages = [
        "# Command line",
        "Each command says the same itself: `lindley COMMAND --help`. Options of one command can stand in any order. "
        "`A/B` are the two ways to say yes or no.",
        *_command(root, "lindley"),
    ]
    return "\n\n".join(pages) + "\n"


def _command(command: Any, name: str) -> Iterator[str]:
    """One command, and the commands inside it."""
    inside = getattr(command, "commands", {})
    if name != "lindley":
        yield f"## {name}"
    if not inside:
        arguments = " ".join(_argument(p) for p in command.params if p.param_type_name == "argument")
        yield f"```text\n{' '.join(filter(None, [name, arguments, '[OPTIONS]']))}\n```"
    yield from ("\n".join(line.strip() for line in part.splitlines()) for part in (command.help or "").split("\n\n"))
    rows = [row for parameter in command.params if (row := _parameter(parameter))]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows])
    for key, sub in inside.items():
        yield from _command(sub, f"{name} {key}")


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).strip("{}[]").upper()
    return name if parameter.required else f"[{name}]"


def _parameter(parameter: Any) -> str | None:
    """A row of the table: the name and what can be given, then what it means."""
    about = (getattr(parameter, "help", None) or "").strip()
    if parameter.param_type_name == "argument":
        left = f"`{_argument(parameter)}`"
    else:
        if parameter.hidden or parameter.name == "help":
            return None
        names = "/".join([*parameter.opts, *parameter.secondary_opts])
        given = "" if parameter.is_flag else f" {_given(parameter)}"
        left = f"`{names}{given}`"
    default = parameter.default
    if isinstance(default, (int, float, str)) and not isinstance(default, bool):
        about = f"{about} Default: `{getattr(default, 'value', default)}`."
    if parameter.required and parameter.param_type_name == "option":
        about = f"{about} Required."
    return f"| {_cell(left)} | {_cell(about)} |"


def _given(parameter: Any) -> str:
    """What stands behind an option."""
    kind = parameter.type_descriptor.annotation
    if parameter.metavar:
        return str(parameter.metavar)
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")


def _cell(text: str) -> str:
    """For a table of Markdown: one line; outside code, what looks like HTML or like the end of a cell does not."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|") for part in parts[::2]]
    return "`".join(parts)


def experiment_file() -> str:
    """Every entry of an experiment file, from the JSON schema."""
    schema = json_schema()
    top = {key: value for key, value in schema["properties"].items() if "$ref" not in value and key != "models"}
    missing = set(schema["$defs"]) - set(SECTIONS)
    if missing:
        raise LookupError(f"parts of the JSON schema that this page does not name: {sorted(missing)}")
    pages = [
        "# Experiment file",
        "What `lindley run FILE.yaml` reads. [Experiments](../experiments.md) has an example. `lindley schema` prints the JSON "
        "schema that this page is made from, for editors that check a file as it is typed. Only `data` and `models` must be "
        "there.",
        _entries(top, ()),
    ]
    for name, (title, about) in SECTIONS.items():
        part = schema["$defs"][name]
        part = next((kind for kind in part.get("anyOf", []) if kind.get("type") == "object"), part)
        pages += [f"## {title}", about, _entries(part["properties"], part.get("required", ()))]
    return "\n\n".join(pages) + "\n"


def _entries(properties: dict[str, Any], required: list[str] | tuple[str, ...]) -> str:
    rows = ["| entry | values | default | meaning |", "|---|---|---|---|"]
    for name, entry in properties.items():
        if name in required:
            default = "must be given"
        elif entry.get("default") in (None, [], {}):
            default = ""
        else:
            default = f"`{_plain(entry['default'])}`"
        cells = (f"`{name}`", _values(entry), default, entry.get("description", ""))
        rows.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(rows)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(_plain, value))}]" if isinstance(value, (list, tuple)) else str(value)


def _values(entry: dict[str, Any]) -> str:
    """What can be given, in words."""
    if "anyOf" in entry:
        return ", ".join(_values(kind) for kind in entry["anyOf"] if kind.get("type") != "null")
    if "$ref" in entry:
        title = SECTIONS[entry["$ref"].rpartition("/")[2]][0]
        return f"[{title}](#{title})"
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    if "prefixItems" in entry:
        return f"list of {len(entry['prefixItems'])} numbers"
    kind = entry.get("type", "")
    if kind == "array":
        return f"list of {_values(entry.get('items', {})) or 'values'}"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    limits = [(" ≥ ", "minimum"), (" > ", "exclusiveMinimum"), (" ≤ ", "maximum"), (" < ", "exclusiveMaximum")]
    return words.get(kind, kind) + "".join(f"{sign}{entry[key]}" for sign, key in limits if key in entry)


def changes() -> str:
    """The changelog."""
    return (ROOT / "CHANGELOG.md").read_text("utf-8")


def contributing() -> str:
    """How to contribute; links from the root of the repository lead to pages."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").replace("](docs/decisions)", "](docs/decisions/README.md)")
    return text.replace("](docs/", "](../")


def inside_the_site(markdown: str) -> str:
    """Links of a page in docs/ to files beside docs/, as links inside the site."""
    markdown = markdown.replace("](../examples/", "](examples/").replace(
        "](../CHANGELOG.md)", "](reference/changes.md)"
    )
    return markdown.replace("](../CONTRIBUTING.md)", "](reference/contributing.md)")


def equations(markdown: str, mathml: Callable[[str], str]) -> str:
    r"""``$$ … \tag{3} $$`` becomes an equation with its number and an anchor, ``#eq-3``."""

    def one(match: re.Match[str]) -> str:
        latex, tag, number = match.group(1).partition(r"\tag{")
        label = number.strip().rstrip("}")
        anchor, shown = (f' id="eq-{label}"', f"<span>({label})</span>") if tag else ("", "")
        return f'<div class="equation"{anchor}>{mathml(" ".join(latex.split()))}{shown}</div>'

    return re.sub(r"^\$\$\n(.*?)\n\$\$$", one, markdown, flags=re.M | re.S)


GENERATED: dict[str, Callable[[], str]] = {
    "reference/command-line.md": command_line,
    "reference/experiment-file.md": experiment_file,
    "reference/changes.md": changes,
    "reference/contributing.md": contributing,
}
"""The pages by their place in the site."""
