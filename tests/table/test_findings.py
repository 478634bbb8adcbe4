"""How findings read, sort and end a command."""

from __future__ import annotations

import csv
import os
import pickle
import shlex

import pytest

from lindley.settings import option_list, option_value
from lindley.table.findings import Finding, TableError, exit_status, listing, render_findings

ERROR = Finding("error", "not-a-number", "'n.d.' is not a number", "Give a number", "glass.csv", (14,), "K39")
WARNING = Finding("warning", "many-features", "20 features for 30 sources", file="glass.csv")
NOTE = Finding("note", "empty-rows", "empty and skipped", file="glass.csv", rows=(3, 9))


def test_a_finding_reads_as_a_sentence() -> None:
    assert str(ERROR) == "glass.csv, row 14, column 'K39': 'n.d.' is not a number. Give a number."
    assert str(WARNING) == "glass.csv: 20 features for 30 sources."
    assert str(NOTE) == "glass.csv, rows 3 and 9: empty and skipped."
    assert str(Finding("note", "x", "all is well", "Is it?")) == "all is well. Is it?"


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([2], "2"),
        ([2, 3], "2 and 3"),
        ([2, 3, 4], "2, 3 and 4"),
        ([2, 3, 4, 5], "2, 3, 4 and 5"),
        ([2, 3, 4, 5, 6], "2, 3, 4 and 2 more"),
        (list(range(2, 2001)), "2, 3, 4 and 1996 more"),
    ],
)
def test_long_lists_are_cut(items: list[int], text: str) -> None:
    assert listing(items) == text


def test_an_error_carries_all_findings_errors_first() -> None:
    error = TableError([NOTE, WARNING, ERROR])
    assert error.findings == (ERROR, WARNING, NOTE)
    assert str(error).splitlines() == [
        "1 error, 1 warning, 1 note:",
        f"error: {ERROR}",
        f"warning: {WARNING}",
        f"note: {NOTE}",
    ]


def test_an_error_survives_the_way_back_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(TableError([NOTE, ERROR])))
    assert isinstance(error, TableError)
    assert error.findings == (ERROR, NOTE)


def test_nothing_found_says_so() -> None:
    assert render_findings([]) == "No errors, warnings or notes."
    assert render_findings([ERROR, ERROR]).startswith("2 errors:")


@pytest.mark.parametrize(
    ("findings", "strict", "status"),
    [
        ([], False, 0),
        ([], True, 0),
        ([NOTE], True, 0),
        ([WARNING, NOTE], False, 0),
        ([WARNING, NOTE], True, 1),
        ([WARNING, ERROR], False, 2),
        ([WARNING, ERROR], True, 2),
    ],
)
def test_exit_status(findings: list[Finding], strict: bool, status: int) -> None:
    assert exit_status(findings, strict) == status


def test_a_column_is_quoted_for_the_command_line_when_it_must_be() -> None:
    assert option_value("F1_50_DRESS") == "F1_50_DRESS"
    assert option_value("Conc (K)") == '"Conc (K)"'
    assert option_value("Na,%") == '"Na,%"'
    assert option_list("K39", "Ti49") == "K39,Ti49"
    assert option_list("Conc (K)") == '"Conc (K)"'


@pytest.mark.skipif(os.name != "posix", reason="quotation by the rules of a POSIX shell")
@pytest.mark.parametrize("name", ["Na, %", "K39", "a b", 'say "x"', "it's", "$HOME", "a`b`", "c\\d", "wow!", "Größe,µ"])
def test_options_read_back_from_the_shell(name: str) -> None:
    assert shlex.split(option_value(name)) == [name]
    (text,) = shlex.split(option_list("K39", name))
    assert list(csv.reader([text])) == [["K39", name]]
