"""Every bad table of the one list, at every door: the same finding, and no table behind an error."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lindley.app.look import look
from lindley.settings import speaking
from lindley.table.findings import Finding
from lindley.table.read import Examination, examine_table, read_table
from tests.attacks.door import lindley
from tests.attacks.workbooks import book, sheet
from tests.bad_tables import BAD_TABLES, HEAD, BadTable, good


def examine(bad: BadTable, path: Path) -> Examination:
    settings: dict[str, Any] = {
        name.removesuffix("_columns").removesuffix("_column"): value for name, value in bad.options.items()
    }
    return examine_table(path, **settings)


def expected(bad: BadTable, findings: tuple[Finding, ...]) -> Finding:
    hits = [each for each in findings if each.code == bad.code]
    assert hits, [str(each) for each in findings]
    return hits[0]


@pytest.mark.parametrize("name", BAD_TABLES)
def test_read_table_and_the_command_line_and_the_app_say_the_same(name: str, tmp_path: Path) -> None:
    bad = BAD_TABLES[name]
    path = bad.write(tmp_path)
    start = time.process_time()
    with speaking("shell"):
        examined = examine(bad, path)
        finding = expected(bad, examined.findings)
        told = str(finding)
    assert time.process_time() - start < 10
    assert finding.level == bad.level
    assert bad.said in told
    assert bad.file in told
    assert (examined.table is None) == any(each.level == "error" for each in examined.findings)

    options = [
        part
        for name, value in bad.options.items()
        for part in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]
    answer = lindley("check", path, *options)
    assert " ".join(told.split()) in " ".join(answer.text.split())
    assert (answer.status == 2) == (examined.table is None)

    seen = look(str(path), bad.options)
    assert [each["level"] for each in seen["findings"] if each["code"] == bad.code][:1] == [bad.level]
    assert seen["usable"] == (examined.table is not None)


def test_merged_labels_and_shown_limits_read_as_their_cells_would(tmp_path: Path) -> None:
    """What Excel shows is what counts: a merged label holds for its rows, and <4 is read as that text."""
    plain = tmp_path / "plain.xlsx"
    plain.write_bytes(book(sheet(good())))
    merged = read_table(BAD_TABLES["merged labels"].write(tmp_path))
    assert merged.sha256() == read_table(plain).sha256()
    limits = [[source, k, "<4" if k_ti < 4 else k_ti] for source, k, k_ti in good()[1:]]
    plain.write_bytes(book(sheet([HEAD, *limits])))
    shown = read_table(BAD_TABLES["shown below a limit, read as half"].write(tmp_path), below_limit="half")
    assert shown.sha256() == read_table(plain, below_limit="half").sha256()
