"""The result of a run in words, for the top of its report."""

from __future__ import annotations

from lindley.pages.palette import model_labels, number
from lindley.pages.run_figures import Report, SummaryRow

__all__ = ["headline"]


def headline(report: Report) -> tuple[str, ...]:
    """Two to four sentences: the best model as it is, how calibration compares, and how far the floor is."""
    rows, labels = report.summary.rows, model_labels(report.summary)
    best = next((row for row in rows if row.name == report.best), None)
    if best is None:
        return ()
    splits = report.summary.splits
    over = f"on average over {splits} splits (± 2 standard errors)" if splits > 1 else "on the one split of this run"
    kept = " of the models that keep similarity over typicality" if best.keeps_reading else ""
    said = [f"Chosen by validation, the best{kept} is “{labels[best.name]}”: its test Cllr is {_value(best)} {over}."]
    raw = [row for row in rows if row.family == "benchmark" and not row.calibrated and row.name != best.name]
    if raw and best.family != "benchmark":
        said.append(_against(best, min(raw, key=lambda row: row.validate), "best raw benchmark", labels))
    calibrated = [row for row in rows if row.calibrated and row.name != best.name]
    if calibrated:
        said.append(
            _against(best, min(calibrated, key=lambda row: row.validate), "best post-hoc calibrated model", labels)
        )
    if report.summary.oracle is not None:
        floor = report.summary.oracle[0]
        times = f", {number(best.test / floor, 2)} times lower" if floor > 0 and best.test > floor else ""
        said.append(
            f"The data are simulated, so the true LRs are known: their Cllr, the floor, is {number(floor)}{times}."
        )
    return tuple(said)


def _against(best: SummaryRow, other: SummaryRow, what: str, labels: dict[str, str]) -> str:
    low, high = sorted((best.test, other.test))
    text = f"The {what}, “{labels[other.name]}”, has {_value(other)}"
    if low <= 0 or high / low < 1.05:
        return f"{text}, about the same."
    return f"{text}, {number(high / low, 2)} times {'lower' if other.test < best.test else 'higher'}."


def _value(row: SummaryRow) -> str:
    return number(row.test) + (f" ± {number(row.test_error, 2)}" if row.test_error > 0 else "")
