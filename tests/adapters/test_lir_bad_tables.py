"""Every bad table of the one list inside LiR: what read_table says of it is the error, or a warning of Python's."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

pytest.importorskip("lir", reason="LiR is not installed (Python 3.12 or newer): make test-lir")

from lindley.adapters.lir import Table
from lindley.errors import LindleyError
from lindley.settings import speaking
from tests.bad_tables import BAD_TABLES
from tests.test_bad_tables import examine, expected


@pytest.mark.parametrize("name", BAD_TABLES)
def test_lir_says_the_same(name: str, tmp_path: Path) -> None:
    bad = BAD_TABLES[name]
    path = bad.write(tmp_path)
    with speaking("yaml"):
        told = str(expected(bad, examine(bad, path).findings))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            Table(str(path), **bad.options).get_instances()
            said = ""
        except LindleyError as error:
            said = str(error)
    if bad.level != "note":
        assert told in said + " ".join(str(each.message) for each in warned)
