"""Tables changed at random in the ways of laboratories, for as long as one likes: ``python -m tests.attacks.fuzz_tables 600``.

Every one is refused with its reasons, warned of, or harmless: nothing else ends the reading than a `LindleyError`, and no table
without a warning changes the LRs of fixed pairs by more than a half in log10. What does is printed with its seed.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl

from lindley.errors import LindleyError
from lindley.system.train import train
from lindley.table import examine_table
from lindley.table.table import Table

Rows = list[list[Any]]
Rng = np.random.Generator
SOURCES, REPLICATES, FEATURES = 60, 3, 5
MODEL = "tlm+logistic+elub"
MOST = 0.5
"""Change of a log10 LR that nobody may be left without a word of."""


def measured(rng: Rng, logs: bool) -> Rows:
    """A good table: concentrations to four digits, or their logarithms."""
    mixing = np.eye(FEATURES) + 0.4 * np.tri(FEATURES, k=-1)
    means = np.repeat(rng.normal(0, 0.3, (SOURCES, FEATURES)) @ mixing + 1.5, REPLICATES, axis=0)
    values = means + rng.normal(0, 0.02, means.shape)
    cells = np.round(values, 4).tolist() if logs else [[float(f"{x:.4g}") for x in row] for row in 10**values]
    return [
        ["source", *(f"x{n}" for n in range(FEATURES))],
        *([f"S{n // REPLICATES}", *row] for n, row in enumerate(cells)),
    ]


def _cell(rng: Rng, rows: Rows) -> tuple[int, int]:
    return int(rng.integers(1, len(rows))), int(rng.integers(1, FEATURES + 1))


def slipped(rng: Rng, rows: Rows) -> None:
    row, column = _cell(rng, rows)
    rows[row][column] = float(f"{rows[row][column] * 10.0 ** rng.choice([-3, -2, -1, 1, 2, 3]):.6g}")


def shifted(rng: Rng, rows: Rows) -> None:
    row, column = _cell(rng, rows)
    rows[row][column] = round(rows[row][column] + float(rng.choice([-1, 1, 2, -2.3026, 2.3026])), 4)


def another(rng: Rng, rows: Rows) -> None:
    """A cell of another row."""
    (row, column), (other, _) = _cell(rng, rows), _cell(rng, rows)
    rows[row][column] = rows[other][column]


def digits(rng: Rng, rows: Rows) -> None:
    """Two digits the wrong way round."""
    row, column = _cell(rng, rows)
    text = [*str(rows[row][column])]
    at = int(rng.integers(0, len(text) - 1))
    text[at : at + 2] = reversed(text[at : at + 2])
    rows[row][column] = "".join(text)


def code(rng: Rng, rows: Rows) -> None:
    column, value = int(rng.integers(1, FEATURES + 1)), float(rng.choice([-999, -99, -1, 999, 9999, 0, 99999, 1e30]))
    for row in rng.choice(np.arange(1, len(rows)), int(rng.integers(1, 8)), replace=False):
        rows[row][column] = value


def source_times(rng: Rng, rows: Rows) -> None:
    label, factor = f"S{rng.integers(SOURCES)}", float(rng.choice([1000, 0.001, 10, 100]))
    for row in rows[1:]:
        if row[0] == label:
            row[1:] = [float(f"{x * factor:.6g}") for x in row[1:]]


def of_source(rng: Rng, rows: Rows) -> None:
    """A row of means or standard deviations, or both, or a copy."""
    label = f"S{rng.integers(SOURCES)}"
    places = [at for at, row in enumerate(rows) if row[0] == label]
    values = np.array([rows[at][1:] for at in places])
    mean, sd = values.mean(axis=0), values.std(axis=0, ddof=int(rng.integers(2)))
    to = int(rng.integers(2, 8))
    added = [[mean], [sd], [mean, sd], [sd, mean], [values[0]]][int(rng.integers(5))]
    at = places[0] if rng.random() < 0.3 else places[-1] + 1
    rows[at:at] = [[label, *np.round(each, to).tolist()] for each in added]


def labels(rng: Rng, rows: Rows) -> None:
    """Two rows under each other's source."""
    one, other = (int(rng.integers(1, len(rows))) for _ in range(2))
    rows[one][0], rows[other][0] = rows[other][0], rows[one][0]


def columns(rng: Rng, rows: Rows) -> None:
    """Two cells of a row, or of all rows of a source, that changed places."""
    one, other = rng.choice(np.arange(1, FEATURES + 1), 2, replace=False)
    label = f"S{rng.integers(SOURCES)}"
    hit = [row for row in rows[1:] if row[0] == label]
    for row in hit[: 1 if rng.random() < 0.5 else None]:
        row[one], row[other] = row[other], row[one]


def types(rng: Rng, rows: Rows) -> None:
    row, column = _cell(rng, rows)
    odd = [
        None,
        "",
        "n.d.",
        "<0.02",
        "nan",
        "inf",
        "1e999",
        "TRUE",
        "2026-01-02",
        "1,5",
        "1.234.567",
        "٣",
        "12 %",
        "#N/A",
        "-",
    ]
    rows[row][int(rng.choice([column, 0]))] = odd[int(rng.integers(len(odd)))]


def shape(rng: Rng, rows: Rows) -> None:
    row = int(rng.integers(0, len(rows)))
    what = int(rng.integers(6))
    if what == 0:
        rows[row].append(1.5)
    elif what == 1:
        rows[row].pop()
    elif what == 2:
        rows.insert(row, rows[0][:])
    elif what == 3:
        rows.insert(row, [])
    elif what == 4:
        rows.insert(row, ["Total", *rows[-1][1:]])
    else:
        rows[1:] = [rows[1:][at] for at in rng.permutation(len(rows) - 1)]


CHANGES: tuple[Callable[[Rng, Rows], None], ...] = (
    slipped, shifted, another, digits, code, source_times, of_source, labels, columns, types, shape,
)  # fmt: skip


def write(rng: Rng, rows: Rows, folder: Path) -> Path:
    """As a workbook, or as text of some encoding and delimiter, now and then with bytes that are spoilt."""
    if rng.random() < 0.25:
        book, path = openpyxl.Workbook(), folder / "t.xlsx"
        for row in rows:
            book.active.append(row)
        stream = io.BytesIO()
        book.save(stream)
        data = stream.getvalue()
    else:
        path, between = folder / "t.csv", [",", ";", "\t"][int(rng.integers(3))]
        lines = (between.join("" if cell is None else str(cell) for cell in row) for row in rows)
        data = "\r\n".join(lines).encode(
            ["utf-8", "utf-8-sig", "cp1252", "utf-16"][int(rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))], "replace"
        )
    if rng.random() < 0.1:
        at = int(rng.integers(len(data)))
        data = data[:at] + bytes([int(rng.integers(256))]) + data[at + int(rng.integers(2)) :]
    path.write_bytes(data)
    return path


def lrs(table: Table, pairs: list[tuple[Any, Any]]) -> np.ndarray:
    """log10 LRs of pairs of other sources, by a system of this table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        system = train(table, MODEL, replicates=0)
    return np.diag(system.llr_matrix(*map(list, zip(*pairs, strict=True))))


def fuzz(seconds: float, seed: int = 0) -> Counter[str]:
    """Counts of how tables ended; what should not be is printed."""
    ends: Counter[str] = Counter()
    start, bases = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while time.monotonic() - start < seconds:
            rng = np.random.default_rng((20_29, seed))
            logs = bool(seed % 2)
            if logs not in bases:
                make = np.random.default_rng(logs)
                good, others = measured(make, logs), measured(make, logs)[1:]
                (folder / "g.csv").write_text("\n".join(",".join(map(str, row)) for row in good))
                values = np.array([row[1:] for row in others]).reshape(SOURCES, REPLICATES, FEATURES)
                pairs = [(values[n, :1], values[n, 1:]) for n in range(20)]
                pairs += [(values[n, :1], values[(n + 1) % SOURCES, 1:]) for n in range(SOURCES)]
                settings = {} if logs else {"transform": "log10"}
                examined = examine_table(folder / "g.csv", **settings)
                assert examined.table is not None
                bases[logs] = (
                    good,
                    pairs,
                    settings,
                    {each.code for each in examined.findings},
                    lrs(examined.table, pairs),
                )
            good, pairs, settings, known, right = bases[logs]
            rows = [row[:] for row in good]
            change = CHANGES[int(rng.integers(len(CHANGES)))]
            change(rng, rows)
            path = write(rng, rows, folder)
            ends["inputs"] += 1
            try:
                examined = examine_table(path, **settings)
                told = {each.code for each in examined.findings if each.level != "note"} - known
                if examined.table is None:
                    ends["refused"] += 1
                elif told:
                    ends["warned"] += 1
                else:
                    worst = float(np.abs(lrs(examined.table, pairs) - right).max())
                    ends["harmless" if worst <= MOST else "silent"] += 1
                    if worst > MOST:
                        print(
                            f"seed {seed}: {change.__name__}, {'logs' if logs else 'mg/kg'}: an LR changes by {worst:.2f}"
                        )
            except LindleyError:
                ends["refused"] += 1
            except Exception:
                ends["crashed"] += 1
                print(f"seed {seed}: {change.__name__}")
                traceback.print_exc()
            seed += 1
    return ends


if __name__ == "__main__":
    found = fuzz(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(dict(found))
    sys.exit(bool(found["crashed"] or found["silent"]))
