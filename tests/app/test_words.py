"""Every sentence of the pages is there in Dutch, and the catalogue holds no other."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import yaml
from jinja2 import nodes

import lindley.app
from lindley.app import pages
from lindley.app.pages import compare, systems, tables
from lindley.app.words import Words, dutch

FOLDER = Path(lindley.app.__file__).parent
VALIDATION = yaml.safe_load(files("lindley.pages").joinpath("validation_words.yaml").read_text("utf-8"))
OWN: dict[str, str] = yaml.safe_load((FOLDER / "dutch.yaml").read_text("utf-8")) or {}


def _values(*found: Any) -> set[str]:
    """All texts among the values of dictionaries and tuples."""
    texts: set[str] = set()
    for each in found:
        if isinstance(each, str):
            texts.add(each)
        elif isinstance(each, dict):
            texts |= _values(*each.values())
        elif isinstance(each, tuple | list):
            texts |= _values(*each)
    return texts


CHOSEN = _values(
    [name for _, name in pages.NAVIGATION],
    tables.PARTS,
    {name: {k: v for k, v in each.items() if v not in ("log10", "ln")} for name, each in tables.CHOICES.items()},
    [what for _, _, what in compare.MODELS],
    [what for _, what in systems.MODELS],
    systems.STATES,
    systems.SAME_LABELS,
    systems.CHARACTERISTICS,
    [metric["title"] for each in VALIDATION.values() for metric in each["metrics"].values()],
)
"""Sentences that templates take from dictionaries: ``t(text)``."""
AS_IN_ENGLISH = {"Cllr", "Cllr_min", "Cllr_cal", "devPAV", "LRs", "bootstrap", "{x}"}


def _in_templates() -> Iterator[tuple[str, str]]:
    environment = jinja2.Environment()
    for path in sorted((FOLDER / "templates").glob("*.html")):
        for call in environment.parse(path.read_text("utf-8")).find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name == "t":
                for each in _constants(call.args[0]):
                    yield path.name, each


def _constants(node: nodes.Node) -> list[str]:
    if isinstance(node, nodes.Const):
        return [str(node.value)]
    if isinstance(node, nodes.CondExpr):
        return [*_constants(node.expr1), *(_constants(node.expr2) if node.expr2 else [])]
    return []


SAID = {"HTTPException": 1, "_end": 2, "t": 0, "LindleyError": 0}
"""Calls that say something which a page shows, and which of their arguments it is."""


def _in_code() -> Iterator[tuple[str, str]]:
    for path in sorted(FOLDER.rglob("*.py")):
        if path.name == "server.py":  # what they say is read in the terminal
            continue
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if isinstance(call.func, ast.Call) and getattr(call.func.func, "id", "") == "words":
                name = "t"
            if name in SAID and len(call.args) > SAID[name]:
                for each in _said(call.args[SAID[name]]):
                    yield path.name, each


def _in_commands() -> Iterator[tuple[str, str]]:
    """What jobs tell that they are doing."""
    for path in sorted(FOLDER.parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))) if FOLDER not in path.parents else ():
            if (
                isinstance(call, ast.Call)
                and len(call.args) == 3
                and isinstance(call.args[2], ast.Constant | ast.BinOp)
            ):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                if name in ("progress", "step"):
                    for each in call.args[:2]:
                        for text in _said(each):
                            yield path.name, text


def _said(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value] if node.value else []
    if isinstance(node, ast.IfExp):
        return [*_said(node.body), *_said(node.orelse)]
    if isinstance(node, ast.JoinedStr):  # names and numbers are {} in the catalogue
        return ["".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)]
    return []


@cache
def used() -> dict[str, str]:
    """Every sentence, and where it is said."""
    found = {text: place for place, text in (*_in_templates(), *_in_code(), *_in_commands())}
    return found | dict.fromkeys(CHOSEN, "chosen from a list")


def test_every_sentence_of_the_pages_has_its_dutch() -> None:
    lacking = [
        f"{place}: {text}" for text, place in used().items() if text not in dutch() and text not in AS_IN_ENGLISH
    ]
    assert not lacking, "\n".join(lacking)


def test_no_entry_of_the_catalogue_is_unused_or_empty() -> None:
    assert [text for text in OWN if text not in used()] == []
    assert [text for text, said in OWN.items() if not isinstance(said, str) or not said.strip()] == []


def test_what_is_put_into_a_sentence_is_put_into_the_dutch_one() -> None:
    def names(sentence: str) -> list[str]:
        return sorted(name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None)

    assert [text for text in OWN if names(OWN[text]) != names(text)] == []


def test_a_sentence_with_numbers_is_found_by_its_words() -> None:
    said = Words("nl")("It needed more than 12.5 GB of memory, and was ended.")
    assert "12,5 GB" in said
    assert "geheugen" in said
    assert Words("nl")("never written 3 times") == "never written 3 times"
    assert Words("en")("It took more than 48 hours, and was ended.").startswith("It took")


def test_no_template_has_words_of_its_own() -> None:
    """Text of a template that is not in t(…): names, marks and numbers only."""
    allowed = {"lindley", "– lindley", "SHA-256", "Cllr", "–", "LR", "log10"}
    stray = []
    for path in sorted((FOLDER / "templates").glob("*.html")):
        text = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", path.read_text("utf-8"), flags=re.DOTALL)
        for piece in re.split(r"<[^>]*>|\n", text):
            shown = piece.strip(" ,.:;()·×…")
            if any(letter.isalpha() for letter in shown) and shown not in allowed:
                stray.append(f"{path.name}: {shown!r}")
    assert not stray, "\n".join(stray)


def test_the_catalogue_is_part_of_the_package() -> None:
    assert files("lindley.app").joinpath("dutch.yaml").is_file()
