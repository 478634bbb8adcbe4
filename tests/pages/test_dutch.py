"""Pages in Dutch, for every kind of model: one number format, and no English.

What is in no language of ours is known by its markup, and by nothing else: names and texts of users, digests, versions and
commands stand in ``code``, ``pre`` or an element with ``translate="no"``, messages of the program in one with ``lang="en"``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from lindley.casework.applicability import CHECKS, TEXTS
from lindley.casework.case import Case, Language, Notes, evaluate_batch, evaluate_case, read_evidence
from lindley.casework.laboratory import load_scale
from lindley.pages.case_page import render_case
from lindley.pages.case_words import WORDS, batch_table, describe_batch, describe_case, translated
from lindley.pages.matrix import matrix_file
from lindley.system.kinds import CALIBRATIONS, GAUSSIANISERS, INTEGRATIONS, KINDS
from lindley.system.names import ModelName
from lindley.system.system import System, load
from lindley.system.train import _how
from tests.casework import factory
from tests.casework.golden.make import FOLDER, SYSTEMS

NAMES = ("ht-plda", "tlm-bayes", "quantile:tlm-kde+pav", *sorted(SYSTEMS))
DECIMAL_POINT = re.compile(r"\d\.\d")
ENGLISH = re.compile(
    r"\b(the|and|with|from|by|to|an|are|were|been|not|none|than|which|that|this|these|there|other|another|each|every|all|"
    r"above|below|times|probable|measurement|measurements|measured|source|sources|trace|traces|reference|references|"
    r"feature|features|table|tables|row|rows|column|columns|label|labels|value|values|pair|pairs|bound|bounds|bounded|"
    r"reported|calculated|models|fitted|trained|cross-fitting|density|error|rate|equal|about|remark|command|files)\b",
    re.IGNORECASE,
)
VOID = ("meta", "link", "img", "br", "hr", "input")


class Visible(HTMLParser):
    """The text of a page and of its pictures, titles and labels, without what is marked as no text of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[tuple[str, bool]] = []

    @property
    def hidden(self) -> bool:
        return any(hides for _, hides in self.open)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        hides = tag in ("title", "style", "script", "code", "pre") or given.get("translate") == "no"
        hides = hides or (tag != "html" and given.get("lang") == "en")
        if tag not in VOID:
            self.open.append((tag, hides))
        if not self.hidden:
            self.texts += [given[name] or "" for name in ("title", "alt", "aria-label") if name in given]

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self.hidden and data.strip():
            self.texts.append(data.strip())


def visible(page: str) -> list[str]:
    parser = Visible()
    parser.feed(page)
    return parser.texts


def wrong(texts: Sequence[str]) -> list[str]:
    """Where there is a decimal point, or a word of English."""
    return [text for text in texts if ENGLISH.search(text) or DECIMAL_POINT.search(text)]


@cache
def system(name: str) -> System:
    if name in SYSTEMS:
        return load(FOLDER / f"{name}.safetensors")
    return factory.system(name, replicates=0 if name == "tlm-bayes" else 2)


def case(name: str, same: bool, language: Language = "nl", scale: str = "nfi") -> Case:
    of = system(name)
    a, b = factory.items(3, 2, 5)
    sides = [_as_measured(of, values) for values in (a[:2], a[2:] if same else b[2:])]
    evidence = [read_evidence(of, values, which) for values, which in zip(sides, ("trace", "ref"), strict=True)]
    notes = Notes("1.5 of the case", "J. de Vries", "spoor A", "ruit B", "lindley case 1.5 the.csv", "2026-01-01")
    return evaluate_case(of, *evidence, load_scale(scale), language, notes, allow_outside=True)


def _as_measured(of: System, values: np.ndarray) -> np.ndarray:
    return values if of.reference is None else np.column_stack([10.0**values * 700, np.full(len(values), 700.0)])


def on_console(text: str, of: System) -> list[str]:
    """Sentences for a terminal, which has no markup: without the names of model and file, and what is said to be English."""
    text, _, _ = text.partition(WORDS["nl"]["noted"])
    return " ".join(text.split()).replace(of.name, "").replace(str(of.file), "").split(". ")


def test_the_rule_finds_what_it_is_for() -> None:
    """The same page in English breaks it throughout, and what is marked does not count."""
    found = wrong(visible(render_case(case("normal-logistic", True, "en"))))
    assert len(found) > 60
    assert wrong(visible('<p>LR = 3.8</p><p title="the LR">x</p><svg><text>1.5</text></svg>')) == [
        "LR = 3.8",
        "the LR",
        "1.5",
    ]
    assert (
        wrong(visible('<code>1.5</code><p><bdi translate="no">the <b>1.5</b></bdi> 1,5</p><i lang="en">the</i>')) == []
    )


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_case(name: str, same: bool) -> None:
    one = case(name, same, scale="enfsi" if same else "nfi")
    page = render_case(one)
    texts = visible(page)
    assert wrong(texts) == []
    assert "<title>1.5 of the case – spoor A vergeleken met ruit B</title>" in page  # where no markup can be
    assert wrong(on_console(describe_case(one), one.system)) == []
    assert any(re.search(r"log10 LR = −?\d+,\d\d", text) for text in texts)
    assert len(texts) > 200


def test_an_lr_of_some_thousands_beside_its_logarithm() -> None:
    """Never 3.800 beside 3.59."""
    one = case("robust", True)
    said = replace(one.explanation, log10_lr=3.588, log10_lr_bounded=3.588, bounds=(-4.0, 4.0))
    text = " ".join(visible(render_case(replace(one, explanation=said))))
    assert "LR = 3\u202f800 log10 LR = 3,59" in text
    assert "ongeveer 3\u202f800 keer zo waarschijnlijk" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_matrix(name: str, tmp_path: Path) -> None:
    of = system(name)
    columns = [*of.features, *([of.reference] if of.reference else [])]
    sides = []
    for which, labels, first in (("trace", ("1.5 the trace", "B"), 0), ("ref", ("C", "2.5"), 2)):
        rows = [_as_measured(of, each[first : first + 2]) for each in factory.items(8, 2, 4)]
        source = [label for label in labels for _ in range(2)]
        path = factory.write_csv(tmp_path / f"{which}.csv", np.concatenate(rows), columns, source)
        sides.append(read_evidence(of, path, which))  # type: ignore[arg-type]
    notes = Notes("1.5 of the case", h1="{trace} van {ref} komt", h2="{trace} van een ander raam komt")
    scale = load_scale("nfi")
    for told in (None, notes):
        batch = evaluate_batch(of, *sides, "lindley case 1.5", "nl", scale=scale, notes=told, allow_outside=True)
        page = matrix_file(batch, ".html").decode("utf-8")
        assert wrong(visible(page)) == []
        assert ("Het spoor van de referentie komt." in page) == (told is not None)
        assert wrong(on_console(describe_batch(batch).replace("1.5 the trace", ""), of)) == []
        table = batch_table(batch)
        assert table is not None
        title, header, rows_of_table, caption = table
        assert wrong([title, header[0], caption, *(cell for row in rows_of_table for cell in row[1:])]) == []
        book = openpyxl.load_workbook(io.BytesIO(matrix_file(batch, ".xlsx")))
        assert book.sheetnames == ["log10 LR gerapporteerd", "log10 LR berekend", "over"]
        cell = book.worksheets[0].cell(2, 2)
        assert (cell.data_type, cell.number_format) == ("n", "0.00")  # a number, which Excel shows in its own marks
        assert wrong([sheet.cell(1, 1).value for sheet in book.worksheets]) == []


def test_every_part_of_a_model_has_words() -> None:
    additions = [*CALIBRATIONS.values(), *INTEGRATIONS.values(), *GAUSSIANISERS.values()]
    for text in [*(each.words for each in additions), *(kind.words for kind in KINDS.values())]:
        found = translated(text, "nl")
        assert found is not None, text
        assert wrong([found]) == []
    table = factory.table()
    for name in KINDS:
        assert translated(_how(ModelName.parse(name), table), "nl") is not None, name


def test_every_warning_of_a_table_has_words() -> None:
    """Those that the reader of tables and its checks may give to a case; tables that are joined are training data."""
    import lindley.table

    folder = Path(lindley.table.__file__).parent
    code = "".join(path.read_text("utf-8") for path in folder.glob("*.py") if path.name != "join.py")
    codes = set(re.findall(r'Finding\(\s*"warning",\s*f?"([a-z-]+)"', code)) | {"date-label"}
    codes |= {"hidden-rows", "hidden-columns", "similar-sources"}
    of_training = {
        "many-features",
        "shared-row",
        "unexpected-size",
        "single-measurement",
        "code-for-missing",
        "scatter-grows",
    }
    of_training |= {"far-from-replicates", "far-from-sources"}
    assert codes > of_training
    assert codes - of_training - {code for code, texts in TEXTS.items() if "nl" in texts} == set()
    assert wrong([text["nl"] for code, text in TEXTS.items() if code not in CHECKS]) == []


def test_a_warning_of_a_table_names_its_cells(tmp_path: Path) -> None:
    of = system("normal-logistic")
    values = factory.items(3, 1, 2)[0]
    path = factory.write_csv(tmp_path / "spoor.csv", np.concatenate([values, values]))
    ref = read_evidence(of, factory.items(3, 1, 5)[0][2:], "ref")
    one = evaluate_case(of, read_evidence(of, path, "trace"), ref, load_scale("nfi"), "nl")
    assert "spoor.csv, rij 2, 3, 4, 5: gelijke metingen zouden meer dan één keer tellen" in describe_case(one)
    assert wrong(visible(render_case(one))) == []
