"""A case, a batch and a trained system in plain words, for the terminal."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from lindley.casework.case import Batch, Case
from lindley.casework.train import TrainedSystem
from lindley.pages.case_words import WORDS, conclusion, ratio_text
from lindley.pages.palette import number, shorten
from lindley.system.names import CALIBRATION_NAMES, ModelName

__all__ = ["batch_csv", "batch_rows", "describe_batch", "describe_case", "describe_training"]

WIDTH = 100
MOST_PRINTED = 12
"""Traces, and refs, of a matrix that is printed; a larger one belongs in a file."""


def describe_case(case: Case) -> str:
    """The conclusion, the numbers, and what to keep in mind."""
    words, said = WORDS[case.language], case.explanation
    lines = [
        f"{words['trace']} {case.trace_label} ({said.n_trace}×), {words['ref'].lower()} {case.ref_label} ({said.n_ref}×); "
        f"{words['system'].lower()} {case.file.name}, {case.system.name}",
        "",
        *(line for sentence in conclusion(case) for line in textwrap.wrap(sentence, WIDTH)),
        "",
    ]
    lower, upper = (_signed(bound) for bound in said.bounds)
    reported, calculated = (ratio_text(v, case.language) for v in (said.log10_lr_bounded, said.log10_lr))
    facts = [
        (words["log10_lr"], _signed(said.log10_lr), f"LR {calculated}"),
        (words["log10_bounded"], _signed(said.log10_lr_bounded), f"LR {reported}; {lower} … {upper}"),
        (words["log10_similarity"], _signed(said.log10_similarity), ""),
        (words["log10_typicality"], _signed(said.log10_typicality), ""),
    ]
    if said.calibrated:
        facts.append((words["log10_model"], _signed(said.log10_lr_model), ""))
    if said.interval is None:
        facts.append((words["interval"].format(level=90), "–", words["no_interval"]))
    else:
        level = words["interval"].format(level=round(100 * said.interval.level))
        ends = f"{_signed(said.interval.lower)} … {_signed(said.interval.upper)}"
        facts.append((level, ends, words["interval_how"].format(n=said.interval.replicates)))
    name, value = (max(len(fact[i]) for fact in facts) for i in (0, 1))
    lines += [f"  {a:<{name}}  {b:>{value}}  {c}".rstrip() for a, b, c in facts]
    if said.calibrated:
        steps = ", ".join(CALIBRATION_NAMES[step] for step in ModelName.parse(case.system.name).calibrations)
        text = words["calibrated"].format(steps=steps, model=_signed(said.log10_lr_model), llr=_signed(said.log10_lr))
        lines += ["", *textwrap.wrap(text, WIDTH)]
    lines += [
        "",
        *_remarks(words["keep_in_mind"], [r.in_language(case.language) for r in case.remarks], words["nothing"]),
    ]
    return "\n".join(lines)


def describe_batch(batch: Batch) -> str:
    """What to keep in mind about a matrix."""
    lower, upper = (_signed(bound) for bound in batch.file.system.bounds)
    lines = [
        f"{len(batch.trace.labels)} traces × {len(batch.ref.labels)} refs; system {batch.file.name}, "
        f"{batch.file.system.name}. Validation supports log10 LRs from {lower} to {upper}.",
        "",
    ]
    words = WORDS["en"]
    return "\n".join(lines + _remarks(words["keep_in_mind"], [r.message for r in batch.remarks], words["nothing"]))


def batch_rows(batch: Batch) -> tuple[list[str], list[list[str]]] | None:
    """Header and rows of a matrix that fits on a screen, with a star where the bounds are passed; else nothing."""
    if max(batch.log10_lr.shape) > MOST_PRINTED:
        return None
    header = ["trace", *(shorten(label) for label in batch.ref.labels)]
    rows = []
    for label, llrs, bounded in zip(batch.trace.labels, batch.log10_lr.tolist(), batch.bounded.tolist(), strict=True):
        cells = [f"{_signed(a)}{'' if a == b else '*'}" for a, b in zip(llrs, bounded, strict=True)]
        rows.append([shorten(label), *cells])
    return header, rows


def batch_csv(batch: Batch) -> str:
    """The matrix of log10 LRs: a row for every trace, a column for every ref, numbers in full."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trace", *batch.ref.labels])
    for label, row in zip(batch.trace.labels, batch.log10_lr.tolist(), strict=True):
        writer.writerow([label, *map(repr, row)])
    return text.getvalue()


def _replicates(number: int) -> str:
    return (
        f"{number} bootstrap replicates tell how sure it is" if number else "without replicates, no LR has an interval"
    )


def describe_training(trained: TrainedSystem) -> str:
    """What was trained on what, and what its validation says of it."""
    about, system = trained.about, trained.system
    data, validation = about["data"], about["validation"]
    lower, upper = system.bounds
    paragraphs = [
        f"{system.name}, trained on {data['rows']:,} measurements of {data['sources']:,} sources in {len(system.features)} "
        f"features; {_replicates(about['bootstrap'])}.",
        f"Validation, by {validation['how']}: Cllr {_figure(validation, 'cllr')} (0 is perfect, 1 says nothing), of which "
        f"{_figure(validation, 'cllr_min')} for want of discrimination and {_figure(validation, 'cllr_cal')} for want of "
        f"calibration. Of {validation['pairs_same']:,} same-source pairs {_share(validation, 'misleading_same')} had an LR "
        f"below 1; of {validation['pairs_different']:,} different-source pairs {_share(validation, 'misleading_different')} "
        "had one above 1.",
        f"These pairs support LRs from {ratio_text(lower, 'en')} to {ratio_text(upper, 'en')} (log10 {_signed(lower)} to "
        f"{_signed(upper)}): cases report nothing beyond.",
    ]
    if system.calibration:
        paragraphs.append("Its LR is calibrated afterwards, and is therefore not similarity over typicality.")
    elif validation["cllr_cal"] > max(validation["cllr_min"], 0.05):
        paragraphs.append(
            "Most of its Cllr is for want of calibration: its LRs are too large or too small. The robust model, or "
            f"{system.name}+logistic, may serve better; 'lindley run' compares them."
        )
    return "\n\n".join(textwrap.fill(paragraph, WIDTH) for paragraph in paragraphs)


def _remarks(heading: str, remarks: Sequence[str], none: str) -> list[str]:
    if not remarks:
        return [none]
    lines = [f"{heading}:"]
    for remark in remarks:
        lines += textwrap.wrap(remark, WIDTH, initial_indent="  • ", subsequent_indent="    ")
    return lines


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _figure(validation: Mapping[str, Any], key: str) -> str:
    return "–" if validation[key] is None else number(validation[key])


def _share(validation: Mapping[str, Any], key: str) -> str:
    return f"{100 * validation[key]:.2g} %"
