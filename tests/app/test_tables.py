"""The page of a table: what was recognised, every finding at its cell, and columns that are given their parts."""

from __future__ import annotations

import io
import re

import openpyxl
import pytest

from lindley.app.look import look
from lindley.settings import _ON_A_PAGE
from tests.app.conftest import Client, csv_bytes, glass, workbook


def test_a_table_with_a_title_and_units_is_sent_and_shown(client: Client) -> None:
    rows = [["Glass of 2026"], glass()[0], ["", "mg/kg", "mg/kg", "mg/kg"], *glass()[1:]]
    number = client.upload("glass.xlsx", workbook(rows))
    shown = client.get(f"/tables/{number}").text
    assert "This table cannot be used as it is." in shown  # nobody said which column is the source
    assert re.search(r'<tr class="above"><th[^>]*>1 ', shown)
    assert re.search(r'<tr class="header"><th[^>]*>2 ', shown)
    assert re.search(r'<tr class="units"><th[^>]*>3 ', shown)
    assert "K39 [mg/kg]" in shown


def test_a_click_on_a_column_is_checked_at_once_and_can_be_kept(client: Client) -> None:
    number = client.upload("glass.csv", csv_bytes(glass()))
    fields = {f"name-{k}": name for k, name in enumerate(glass()[0])}
    parts = {"part-0": "source", "part-1": "feature", "part-2": "feature", "part-3": "ignore"}
    answer = client.post(
        f"/tables/{number}/reading",
        data={"changed": "0", "header_found": "", **fields, **parts},
        headers={"Origin": "http://127.0.0.1:8760", "X-CSRF": client.csrf, "HX-Request": "true"},
    )
    assert "This table can be used." in answer.text
    assert "<html" not in answer.text
    assert "lindley check" in answer.text
    assert "--source-column item --ignore-columns Mn55" in answer.text
    stored = client.bench.table(number)
    assert stored is not None
    assert client.submit(f"/tables/{number}/keep").status_code == 303
    kept = client.bench.path(stored.relative).with_name("lindley.yaml").read_text()
    assert "source_column: item\nignore_columns: [Mn55]\n" in kept
    again = client.get(f"/tables/{number}").text
    assert "This table can be used." in again
    assert "Kept in lindley.yaml" in again


def test_a_column_of_sessions_is_named_by_a_click(client: Client) -> None:
    head, *rows = glass()
    number = client.upload(
        "glass.csv", csv_bytes([[*head, "run"], *([*row, f"r{k % 2}"] for k, row in enumerate(rows))])
    )
    shown = client.get(f"/tables/{number}").text
    assert '<option value="session">session</option>' in shown
    parts = ("source", "feature", "feature", "feature", "session")
    fields = {f"name-{k}": name for k, name in enumerate([*head, "run"])} | {
        f"part-{k}": part for k, part in enumerate(parts)
    }
    client.submit(f"/tables/{number}/reading", changed="4", **fields)
    stored = client.bench.table(number)
    assert stored is not None
    assert stored.reading == {"source_column": "item", "session_column": "run"}
    shown = client.get(f"/tables/{number}").text
    assert "This table can be used." in shown
    assert "sources in two sessions or more" in shown


def test_logarithms_are_a_button_where_the_scatter_grows_with_the_level(client: Client) -> None:
    """The button stands behind the choice of the same name, and so is what counts when it is clicked."""
    rows = [["source", *glass()[0][1:]], *glass(sources=60)[1:]]
    number = client.upload("glass.csv", csv_bytes(rows))
    shown = client.get(f"/tables/{number}").text
    button = '<button class="small" name="transform" value="log10">Take logarithms</button>'
    assert shown.index('<select id="transform"') < shown.index(button)
    assert "the scatter within sources is" in shown
    client.submit(f"/tables/{number}/reading", transform=["", "log10"])
    stored = client.bench.table(number)
    assert stored is not None
    assert stored.reading == {"transform": "log10"}
    shown = client.get(f"/tables/{number}").text
    assert "This table can be used." in shown
    assert button not in shown


def test_a_finding_stands_in_its_cell_as_text_and_rows_without_one_are_left_out(tmp_path) -> None:
    rows = glass(sources=40)
    rows[100][2] = "x"
    path = tmp_path / "glass.csv"
    path.write_bytes(csv_bytes(rows))
    seen = look(str(path), {"source_column": "item"})
    assert not seen["usable"]
    marked = [(row["number"], at) for row in seen["rows"] for at, cell in enumerate(row["cells"]) if cell["findings"]]
    assert marked == [(101, 2)]
    assert len(seen["rows"]) == 14  # the header, twelve rows, and the one with a finding
    assert seen["rows"][-1]["skipped"] == 87
    assert seen["left"] == 20


def test_settings_are_called_what_the_page_calls_them(client: Client) -> None:
    number = client.upload("glass.xlsx", workbook(glass()))
    shown = client.get(f"/tables/{number}").text
    assert " with “source” above " in shown
    assert "Error" in shown
    assert "--source-column" not in shown
    for words in _ON_A_PAGE.values():
        name = re.findall("“(.*)”", words)[0].replace("<", "&lt;")
        assert name == "Sheet" or name in shown or name in client.get("/compare").text, name


def test_of_two_columns_that_play_one_part_the_last_that_was_chosen_keeps_it(client: Client) -> None:
    number = client.upload("glass.csv", csv_bytes(glass()))
    fields = {f"name-{k}": name for k, name in enumerate(glass()[0])}
    parts = {"part-0": "source", "part-1": "source", "part-2": "feature", "part-3": "feature"}
    for changed, kept, other in (("0", "item", "K39"), ("1", "K39", "item")):
        client.post(
            f"/tables/{number}/reading",
            data={"changed": changed, "header_found": "", **fields, **parts},
            headers={"Origin": "http://127.0.0.1:8760", "X-CSRF": client.csrf, "HX-Request": "true"},
        )
        stored = client.bench.table(number)
        assert stored is not None
        assert stored.reading == {"source_column": kept, "ignore_columns": [other]}


def test_another_sheet_or_header_is_looked_at_anew(client: Client) -> None:
    book = openpyxl.Workbook()
    book.active.title = "first"
    book.active.append(["nothing", "here"])
    other = book.create_sheet("second")
    for row in [["a title", "over", "two", None], glass()[0], *glass()[1:]]:
        other.append(row)
    file = io.BytesIO()
    book.save(file)
    number = client.upload("glass.xlsx", file.getvalue())

    def choose(**fields: str) -> str:
        headers = {"Origin": "http://127.0.0.1:8760", "X-CSRF": client.csrf, "HX-Request": "true"}
        return client.post(f"/tables/{number}/reading", data=fields, headers=headers).text

    assert "first</option>" in client.get(f"/tables/{number}").text
    shown = choose(sheet="second", sheet_found="first", header_found="", header_row="")
    assert "This is the header" in shown
    shown = choose(sheet="second", sheet_found="second", header_found="", header_row="2")
    assert 'id="part-3"' in shown
    fields = {f"name-{k}": name for k, name in enumerate(glass()[0])}
    parts = {"part-0": "source", **{f"part-{k}": "feature" for k in (1, 2, 3)}}
    shown = choose(
        sheet="second", sheet_found="second", header_found="2", header_row="2", changed="0", **fields, **parts
    )
    assert "This table can be used." in shown
    stored = client.bench.table(number)
    assert stored is not None
    assert stored.reading == {"sheet": "second", "header_row": 2, "source_column": "item"}
    assert client.submit(f"/tables/{number}/keep").status_code == 303
    assert "This table can be used." in client.get(f"/tables/{number}").text


def test_hidden_rows_are_shown_and_asked_about_whatever_was_read_before(tmp_path) -> None:
    book = openpyxl.Workbook()
    for row in [["source", *glass()[0][1:]], *glass()[1:]]:
        book.active.append(row)
    book.active.row_dimensions[5].hidden = True
    book.save(tmp_path / "glass.xlsx")
    seen = look(str(tmp_path / "glass.xlsx"), {})
    assert not seen["usable"]
    assert [row["number"] for row in seen["rows"] if row["findings"]] == [5]
    for hidden, count in (("ignore", 35), ("include", 36)):
        seen = look(str(tmp_path / "glass.xlsx"), {"hidden": hidden})
        assert seen["summary"]["measurements"] == count
        assert 5 in [row["number"] for row in seen["rows"]]


def test_a_choice_that_cannot_be_is_told_and_the_last_one_stays(client: Client) -> None:
    number = client.upload("glass.csv", csv_bytes(glass()))
    client.bench.choose(number, {"source_column": "item"})
    headers = {"Origin": "http://127.0.0.1:8760", "X-CSRF": client.csrf}
    fields = {"units": "<script>", "name-0": "item", "part-0": "source"}
    for more in ({}, {"HX-Request": "true"}):
        answer = client.post(f"/tables/{number}/reading", data=fields, headers={**headers, **more})
        assert answer.status_code == 200
        assert '<div class="problem" role="alert">' in answer.text
        assert "This table can be used." in answer.text
        stored = client.bench.table(number)
        assert stored is not None
        assert stored.reading == {"source_column": "item"}


def test_a_profile_that_does_not_read_is_told_and_can_be_passed_over(client: Client) -> None:
    number = client.upload("glass.csv", csv_bytes([["source", *glass()[0][1:]], *glass()[1:]]))
    stored = client.bench.table(number)
    assert stored is not None
    client.bench.path(stored.relative).with_name("lindley.yaml").write_text("source_colum: item\n")
    shown = client.get(f"/tables/{number}").text
    assert "there is no option" in shown
    assert "read it anew" in shown
    headers = {"Origin": "http://127.0.0.1:8760", "X-CSRF": client.csrf}
    again = client.post(f"/tables/{number}/reading", data={"forget": "yes"}, headers=headers).text
    assert "This table can be used." in again


@pytest.mark.parametrize(
    ("models", "splits", "title"),
    [
        ("tlm", "1", "1 model on 1 split"),
        ("tlm", "150", "1 model on 150 splits"),
        ("tlm,robust", "2", "2 models on 2 splits"),
    ],
)
def test_the_title_of_a_comparison_counts(client: Client, models: str, splits: str, title: str) -> None:
    client.bench.queue.stop()
    number = client.upload("glass.csv", csv_bytes(glass(12)))
    client.bench.choose(number, {"source_column": "item"})
    client.submit("/compare", table=str(number), more=models, splits=splits, seed="0")
    assert [job.title for job in client.bench.queue.jobs("run")] == [f"glass.csv: {title}"]
