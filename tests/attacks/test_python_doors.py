"""Random inputs to the doors of Python: every outcome is the right number, or an error that says what is wrong.

Each input is made from an array whose LLR is known, in a form that means the same (columns in another order, another unit, a
Series, a mask that hides nothing) or in one that was spoilt. ``python -m tests.attacks.test_python_doors 600`` goes on for so
many seconds.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import lindley
from lindley.errors import LindleyError
from lindley.llrs import LLRs
from lindley.system.system import System
from lindley.table import Table, read_table

FEATURES = ["K39", "Ti49", "Mn55"]
UNITS = {"ppm": 0, "mg/kg": 0, "µg/g": 0, "%": 4, "ppb": -3, "g/kg": 3}
Rng = np.random.Generator
Array = np.ndarray


@functools.cache
def system(features: int = 3) -> System:
    rng = np.random.default_rng(7)
    values = np.repeat(rng.normal(40, 9, (40, 1, features)), 3, axis=1) + rng.normal(0, 1, (40, 3, features))
    table = Table.from_arrays(values.reshape(-1, features), np.repeat(np.arange(40), 3), features=FEATURES[:features])
    return lindley.train(replace(table, units=("ppm",) * features), "tlm", replicates=2)


# ── forms that mean the same ────────────────────────────────────────────────────────────────────────────────────────


def named(rng: Rng, values: Array) -> dict[str, Array]:
    """Columns in any order, some with a unit, and further ones that take no part."""
    columns = {}
    for place in rng.permutation(values.shape[1]):
        unit = rng.choice(list(UNITS)) if rng.random() < 0.4 else ""
        column = values[:, place] / 10.0 ** UNITS.get(unit, 0)
        columns[FEATURES[place] + (f" [{unit}]" if unit else "")] = column
    more = {
        "Fe57": rng.normal(size=len(values)),
        "note": np.array(["x"] * len(values)),
        "source": np.full(len(values), 3),
    }
    for name in rng.choice(list(more), rng.integers(3), replace=False):
        columns[str(name)] = more[name]
    return columns


def indexed(rng: Rng, values: Array) -> Any:
    frame = pd.DataFrame(named(rng, values))
    index = [range(5, 5 + len(values)), ["A"] * len(values), pd.Index([1] * len(values), name="row")][rng.integers(3)]
    return frame.set_index("source") if "source" in frame and rng.random() < 0.5 else frame.set_axis(index)


def one_row(rng: Rng, values: Array) -> Any:
    if len(values) > 1:
        return pd.DataFrame(named(rng, values))
    order = rng.permutation(values.shape[1])
    return pd.Series(
        values[0, order], index=[FEATURES[k] for k in order], dtype=rng.choice([float, object]), name="row 7"
    )


def objects(rng: Rng, values: Array) -> Any:
    kinds: list[Callable[[float], Any]] = [float, decimal.Decimal, fractions.Fraction, np.float64]
    return [[kinds[rng.integers(4)](float(cell)) for cell in row] for row in values]


GOOD: dict[str, Callable[[Rng, Array], Any]] = {
    "lists": lambda rng, v: v.tolist(),
    "tuples": lambda rng, v: tuple(map(tuple, v)),
    "list of arrays": lambda rng, v: list(v),
    "array": lambda rng, v: np.asfortranarray(v),
    "objects": lambda rng, v: np.array(objects(rng, v), dtype=object),
    "kinds of numbers": objects,
    "unmasked": lambda rng, v: np.ma.array(v, mask=rng.choice([np.False_, np.zeros(v.shape, bool)][:1])),
    "matrix": lambda rng, v: np.asmatrix(v),
    "tensor": lambda rng, v: torch.tensor(v),
    "records": lambda rng, v: pd.DataFrame(v[:, ::-1], columns=FEATURES[: v.shape[1]][::-1]).to_records(index=False),
    "dict": named,
    "dict of lists": lambda rng, v: {name: column.tolist() for name, column in named(rng, v).items()},
    "dict of texts": lambda rng, v: {
        name: [f"{x:.17g}" for x in v[:, k]] for k, name in enumerate(FEATURES[: v.shape[1]])
    },
    "dict of Series": lambda rng, v: {name: pd.Series(column) for name, column in named(rng, v).items()},
    "pandas": lambda rng, v: pd.DataFrame(named(rng, v)),
    "pandas, nullable": lambda rng, v: pd.DataFrame(v, columns=FEATURES[: v.shape[1]]).convert_dtypes(),
    "pandas, index": indexed,
    "polars": lambda rng, v: pl.DataFrame(named(rng, v)),
    "polars, lazy": lambda rng, v: pl.LazyFrame(named(rng, v)),
    "Series": one_row,
    "Series without names": lambda rng, v: pd.Series(v[0]) if len(v) == 1 and v.shape[1] > 1 else v,
    "polars Series": lambda rng, v: pl.Series(v[0]) if len(v) == 1 and v.shape[1] > 1 else v,
}

# ── forms that are spoilt ───────────────────────────────────────────────────────────────────────────────────────────

NO_NUMBERS: list[Any] = [
    True, False, np.True_, "2_63", "", "abc", "1,2,3", "1e999", b"1", None, math.nan, math.inf, -math.inf, pd.NA, pd.NaT,
    1j, 10**400, datetime.date(2026, 1, 1), np.datetime64("2026-01-01"), datetime.timedelta(1), [1.0], {}, object(),
    decimal.Decimal("NaN"), np.ma.masked, np.longdouble("1e400") if np.finfo(np.longdouble).max > 1e309 else math.inf,
]  # fmt: skip


def one_cell(rng: Rng, values: Array) -> Any:
    """A cell that is no number, in a list, an array or a named column."""
    cells: list[list[Any]] = values.tolist()
    bad = NO_NUMBERS[rng.integers(len(NO_NUMBERS))]
    cells[rng.integers(len(cells))][rng.integers(len(cells[0]))] = bad
    names = FEATURES[: values.shape[1]]
    try:
        return [
            lambda: cells,
            lambda: np.array(cells, dtype=object),
            lambda: dict(zip(names, map(list, zip(*cells, strict=True)), strict=True)),
            lambda: pd.DataFrame(cells, columns=names, dtype=object),
            lambda: pd.Series(cells[0], index=names) if len(cells) == 1 else cells,
            lambda: [np.array(row, dtype=object) for row in cells],
        ][rng.integers(6)]()
    except Exception:  # other packages refuse some of these themselves
        return cells


def masked(rng: Rng, values: Array) -> Any:
    mask = np.zeros(values.shape, bool)
    mask[rng.integers(len(values)), rng.integers(values.shape[1])] = True
    array = np.ma.array(values, mask=mask)
    columns = {name: array[:, k] for k, name in enumerate(FEATURES[: values.shape[1]])}
    return [array, list(array), columns, pd.DataFrame(columns), array.astype(int), array.astype(object)][
        rng.integers(6)
    ]


def several(rng: Rng, values: Array) -> Any:
    twice = np.concatenate([values, values])
    frame = pd.DataFrame(twice, columns=FEATURES[: values.shape[1]])
    labels = [*["a"] * len(values), *["b"] * len(values)]
    numbers = [*[4] * len(values), *[5] * len(values)]
    return [
        frame.assign(source=labels), frame.assign(source=numbers), frame.assign(piece=labels), frame.set_axis(labels),
        frame.set_axis(pd.Index(labels, name="source")), frame.set_axis(pd.Index(numbers, name="source")),
        pl.DataFrame({**frame.to_dict("list"), "Source": numbers}), {**frame.to_dict("list"), "item": labels},
    ][rng.integers(8)]  # fmt: skip


def misnamed(rng: Rng, values: Array) -> Any:
    p = values.shape[1]
    row = values[0]
    names = [*FEATURES[: p - 1], "Rb85"]
    return [
        pd.Series(row, index=names), pd.Series(row, index=[f"x{k}" for k in range(p)]),
        pd.Series(row, index=range(3, 3 + p)), pd.Series(row, name="Rb85"), pl.Series("Rb85", row),
        [pd.Series(row, index=FEATURES[:p][::-1])], [dict(zip(FEATURES[:p][::-1], row, strict=True))],
        pd.DataFrame(values, columns=names), dict.fromkeys(names, values[:, 0]),
        pd.DataFrame(values, columns=["K39 [mg/L]", *FEATURES[1:p]]),
        {"K39 [ppm]": values[:, 0], "K39 [%]": values[:, 0], **dict.fromkeys(FEATURES[1:p], values[:, 0])},
    ][rng.integers(11)]  # fmt: skip


def misshapen(rng: Rng, values: Array) -> Any:
    wide = np.column_stack([values, values[:, :1]])
    return [
        wide, wide[0] if values.shape[1] > 1 else wide, values[:, :-1], values[:0], [], {}, None, values[None],
        values[:, None, None],
        [*values.tolist(), [1.0, 2.0, 3.0, 4.0, 5.0]], "trace.csv", object(), pd.DataFrame(), np.array("x"), [[]], [[[]]],
        {name: values[: k + 1 % 2, 0].tolist() + [1.0] * k for k, name in enumerate(FEATURES)},
    ][rng.integers(17)]  # fmt: skip


def mixed_index(rng: Rng, values: Array) -> Any:
    twice = np.concatenate([values, values + 1])
    columns = {name: pd.Series(twice[:, k]) for k, name in enumerate(FEATURES[: values.shape[1]])}
    return {**columns, "K39": columns["K39"][::-1], "Fe57": pd.Series(range(len(twice)))}


BAD: dict[str, Callable[[Rng, Array], Any]] = {
    "a cell": one_cell,
    "masked": masked,
    "several items": several,
    "other names": misnamed,
    "other shapes": misshapen,
    "other indices": mixed_index,
}


def close(found: float, expected: float) -> bool:
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-7)


def try_item(rng: Rng) -> tuple[str, bool]:
    """One item through one door: what it was, and whether the outcome is right."""
    made = system(int(rng.choice([3, 3, 3, 1, 2])))
    p = len(made.features)
    values = rng.normal(40, 9, (rng.integers(1, 4), p)).round(3)
    ref = rng.normal(40, 9, (2, p)).round(3)
    good = rng.random() < 0.5
    forms = GOOD if good else BAD
    form = str(rng.choice(list(forms)))
    item = forms[form](rng, values)
    doors: dict[str, Callable[[], float]] = {
        "llr": lambda: made.llr(item, ref),
        "matrix": lambda: float(made.llr_matrix([values, item], [ref])[1, 0]),
        "llrs": lambda: float(made.llrs([item], [ref, values], ["a"], ["a", "b"]).same[0]),
        "case": lambda: made.case(item, ref, allow_outside=True, allow_same_file=True).explanation.log10_lr,
        "ref of a case": lambda: made.case(ref, item, allow_outside=True, allow_same_file=True).explanation.log10_lr,
        "explain": lambda: made.explain(item, ref).log10_lr,
    }
    door = str(rng.choice(list(doors)))
    expected = made.llr(ref, values) if door == "ref of a case" else made.llr(values, ref)
    what = f"{door}, {form}: {item!r}"
    try:
        found = doors[door]()
    except LindleyError as error:
        refused = good and not ("replicates" in str(error) or "scatter" in str(error))
        return f"{what} -> refused: {error}", not refused and bool(str(error))
    except Exception as error:
        return f"{what} -> {error!r}", False
    return f"{what} -> {found}, not {expected}", good and close(found, expected)


def try_metric(rng: Rng) -> tuple[str, bool]:
    """Cllr of LLRs in some form, or of what is none."""
    same, different = rng.normal(1, 1, rng.integers(2, 9)), rng.normal(-1, 1, rng.integers(2, 9))
    expected = float(np.log2(1 + 10**-same).mean() + np.log2(1 + 10**different).mean()) / 2
    forms: list[Callable[[Array], Any]] = [
        list, tuple, np.array, pd.Series, pl.Series, torch.tensor, lambda a: np.ma.array(a, mask=False),
        lambda a: np.array(a, dtype=object), lambda a: pd.Series(a, index=range(9, 9 + len(a))),
    ]  # fmt: skip
    both, truth = np.concatenate([same, different]), np.arange(len(same) + len(different)) < len(same)
    labels: list[Any] = [
        truth,
        truth.astype(int),
        truth.astype(float),
        np.where(truth, 1, -1),
        pd.Series(truth),
        truth.astype(str),
    ]
    bad = [NO_NUMBERS[rng.integers(len(NO_NUMBERS))], *same.tolist()]
    cases: list[tuple[tuple[Any, ...], bool]] = [
        ((forms[rng.integers(9)](same), forms[rng.integers(9)](different)), True),
        ((LLRs(same, different),), True),
        ((both, labels[rng.integers(6)]), False),
        ((labels[rng.integers(6)], both), False),
        ((bad, different), False),
        ((same, np.array(bad, dtype=object)), False),
        ((np.ma.array(same, mask=same == same[0]), different), False),
        ((same,), False),
        ((same[:0], different), False),
        ((np.outer(same, different), truth), False),
    ]
    arguments, good = cases[rng.integers(len(cases))]
    try:
        found = lindley.cllr(*arguments)
    except LindleyError as error:
        return f"cllr{arguments!r} -> refused: {error}", not good
    except Exception as error:
        return f"cllr{arguments!r} -> {error!r}", False
    return f"cllr{arguments!r} -> {found}, not {expected}", good and close(found, expected)


def try_table(rng: Rng) -> tuple[str, bool]:
    """A background in some form, or spoilt: the same table, or an error."""
    values = rng.normal(40, 9, (24, 3)).round(3)
    labels = np.array([f"s{k // 3}" for k in range(24)])
    plain = pd.DataFrame(values, columns=FEATURES)
    expected = read_table(plain, source=labels).sha256()
    order = rng.permutation(24)
    cells: list[list[Any]] = values.tolist()
    cells[rng.integers(24)][rng.integers(3)] = NO_NUMBERS[rng.integers(len(NO_NUMBERS))]
    mask = np.arange(72).reshape(24, 3) == rng.integers(72)
    labelled = plain.assign(source=labels)
    cases: list[tuple[Callable[[], Table], bool]] = [
        (lambda: read_table(labelled), True),
        (lambda: read_table(labelled.set_index("source")), True),
        (lambda: read_table(plain.set_axis(labels), source="index"), True),
        (lambda: read_table(plain.set_axis(pd.Index(labels, name="pane")), source="pane"), True),
        (lambda: read_table(plain.set_axis(range(50, 74)), source=pd.Series(labels, index=range(50, 74))), True),
        (lambda: read_table(pl.DataFrame(labelled.to_dict("list"))), True),
        (lambda: read_table({**plain, "source": labels}), True),
        (lambda: read_table(values.tolist(), source=labels, features=FEATURES), True),
        (lambda: read_table(np.ma.array(values), source=np.ma.array(labels), features=FEATURES), True),
        (lambda: read_table(plain.to_records(index=False), source=labels.tolist()), True),
        (lambda: read_table(plain.iloc[order], source=pd.Series(labels)), False),
        (lambda: read_table({**plain, "K39": plain["K39"].iloc[order], "source": labels}), False),
        (lambda: read_table(plain.set_axis(labels)), False),
        (lambda: read_table(cells, source=labels, features=FEATURES), False),
        (lambda: read_table(np.array(cells, dtype=object), source=labels, features=FEATURES), False),
        (lambda: read_table(pd.DataFrame(cells, columns=FEATURES, dtype=object), source=labels), False),
        (lambda: read_table(np.ma.array(values, mask=mask), source=labels, features=FEATURES), False),
        (lambda: read_table(np.ma.array(values, mask=mask).tolist(), source=labels, features=FEATURES), False),
        (lambda: read_table(plain, source=np.ma.array(labels, mask=mask[:, 0] | (order == 3))), False),
        (lambda: read_table([row for _, row in plain.iterrows()], source=labels), False),
        (lambda: read_table(plain, source=labels[1:]), False),
        (lambda: lindley.train(pd.DataFrame(cells, columns=FEATURES, dtype=object).assign(source=labels), "tlm"), False),
        (lambda: lindley.run("demo", {**plain, "source": np.where(mask[:, 0], None, "a")}), False),
    ]  # fmt: skip
    at = int(rng.integers(len(cases)))
    what, (call, good) = f"table {at}: {cells!r}", cases[at]
    try:
        found = call()
    except LindleyError as error:
        return f"{what} -> refused: {error}", not good
    except Exception as error:
        return f"{what} -> {error!r}", False
    return f"{what} -> another table", good and found.sha256() == expected


def attack(seed: int) -> tuple[str, bool]:
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages, on what is odd in an input
        return [try_item, try_item, try_item, try_metric, try_table][rng.integers(5)](rng)


@pytest.mark.parametrize("block", range(4))
def test_every_outcome_is_the_right_number_or_a_clear_error(block: int) -> None:
    wrong = [told for told, right in map(attack, range(100 * block, 100 * block + 100)) if not right]
    assert not wrong, "\n".join(wrong[:5])


def main(seconds: float) -> None:
    """Go on for so long, from a seed that was not used before, and print every outcome that is wrong."""
    start, counts = time.monotonic(), Counter[str]()
    seed = first = time.time_ns() % 2**40
    while time.monotonic() < start + seconds:
        told, right = attack(seed)
        counts["right" if right else "wrong"] += 1
        counts["refused"] += "-> refused" in told
        if not right:
            print(seed, told[:600], flush=True)
        seed += 1
    print(f"{seed - first} inputs from seed {first}: {dict(counts)}")


if __name__ == "__main__":
    main(float(sys.argv[1]))
