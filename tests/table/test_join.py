"""Several tables as one background: what must agree, what is asked, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lindley
from lindley.errors import LindleyError
from lindley.table import Table, TableError, join_tables, read_table
from lindley.table.scaling import Transform

FEATURES = ("K39", "Ti49", "Mn55")


def table(name: str, first: int, n: int = 12, features: tuple[str, ...] = FEATURES, seed: int = 0) -> Table:
    """``n`` sources, w{first} and on, measured three times."""
    rng = np.random.default_rng((seed, first))
    values = np.repeat(rng.normal(10, 1, (n, len(features))), 3, axis=0) + rng.normal(0, 0.1, (3 * n, len(features)))
    return Table.from_arrays(values, np.repeat([f"w{first + k}" for k in range(n)], 3), features=features, name=name)


ONE, TWO = table("one", 0), table("two", 100)


def test_two_tables_are_one_with_the_features_of_the_first_in_its_order() -> None:
    order = [2, 0, 1]
    shuffled = replace(TWO, values=TWO.values[:, order], features=tuple(FEATURES[k] for k in order))
    joined = join_tables([ONE, shuffled])
    assert joined.name == "one + two"
    assert joined.features == FEATURES
    np.testing.assert_array_equal(joined.values, np.concatenate([ONE.values, TWO.values]))
    assert joined.source.tolist() == [*ONE.source, *TWO.source]
    assert not joined.findings
    assert [part.name for part in joined.parts] == ["one", "two"]
    assert joined.sha256() == join_tables([ONE, TWO], name="other").sha256()
    assert lindley.join_tables is join_tables


def test_one_table_is_itself_and_none_is_told() -> None:
    assert join_tables([ONE]).sha256() == ONE.sha256()
    with pytest.raises(LindleyError, match="there is no table to join"):
        join_tables([])


def test_raw_values_and_the_reference_come_along(tmp_path: Path) -> None:
    for name, k in (("a", 0), ("b", 50)):
        rows = table(name, k, 12, (*FEATURES, "Si28"))
        head = "source,Si28,K39,Ti49,Mn55" if name == "a" else "source,Mn55,Ti49,K39,Si28"
        order = [3, 0, 1, 2] if name == "a" else [2, 1, 0, 3]
        lines = [
            ",".join([s, *map(repr, row)]) for s, row in zip(rows.source, rows.values[:, order].tolist(), strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n")
    parts = [read_table(tmp_path / f"{n}.csv", transform="ln", reference="Si28", purpose="whole") for n in "ab"]
    joined = join_tables(parts)
    assert joined.transform == parts[0].transform
    np.testing.assert_allclose(joined.values, np.log(joined.measured / joined.divisor[:, None]))  # type: ignore[index]
    assert [name for name, _ in joined.files] == ["a.csv", "b.csv"]


def test_a_part_may_be_too_small_to_stand_alone_and_the_whole_is_checked(tmp_path: Path) -> None:
    lines = [
        ",".join([label, *map(repr, row)]) for label, row in zip(TWO.source[:3], TWO.values[:3].tolist(), strict=True)
    ]
    (tmp_path / "new.csv").write_text("\n".join(["source,K39,Ti49,Mn55", *lines]) + "\n")
    with pytest.raises(TableError):
        read_table(tmp_path / "new.csv")
    part = read_table(tmp_path / "new.csv", purpose="part")
    assert len(join_tables([ONE, part]).sources) == 13
    constant = [
        replace(each, values=np.column_stack([each.values[:, :2], np.ones(len(each.values))])) for each in (ONE, TWO)
    ]
    with pytest.raises(TableError, match="one \\+ two, column 'Mn55': the feature is constant"):
        join_tables(constant)
    with pytest.raises(TableError, match="2 sources cannot be split"):
        join_tables([table("one", 0, 1), table("two", 100, 1)])


def renamed(table: Table, **labels: str) -> Table:
    source = np.array([labels.get(label, label) for label in table.source.tolist()])
    return replace(table, source=source, group=source)


def grouped(table: Table, group: Callable[[int], str]) -> Table:
    return replace(table, group=np.array([group(int(label[1:])) for label in table.source.tolist()]))


def test_a_label_of_two_tables_is_asked_about() -> None:
    other = renamed(TWO, w100="w0", w101="w1")
    with pytest.raises(TableError) as told:
        join_tables([ONE, other])
    (finding,) = told.value.findings
    assert finding.code == "source-in-two-tables"
    assert "the sources 'w0' and 'w1' are in one and two" in str(finding)
    assert 'same_labels="same"' in str(finding)
    assert 'same_labels="different"' in str(finding)


def test_one_source_in_two_tables() -> None:
    joined = join_tables([ONE, renamed(TWO, w100="w0")], same_labels="same")
    assert len(joined.sources) == 23
    assert (joined.source == "w0").sum() == 6


def test_two_sources_of_one_label() -> None:
    joined = join_tables([ONE, renamed(TWO, w100="w0")], same_labels="different")
    assert len(joined.sources) == 24
    assert (joined.source == "one: w0").sum() == (joined.source == "two: w0").sum() == 3
    assert joined.group.tolist() == joined.source.tolist()


def test_a_group_of_two_tables_is_asked_about_too() -> None:
    one, two = grouped(ONE, lambda k: f"car {k // 2}"), grouped(TWO, lambda k: f"car {(k - 98) // 2}")
    with pytest.raises(
        TableError, match="the groups 'car 1', 'car 2', 'car 3', 'car 4' and 'car 5' are in one"
    ) as told:
        join_tables([one, two])
    assert [each.code for each in told.value.findings if each.level == "error"] == ["group-in-two-tables"]
    assert len(np.unique(join_tables([one, two], same_labels="same").group)) == 7
    assert len(np.unique(join_tables([one, two], same_labels="different").group)) == 12


def test_a_source_of_one_group_here_and_another_there() -> None:
    one, two = grouped(ONE, lambda k: "car 1"), grouped(renamed(TWO, w100="w0"), lambda k: "car 2")
    with pytest.raises(TableError, match="'w0' is of one group in one table and of another in another"):
        join_tables([one, two], same_labels="same")


def with_rows(table: Table, of: Table, rows: int) -> Table:
    values = table.values.copy()
    values[:rows] = of.values[:rows] * (1 + 1e-12)  # as after Excel
    return replace(table, values=values)


def test_measurements_of_two_tables_are_named() -> None:
    copied = with_rows(TWO, ONE, 4)
    with pytest.raises(TableError) as told:
        join_tables([ONE, copied])
    (finding,) = told.value.findings
    assert "two: 4 measurements are in one too: of 'w100' ('w0' there) and 'w101' ('w1' there)" in str(finding)
    assert "allow_duplicates" in str(finding)
    (finding,) = join_tables([ONE, copied], allow_duplicates=True).findings
    assert (finding.level, finding.code) == ("warning", "measured-in-two-tables")


def test_units() -> None:
    in_ppm, by_volume = replace(ONE, units=("ppm", "ppm", None)), replace(TWO, units=("mg/L", "PPM", None))
    with pytest.raises(
        TableError, match=r"column 'K39': the values are in ppm \(one\) and in mg/L \(two\)\. Convert them to ppm"
    ):
        join_tables([in_ppm, by_volume])
    joined = join_tables([ONE, replace(TWO, units=("ppm", None, None))])
    assert joined.units == ("ppm", None, None)
    assert [finding.code for finding in joined.findings] == ["unit-not-given"]
    assert "one gives no unit, and two gives ppm" in str(joined.findings[0])


def test_a_reference_in_another_unit() -> None:
    divided = Transform("ln", "Si28")
    one, two = (replace(each, transform=divided, reference_unit=unit) for each, unit in ((ONE, "%"), (TWO, "ppm")))
    with pytest.raises(LindleyError, match="two holds ln of the ratio to Si28 of values in other units: read it again"):
        join_tables([one, two])  # whose measurements nobody kept
    with pytest.raises(TableError, match=r"column 'Si28': the values are in % .* and in cps"):
        join_tables([one, replace(two, reference_unit="cps")])


def test_tables_that_do_not_touch_get_a_warning() -> None:
    joined = join_tables([ONE, replace(TWO, values=TWO.values * 1000)])
    (finding,) = joined.findings
    assert finding.code == "tables-apart"
    assert "no value of 'K39', 'Ti49' and 'Mn55' in two lies among those in one" in str(finding)


@pytest.mark.parametrize(
    ("tables", "settings", "message"),
    [
        ([ONE, table("two", 100, features=("K39", "Ti49", "Mn"))], {},
         "two: it lacks 'Mn55' and it has 'Mn' besides, unlike one. Did you mean 'Mn'?"),
        ([ONE, table("two", 100, features=("K39", "Ti49"))], {}, "two: it lacks 'Mn55', unlike one. Tables of one background"),
        ([ONE, table("two", 100, features=(*FEATURES, "Rb85"))], {}, 'include=["K39", "Ti49", "Mn55"]'),
        ([ONE, table("two", 100, features=("a", "b"))], {}, "rename the columns that are called otherwise."),
        ([ONE, ONE], {}, "one (1) and one (2) hold the same table: every measurement would count twice"),
        ([ONE, replace(ONE, name="copy")], {}, "one and copy hold the same table"),
        ([ONE, replace(TWO, transform=Transform("ln"))], {}, "two was read with ln, and one with no logarithm"),
        ([ONE, TWO], {"same_labels": "maybe"}, "is 'same' or 'different', and not 'maybe'"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_is_told(tables: list[Table], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LindleyError) as told:
        join_tables(tables, **settings)
    assert message in str(told.value)


def test_a_system_of_joined_tables_remembers_what_was_converted() -> None:
    in_ppm, in_percent = (replace(each, units=(unit,) * 3) for each, unit in ((ONE, "ppm"), (TWO, "%")))
    joined = join_tables([in_ppm, replace(in_percent, values=TWO.values / 10_000)])
    np.testing.assert_allclose(joined.values, join_tables([ONE, TWO]).values, rtol=1e-15)
    told = lindley.train(joined, "tlm", replicates=2).about["data"]["converted"]
    assert told == ["two: 'K39', 'Ti49' and 'Mn55': values in % were multiplied by 10,000, which makes them ppm."]
