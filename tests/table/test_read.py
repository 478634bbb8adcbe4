"""Good tables: every dialect of one table reads as the same table, to the last bit."""

from __future__ import annotations

import csv
import io
import itertools
import string
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from lindley.errors import LindleyError
from lindley.table import Table, TableError, examine_table, export_csv, read_table


def small_table(seed: int = 1, sources: int = 8, replicates: int = 3, features: int = 2) -> Table:
    rng = np.random.default_rng(seed)
    labels = np.repeat([f"pane {s}" for s in range(sources)], replicates)
    names = tuple(f"El{k}" for k in range(features))
    instance = np.tile(np.arange(1, replicates + 1).astype(np.str_), sources)
    values = rng.normal(3, 1, (sources, 1, features)) + rng.normal(0, 0.1, (sources, replicates, features))
    values = values.reshape(-1, features).round(12)  # openpyxl writes 16 digits only
    return Table("small", values, names, labels, labels, instance)


def write_text(
    table: Table, delimiter: str, comma: bool, quotes: int, bom: bool = False, line_end: str = "\n"
) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, quoting=quotes, lineterminator=line_end)
    writer.writerow(["source", "group", "instance", *table.features])
    for source, group, instance, values in zip(
        table.source, table.group, table.instance, table.values.tolist(), strict=True
    ):
        numbers = [repr(value).replace(".", ",") if comma else repr(value) for value in values]
        writer.writerow([source, group, instance, *numbers])
    return stream.getvalue().encode("utf-8-sig" if bom else "utf-8")


def write_workbook(table: Table) -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["source", "group", "instance", *table.features])
    for source, group, instance, values in zip(
        table.source.tolist(),
        table.group.tolist(),
        table.instance.tolist(),
        table.values.tolist(),
        strict=True,
    ):
        book.active.append([source, group, instance, *values])
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def assert_same(one: Table, other: Table) -> None:
    assert one.features == other.features
    np.testing.assert_array_equal(one.values, other.values)
    for part in ("source", "group", "instance"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    assert one.sha256() == other.sha256()


DIALECTS = [
    pytest.param(delimiter, comma, quotes, bom, line_end, id="-".join([
        {",": "comma", ";": "semicolon", "\t": "tab"}[delimiter],
        "decimal comma" if comma else "decimal point",
        "quoted" if quotes == csv.QUOTE_ALL else "bare",
        "BOM" if bom else "no BOM",
        "CRLF" if line_end == "\r\n" else "LF",
    ]))
    for delimiter, comma, quotes, bom, line_end in itertools.product(
        [",", ";", "\t"], [False, True], [csv.QUOTE_MINIMAL, csv.QUOTE_ALL], [False, True], ["\n", "\r\n"]
    )
]  # fmt: skip


@pytest.mark.parametrize(("delimiter", "comma", "quotes", "bom", "line_end"), DIALECTS)
def test_every_dialect_reads_the_same(
    delimiter: str, comma: bool, quotes: int, bom: bool, line_end: str, tmp_path: Path
) -> None:
    table = small_table()
    path = tmp_path / "small.csv"
    path.write_bytes(write_text(table, delimiter, comma, quotes, bom, line_end))
    read = read_table(path)
    assert_same(read, table)
    assert read.name == "small"
    assert {finding.code for finding in read.findings} == {"many-features"}  # 2 for 8 sources, and nothing else


def test_a_workbook_reads_the_same(tmp_path: Path) -> None:
    table = small_table()
    for ending in ("xlsx", "xlsm"):
        path = tmp_path / f"small.{ending}"
        path.write_bytes(write_workbook(table))
        assert_same(read_table(path), table)


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("tail", ["", "delimiter"])
def test_commas_in_the_names_and_in_the_numbers(delimiter: str, tail: str, tmp_path: Path) -> None:
    """By commas, header and rows have as many fields as by semicolons."""
    end = delimiter if tail else ""
    rows = [["source", "Na, ppm", "Mg, ppm"]]
    rows += [[f"s{n // 2}", f"{n},5", f"{n * n % 31},25"] for n in range(16)]
    path = tmp_path / "german.csv"
    path.write_text("\n".join([delimiter.join(rows[0]), *(delimiter.join(row) + end for row in rows[1:])]) + "\n")
    table = read_table(path)
    assert table.features == ("Na, ppm", "Mg, ppm")
    assert table.values[:3].tolist() == [[0.5, 0.25], [1.5, 1.25], [2.5, 4.25]]


def test_semicolons_in_the_labels_of_a_comma_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"pane;{n // 2},{n}.5,{n * n % 31}.25" for n in range(16)]
    path.write_text("\n".join(["source;number,Na,Mg", *rows]) + "\n")
    assert read_table(path, source="source;number").features == ("Na", "Mg")


def test_old_mac_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "small.csv"
    path.write_bytes(write_text(small_table(), ",", False, csv.QUOTE_MINIMAL, line_end="\r"))
    assert_same(read_table(path), small_table())


labels = st.text(alphabet=string.ascii_letters + string.digits + "äß,;\"' -._", min_size=1, max_size=8)
numbers = st.floats(-1e6, 1e6, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Any table that passes the checks: enough sources, no two rows alike, every feature varies in a source."""
    names = draw(
        st.lists(
            labels.map(str.strip).filter(bool),
            min_size=6,
            max_size=9,
            unique_by=lambda t: t.casefold().replace(" ", ""),
        )
    )
    counts = draw(st.lists(st.integers(2, 4), min_size=len(names), max_size=len(names)))
    features = draw(st.integers(1, 3))
    rows = sum(counts)
    values = np.array(
        draw(
            st.lists(
                st.lists(numbers, min_size=rows, max_size=rows, unique=True),
                min_size=features,
                max_size=features,
            )
        )
    ).T
    values = values + 0.0  # −0.0 is read as 0.0
    values[0] = 0.12345 + np.arange(
        features
    )  # settles whether a comma is a decimal mark; no column is a copy of another
    source = np.repeat(np.array(names, dtype=np.str_), counts)
    instance = np.concatenate([np.arange(1, count + 1) for count in counts]).astype(np.str_)
    group = np.array([f"g{names.index(name) if names.index(name) > 1 else 'one'}" for name in source], dtype=np.str_)
    return Table("any", values, tuple(f"x{k}" for k in range(features)), source, group, instance)


@given(table=tables(), data=st.data())
# no shrinking: with files to write and read it would take minutes
@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_table_reads_back_the_same(table: Table, data: st.DataObject, tmp_path: Path) -> None:
    kind = data.draw(st.sampled_from(["text", "workbook", "export"]))
    path = tmp_path / ("any.xlsx" if kind == "workbook" else "any.csv")
    if kind == "workbook":
        table = replace(table, values=np.array([[float(f"{x:.15g}") for x in row] for row in table.values]))
        path.write_bytes(write_workbook(table))
    elif kind == "export":
        export_csv(table, path)
    else:
        delimiter = data.draw(st.sampled_from([",", ";", "\t"]))
        comma = data.draw(st.booleans())
        quotes = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        path.write_bytes(write_text(table, delimiter, comma, quotes, data.draw(st.booleans())))
    examined = examine_table(path, allow_duplicates=True)
    errors = {finding.code for finding in examined.findings if finding.level == "error"}
    if errors:  # five groups are too few, columns may differ in the first row alone, and the reader is right to say so
        assert errors <= {"too-few-sources", "dependent-feature"}
        assert "dependent-feature" in errors or len(set(table.group)) < 6
        return
    assert examined.table is not None
    assert_same(examined.table, table)


def test_columns_are_found_by_name_in_any_capitals(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    text = write_text(small_table(), ",", False, csv.QUOTE_MINIMAL).decode()
    path.write_text(text.replace("source,group,instance", " Source ,GROUP,Instance"), encoding="utf-8")
    assert_same(read_table(path), small_table())


def test_columns_can_be_named_included_and_ignored(tmp_path: Path) -> None:
    table = small_table(features=3)
    path = tmp_path / "t.csv"
    text = write_text(table, ",", False, csv.QUOTE_MINIMAL).decode()
    path.write_text(text.replace("source,group,instance", "item,vehicle,rep"), encoding="utf-8")
    columns = {"source": "item", "group": "vehicle", "instance": "rep"}
    ignored = read_table(path, **columns, ignore=("El1",))
    included = read_table(path, **columns, include=("El0", "El2"))
    for read in (ignored, included):
        assert read.features == ("El0", "El2")
        np.testing.assert_array_equal(read.values, table.values[:, [0, 2]])
        assert read.instance.tolist() == table.instance.tolist()
    notes = [finding for finding in included.findings if finding.code == "ignored-columns"]
    assert "'El1'" in notes[0].message


def test_an_ignored_group_column_is_no_group(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    text = write_text(small_table(), ",", False, csv.QUOTE_MINIMAL).decode()
    path.write_text(text.replace("pane 3,pane 3", "pane 3,car"), encoding="utf-8")
    assert "car" in read_table(path).group
    table = read_table(path, ignore=("group",))
    np.testing.assert_array_equal(table.group, table.source)


def test_without_instances_they_are_counted_within_a_source(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{s},{s + 0.1 * r + 0.01 * s * r}\n" for r in range(2) for s in range(6))
    path.write_text("source,x\n" + rows, encoding="utf-8")
    table = read_table(path)
    assert table.source.tolist() == list("012345") * 2
    assert table.instance.tolist() == ["1"] * 6 + ["2"] * 6


def test_excel_numbers_as_labels_are_whole(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["source", "x"])
    for s in range(6):
        book.active.append([10 + s, 1.5 * s])
        book.active.append([float(10 + s), 1.5 * s + 0.1 + 0.01 * s])
    book.active.append(["n 5 ", 0.7])
    book.active.append([12.5, 0.8])
    path = tmp_path / "t.xlsx"
    book.save(path)
    table = read_table(path)
    assert table.source.tolist()[:4] == ["10", "10", "11", "11"]
    assert table.source.tolist()[-2:] == ["n 5", "12.5"]


def test_a_formula_is_read_by_its_value(tmp_path: Path) -> None:
    """openpyxl writes formulas without a value; put one in, as Excel does."""
    table = small_table()
    book = openpyxl.load_workbook(io.BytesIO(write_workbook(table)))
    book.active["D2"] = "=D3*1"
    stream = io.BytesIO()
    book.save(stream)
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name.endswith("sheet1.xml"):
                empty = b"<f>D3*1</f><v></v>" if b"<f>D3*1</f><v></v>" in text else b"<f>D3*1</f><v />"
                assert empty in text
                text = text.replace(empty, b"<f>D3*1</f><v>2.75</v>")
            new.writestr(name, text)
    assert read_table(path).values[0, 0] == 2.75


def test_a_sheet_is_chosen_by_name(tmp_path: Path) -> None:
    table = small_table()
    path = tmp_path / "t.xlsx"
    book = openpyxl.load_workbook(io.BytesIO(write_workbook(table)))
    book.active.title = "Data"
    notes = book.create_sheet("Notes", 0)
    notes.append(["by the analyst"])
    book.save(path)
    assert_same(read_table(path, sheet="Data"), table)
    with pytest.raises(TableError, match="Notes"):
        read_table(path)


def test_blank_rows_and_columns_of_a_workbook(tmp_path: Path) -> None:
    table = small_table()
    book = openpyxl.load_workbook(io.BytesIO(write_workbook(table)))
    book.active.insert_rows(1, 2)
    book.active.insert_rows(10)
    book.active.cell(60, 9, " ")  # far below and to the right of the table, as a stray space is
    path = tmp_path / "t.xlsx"
    book.save(path)
    read = read_table(path)
    assert_same(read, table)
    notes = {finding.code: finding.rows for finding in read.findings if finding.level == "note"}
    assert notes == {"empty-rows": (1, 2, 10)}


@pytest.mark.parametrize("text", ["1.5", " 1.5 ", "+1.5", "1.5e0", "15E-1", "1.50"])
def test_ways_to_write_one_number(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{s},{s + 0.1 * r + 0.01 * s * r}\n" for s in range(6) for r in range(2))
    path.write_text(f"source,x\nA,{text}\nA,−2.5\n" + rows, encoding="utf-8")
    assert read_table(path).values[:2, 0].tolist() == [1.5, -2.5]


def test_minus_zero_is_zero_so_that_equal_tables_have_equal_digests(tmp_path: Path) -> None:
    table = small_table()
    zero, minus = (np.where(np.arange(24)[:, None] == 3, value, table.values) for value in (0.0, -0.0))
    for name, values in (("zero", zero), ("minus", minus)):
        export_csv(replace(table, values=values), tmp_path / f"{name}.csv")
    assert "-0.0" in (tmp_path / "minus.csv").read_text(encoding="utf-8")
    assert read_table(tmp_path / "zero.csv").sha256() == read_table(tmp_path / "minus.csv").sha256()


def test_values_are_transformed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table = small_table(features=3)
    positive = Table("t", np.exp(table.values), table.features, table.source, table.group, table.instance)
    export_csv(positive, path)
    read = read_table(path, transform="ln", reference="El1")
    assert read.features == ("El0", "El2")
    np.testing.assert_allclose(read.values, table.values[:, [0, 2]] - table.values[:, [1]], rtol=0, atol=1e-14)


def test_export_needs_names_that_read_back_as_features(tmp_path: Path) -> None:
    table = small_table()
    clash = Table("t", table.values, ("Group", "x"), table.source, table.group, table.instance)
    with pytest.raises(Exception, match="Rename"):
        export_csv(clash, tmp_path / "t.csv")
    with pytest.raises(Exception, match="cannot be written"):
        export_csv(table, tmp_path / "none" / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_an_export_under_a_file_is_told_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LindleyError, match="cannot be written"):
        export_csv(small_table(), tmp_path / "file" / "t.csv")


def test_a_failed_export_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("old", encoding="utf-8")

    def locked(source: object, target: object) -> None:
        raise PermissionError(13, "in use")

    monkeypatch.setattr("os.replace", locked)
    with pytest.raises(Exception, match="in use"):
        export_csv(small_table(), path)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_large_table_reads_fast(tmp_path: Path) -> None:
    table = small_table(sources=5000, replicates=5, features=20)  # a quarter of 100,000 rows
    path = tmp_path / "large.csv"
    export_csv(table, path)
    start = time.process_time()
    read = read_table(path)
    assert time.process_time() - start < 5  # about 0.5 s; cell by cell it would be some 10 s
    assert_same(read, table)


def test_import_is_light() -> None:
    code = "import sys, lindley.table; print({'torch', 'sklearn', 'scipy', 'openpyxl'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_table_that_is_not_split_may_hold_few_sources(tmp_path: Path) -> None:
    path = tmp_path / "case.csv"
    path.write_text("source,K,Ti\na,1,2\nb,2,3.5\n", encoding="utf-8")
    with pytest.raises(TableError, match="2 sources cannot be split"):
        read_table(path)
    table = read_table(path, purpose="whole")
    assert table.source.tolist() == ["a", "b"]
