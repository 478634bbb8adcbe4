"""Tables that are in memory: of a data frame, a dictionary and arrays the same comes as of a file, checks included."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lindley.errors import LindleyError
from lindley.table import Table, TableError, examine_table, export_csv, read_table

Columns = dict[str, list[Any]]
KINDS: dict[str, Callable[[Columns], Any]] = {
    "dict": lambda columns: columns,
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "polars, lazy": lambda columns: pl.LazyFrame(columns, strict=False),
}


def good() -> Columns:
    """8 sources × 3 instances, two features."""
    rng = np.random.default_rng(1)
    return {
        "item": [f"S{i // 3 + 1}" for i in range(24)],
        "K39 [ppm]": rng.lognormal(1, 0.4, 24).round(6).tolist(),
        "Ti49": rng.lognormal(1, 0.4, 24).round(6).tolist(),
    }


def as_file(folder: Path, columns: Columns) -> Path:
    path = folder / "table.csv"
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"transform": "log10", "reference": "Ti49"}], ids=["plain", "ratio"])
def test_a_frame_reads_as_its_file_does(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    table = read_table(KINDS[kind](good()), source="item", **settings)
    file = read_table(as_file(tmp_path, good()), source="item", **settings)
    assert repr(table) == repr(file)
    assert table.sha256() == file.sha256()
    assert table.units == file.units
    assert table.transform == file.transform
    assert [str(finding) for finding in table.findings] == [
        str(finding).replace("table.csv", "table") for finding in file.findings
    ]


def test_arrays_read_as_their_file_does(tmp_path: Path) -> None:
    columns = good()
    values = np.column_stack([columns["K39 [ppm]"], columns["Ti49"]])
    expected = read_table(as_file(tmp_path, columns), source="item")
    for labels in (columns["item"], np.array(columns["item"]), pd.Series(columns["item"]), pl.Series(columns["item"])):
        table = read_table(values, source=labels, features=["K39", "Ti49"], units=["ppm", None])
        assert table.sha256() == expected.sha256()
        assert table.units == ("ppm", None)
    numbered = read_table(values, source=np.repeat(np.arange(8), 3), group=np.repeat(np.arange(4), 6), purpose="whole")
    assert numbered.features == ("x1", "x2")
    assert numbered.labels == tuple("01234567")
    assert numbered.group.tolist() == np.repeat(list("0123"), 6).tolist()


def test_labels_may_be_an_array_beside_a_frame() -> None:
    columns = good()
    labels = columns.pop("item")
    assert read_table(pd.DataFrame(columns), source=labels).labels == tuple(f"S{i}" for i in range(1, 9))
    with pytest.raises(LindleyError, match="source: an array was given, and the data has a column 'source' as well"):
        read_table({"source": labels, **columns}, source=labels)
    with pytest.raises(LindleyError, match="source: of a file, the name of a column is needed"):
        read_table("glass.csv", source=labels)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_checks(kind: str) -> None:
    columns = good()
    columns["K39 [ppm]"][4] = None
    columns["flat"] = [1.5] * 24
    columns["item"][7] = None
    columns["Ti49"][3], columns["item"][3] = columns["Ti49"][4], "s2"
    findings = examine_table(KINDS[kind](columns), source="item").findings
    found = {finding.code: finding for finding in findings}
    assert str(found["missing-value"]).startswith("table, row 4, column 'K39 [ppm]': the cell is empty. ")
    assert found["empty-source"].rows == (7,)
    assert "constant (1.5)" in str(found["constant-feature"])
    assert str(found["constant-feature"]).endswith('Leave it out with ignore=["flat"].')
    assert "'s2' / 'S2'" in str(found["similar-sources"])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_cells_of_every_kind(frame: Callable[[Columns], Any]) -> None:
    columns = good()
    columns["day"] = [datetime.date(2024, 1, 1 + i // 3) for i in range(24)]
    dated = read_table(frame(columns), source="day", ignore=["item"])
    assert dated.labels[0] == "2024-01-01"
    assert {finding.code for finding in dated.findings} >= {"date-label"}
    columns["Ti49"] = [str(value) for value in columns["Ti49"]]  # text that is numbers
    assert np.array_equal(read_table(frame(columns), source="item", ignore=["day"]).values[:, 1:], dated.values[:, 1:])


def test_what_pandas_calls_missing() -> None:
    frame = pd.DataFrame(good())
    frame["Ti49"] = frame["Ti49"].astype("Float64")
    frame.loc[2, "Ti49"] = pd.NA
    with pytest.raises(TableError, match="row 2, column 'Ti49': the cell is empty"):
        read_table(frame, source="item")
    frame = pd.DataFrame(good()).astype({"item": "category"})
    assert len(read_table(frame, source="item").sources) == 8


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1.0, 2.0], r"an array of rows × features, and not list of shape \(2,\)"),
        (object(), "and not object"),
        ([[1.0], [1.0, 2.0]], r"an array of rows × features, and not list of shape \(2,\)"),
        ({"source": ["a", "b"], "x": [1.0]}, "'source' 2, 'x' 1"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), "the data frame cannot be read"),
        (np.ones((3, 2)), "3 different names of features do not fit 2 columns"),
    ],
)
def test_what_is_no_table(data: Any, message: str) -> None:
    with pytest.raises(LindleyError, match=message):
        read_table(data, features=["a", "b", "c"] if isinstance(data, np.ndarray) else None)


def test_a_table_in_the_features_of_a_system() -> None:
    """As `System.case` and `System.evaluate` ask for: order, units and names are the system's."""
    wanted: dict[str, Any] = {"features": ["Ti49", "K39"], "units": [None, "ppm"]}
    by_frame = read_table(pd.DataFrame(good()), source="item", **wanted)
    table = read_table(good(), source="item")
    again = read_table(table, **wanted)
    assert by_frame.features == again.features == ("Ti49", "K39")
    assert by_frame.units == again.units == (None, "ppm")
    np.testing.assert_array_equal(by_frame.values, again.values)
    with pytest.raises(LindleyError, match="the values are in ppm, and the system was trained on mg/L"):
        read_table(table, features=["K39"], units=["mg/L"])
    assert read_table(table, name="glass", units={"Ti49": "%"}).header == ("K39 [ppm]", "Ti49 [%]")
    with pytest.raises(LindleyError, match=r"table was read already: leave out source=\.\.\., transform=\.\.\."):
        read_table(table, source="item", transform="log10")
    with pytest.raises(LindleyError, match=r"knows its columns: leave out sheet=\.\.\., or write"):
        read_table("glass-simulated", sheet="one")
    with pytest.raises(LindleyError, match="the system needs 'Rb85'"):
        read_table(table, features=["K39", "Rb85"])
    with pytest.raises(LindleyError, match=r"takes the logarithm of measurements \(log10 of the ratio to Ti49\)"):
        read_table(table, features=["K39"], transform="log10", reference="Ti49")


def test_items_of_a_case_are_few_and_need_no_source() -> None:
    columns = {"K39": [2.9, 2.9], "Ti49": [3.1, 3.1], "Si28": [2.0, 4.0], "note": ["x", "y"]}
    table = read_table(
        pd.DataFrame(columns),
        ignore=["note"],
        features=["Ti49", "K39"],
        transform="ln",
        reference="Si28",
        purpose="case",
    )
    assert table.labels == ("table",)
    np.testing.assert_array_equal(table.measured, [[3.1, 2.9]] * 2)
    np.testing.assert_array_equal(table.divisor, [2.0, 4.0])
    np.testing.assert_allclose(table.values[1], np.log([3.1 / 4, 2.9 / 4]))
    assert {finding.code for finding in table.findings} == {"repeated-row", "ignored-columns"}


def test_names_units_and_transform_belong_to_the_table(tmp_path: Path) -> None:
    path = as_file(tmp_path, {**good(), "Si28 [%]": [30.0 + i for i in range(24)]})
    table = read_table(path, source="item", transform="log10", reference="Si28", units="Ti49=ppm")
    assert table.features == ("K39", "Ti49")
    assert table.units == ("ppm", "ppm")
    assert str(table.transform) == "log10 of the ratio to Si28"
    assert repr(table) == "<Table table: 24 rows of 8 sources, 2 features (K39, Ti49)>"
    with pytest.raises(LindleyError, match='units="" does not read'):
        read_table(path, source="item", units="")
    assert read_table(path, source="item", include="K39").features == ("K39",)
    assert read_table(path, source="item", ignore=["K39", "Si28"]).features == ("Ti49",)
    export_csv(table, tmp_path / "again.csv")
    again = read_table(tmp_path / "again.csv")
    assert again.units == table.units
    assert again.sha256() == table.sha256()


def test_the_digest_of_a_table_without_units_is_what_it_was() -> None:
    values = np.arange(12.0).reshape(6, 2)
    table = Table.from_arrays(values, ["a", "a", "b", "b", "c", "c"], features=["K39", "Ti49"])
    assert table.sha256() == "f8c7acc00bbf87c2487fd82f7ce3acc884f6909f41ac449efc7db2f2bc36f6a8"


def test_an_index_that_names_the_sources_is_used() -> None:
    columns = good()
    whole = read_table(pd.DataFrame(columns), source="item")
    by_item = pd.DataFrame(columns).set_index("item")
    assert read_table(by_item, source="item").sha256() == whole.sha256()
    assert read_table(by_item.rename_axis("source")).sha256() == whole.sha256()
    with pytest.raises(TableError, match='If the index names the sources, say so with source="item"'):
        read_table(by_item)
    unnamed = by_item.rename_axis(None)
    assert read_table(unnamed, source="index").sha256() == whole.sha256()
    numbered = pd.DataFrame(columns, index=range(5, 29))  # rows of a larger frame
    assert read_table(numbered, source="item").sha256() == whole.sha256()


def test_labels_and_columns_with_another_index_are_refused() -> None:
    columns = good()
    labels = pd.Series(columns.pop("item"))
    frame = pd.DataFrame(columns)
    with pytest.raises(LindleyError, match="the index of one column or label is not that of another"):
        read_table(frame, source=labels[::-1])
    with pytest.raises(LindleyError, match="the index of one column or label is not that of another"):
        read_table({**columns, "source": labels, "Ti49": frame["Ti49"][::-1]})
    assert read_table(frame[::-1], source=labels[::-1]).labels[0] == "S8"


def test_masked_values_are_missing() -> None:
    columns = good()
    masked = np.ma.array(np.column_stack([columns["K39 [ppm]"], columns["Ti49"]]), mask=False)
    masked[4, 1] = np.ma.masked
    expected = [("missing-value", (4,))]
    for data in (masked, list(masked), {"x1": masked[:, 0], "x2": masked[:, 1]}):
        findings = examine_table(data, source=columns["item"]).findings
        assert [(each.code, each.rows) for each in findings if each.level == "error"] == expected
    labels = np.ma.array(columns["item"], mask=np.arange(24) == 7)
    assert [
        each.rows for each in examine_table(masked.data, source=labels).findings if each.code == "empty-source"
    ] == [(7,)]


def test_truth_values_in_a_list_are_no_numbers() -> None:
    rows: list[list[Any]] = [[1.5 + i, 2.5 * i] for i in range(24)]
    rows[3][1] = True
    found = {each.code: each.rows for each in examine_table(rows, source=good()["item"]).findings}
    assert found["not-a-number"] == (3,)
    with pytest.raises(LindleyError, match=r"make a data frame of them, such as pandas\.DataFrame"):
        read_table([{"x": 1.0}, {"x": 2.0}], source=["a", "b"])


@pytest.mark.parametrize("cell", [[1.0], np.array([1.0])])
def test_a_cell_that_holds_a_list_is_no_number(cell: object) -> None:
    with pytest.raises(LindleyError):
        read_table({"x": [cell], "y": [2.0]}, features=["x", "y"], purpose="case", name="trace")
