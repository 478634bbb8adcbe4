"""What is said of a case, in English and in Dutch: plain sentences for the court, and the names of the parts of its report;
and for the terminal the same of a batch and of a trained system.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import yaml

from lindley.casework.case import Batch, Case
from lindley.casework.laboratory import LANGUAGES, Scale
from lindley.pages.numerals import (
    UNKNOWN,
    fixed,
    grouped,
    lr_text,
    number,
    percent,
    plain,
    ratio_text,
    shorten,
    with_units,
)
from lindley.pages.page import asset
from lindley.system.kinds import CALIBRATIONS
from lindley.system.names import ModelName
from lindley.system.system import System
from lindley.table.scaling import Transform, TransformKind

__all__ = [
    "WORDS",
    "batch_bounds",
    "batch_table",
    "calibration_steps",
    "conclusion",
    "decided",
    "describe_batch",
    "describe_case",
    "describe_system",
    "describe_training",
    "described_file",
    "matrix_cells",
    "reading",
    "translated",
    "verbal_range",
]

WIDTH = 100
MOST_PRINTED = 12
"""Traces, and refs, of a matrix that is printed; a larger one belongs in a file."""
_BARELY = 1.1
"""LRs below this are told as equal probabilities."""


_TEXTS = yaml.safe_load(asset("case_words.yaml"))
WORDS: dict[str, dict[str, str]] = {
    language: {name: text[language] for name, text in _TEXTS.items()} for language in LANGUAGES
}
"""By language and by the name of the text."""
_DUTCH: dict[str, str] = yaml.safe_load(asset("dutch.yaml"))
"""What other parts of lindley say in English: their numbers are {} there."""


def translated(text: str, language: str) -> str | None:
    """What another part of lindley says, in the language of a page; none if there are no words for it.

    >>> translated("logistic calibration", "nl")
    'logistische kalibratie'
    """
    if language == "en":
        return text
    found = _DUTCH.get(re.sub(r"\d+", "{}", text))
    return None if found is None else found.format(*re.findall(r"\d+", text))


def reading(log10_lr: float, scale: Scale, language: str) -> str:
    """The LR as a sentence."""
    same, another = scale.propositions[language]
    favoured, other = (same, another) if log10_lr >= 0 else (another, same)
    size = abs(log10_lr)
    form = WORDS[language]["equal" if size < math.log10(_BARELY) else "times"]
    return form.format(times=lr_text(size, language), favoured=favoured, other=other)


def conclusion(case: Case) -> list[str]:
    """What the court reads first: the verbal equivalent, the LR, and what became of a stronger one."""
    said = case.explanation
    sentences = [case.verbal.sentence, reading(said.log10_lr_bounded, case.scale, case.language)]
    if said.log10_lr != said.log10_lr_bounded:
        raw, reported = (ratio_text(v, case.language) for v in (said.log10_lr, said.log10_lr_bounded))
        sentences.append(WORDS[case.language]["bounded"].format(raw=raw, reported=reported))
    if said.bounds_of != (here := (said.n_trace, said.n_ref)):
        of, this = (f"{m} × {n}" for m, n in (said.bounds_of, here))
        sentences.append(WORDS[case.language]["bounds_of"].format(measurements=of, here=this))
    if said.by_group is not None:
        other, same = (ratio_text(v, case.language) for v in (said.by_group.other_group, said.by_group.same_group))
        share = percent(said.by_group.share, language=case.language)
        sentences.append(WORDS[case.language]["by_group"].format(share=share, other=other, same=same))
    return sentences


def decided(case: Case) -> list[str]:
    """How many known sources agree as well, and which part of the LR counts most: sentences that are true of the model."""
    said, words = case.explanation, WORDS[case.language]
    form = "near_none" if said.as_near == 0 else "near_one" if said.as_near == 1 else "near_some"
    count = partial(grouped, language=case.language)
    sentences = [words[form].format(k=count(said.as_near), n=count(len(case.system.population.means)))]
    related = said.relatedness
    if related is not None:
        one = related.but_one
        which = "difference" if said.log10_lr_model < 0 else "relatedness" if related.share >= 0.5 else "typicality"
        if which == "relatedness" and one.share >= related.share / 2:
            which = "but_one"
        alike, but_one, wrong = (
            lr_text(-math.log10(each), case.language) for each in (related.alike, one.alike, one.wrong)
        )
        bound, without = (ratio_text(llr, case.language) for llr in (math.log10(one.wrong / one.alike), one.log10_lr))
        ceiling = lr_text(related.log10_ceiling, case.language)
        sentences.append(
            words[f"decided_{which}"].format(
                alike=alike,
                ceiling=ceiling,
                feature=one.feature,
                without=without,
                but_one=but_one,
                wrong=wrong,
                bound=bound,
            )
        )
    return sentences


def verbal_range(case: Case) -> str:
    """The verbal equivalents at both ends of the interval, within the bounds."""
    interval = case.explanation.interval
    if interval is None:
        return ""
    lower, upper = case.explanation.bounds
    ends = [
        case.scale.describe(min(max(end, lower), upper), case.language).sentence
        for end in (interval.lower, interval.upper)
    ]
    return ends[0] if ends[0] == ends[1] else " … ".join(ends)


def calibration_steps(system: System, language: str) -> str:
    """The calibrations of a system, in words."""
    steps = [CALIBRATIONS[step].words for step in ModelName.parse(system.name).calibrations]
    return ", ".join(translated(step, language) or step for step in steps)


def describe_case(case: Case) -> str:
    """The conclusion, the numbers, and what to keep in mind."""
    words, said, shown = WORDS[case.language], case.explanation, partial(fixed, language=case.language)
    lines = [
        f"{words['trace']} {plain(case.trace_label)} ({said.n_trace}×), {words['ref'].lower()} {plain(case.ref_label)} "
        f"({said.n_ref}×); {words['system'].lower()} {plain(str(case.system.file))}, {case.system.name}",
        "",
        *(line for sentence in conclusion(case) for line in textwrap.wrap(sentence, WIDTH)),
        "",
    ]
    lower, upper = map(shown, said.bounds)
    reported, calculated = (ratio_text(v, case.language) for v in (said.log10_lr_bounded, said.log10_lr))
    facts = [
        (words["log10_lr"], shown(said.log10_lr), f"LR {calculated}"),
        (words["log10_bounded"], shown(said.log10_lr_bounded), f"LR {reported}; {lower} … {upper}"),
        (words["log10_similarity"], shown(said.log10_similarity), ""),
        (words["log10_typicality"], shown(said.log10_typicality), ""),
    ]
    if said.calibrated:
        facts.append((words["log10_model"], shown(said.log10_lr_model), ""))
    if said.interval is None:
        facts.append((words["interval"].format(level=90), "–", words["no_interval"]))
    else:
        level = words["interval"].format(level=round(100 * said.interval.level))
        ends = f"{shown(said.interval.lower)} … {shown(said.interval.upper)}"
        facts.append((level, ends, words["interval_how"].format(n=said.interval.replicates)))
    name, value = (max(len(fact[i]) for fact in facts) for i in (0, 1))
    lines += [f"  {a:<{name}}  {b:>{value}}  {c}".rstrip() for a, b, c in facts]
    if said.calibrated:
        steps = calibration_steps(case.system, case.language)
        text = words["calibrated"].format(steps=steps, model=shown(said.log10_lr_model), llr=shown(said.log10_lr))
        lines += ["", *textwrap.wrap(text, WIDTH)]
    lines += ["", *_remarks(words, [remark.in_language(case.language) for remark in case.remarks])]
    return "\n".join([*lines, *_notes(words, case)])


def describe_batch(batch: Batch) -> str:
    """What to keep in mind about a matrix."""
    words = WORDS[batch.language]
    lower, upper = batch_bounds(batch)
    first = words["matrix_of"].format(
        traces=len(batch.trace.labels), refs=len(batch.ref.labels), system=batch.system.file, model=batch.system.name,
        lower=lower, upper=upper,
    )  # fmt: skip
    lines = [first, "", *_remarks(words, [remark.in_language(batch.language) for remark in batch.remarks])]
    return "\n".join([*lines, *_notes(words, batch)])


def batch_bounds(batch: Batch) -> tuple[str, str]:
    """As far as validation supports any LR of a matrix: pairs with more measurements may have wider bounds than others."""
    lower, upper = batch.bounds
    return fixed(lower.min(), language=batch.language), fixed(upper.max(), language=batch.language)


def batch_table(batch: Batch) -> tuple[str, list[str], list[list[str]], str] | None:
    """Title, header, rows and caption of a matrix of reported LRs that fits on a screen; else nothing."""
    if max(batch.log10_lr.shape) > MOST_PRINTED:
        return None
    words = WORDS[batch.language]
    traces, refs = (_told_apart(side.labels, words["number"]) for side in (batch.trace, batch.ref))
    rows = [[label, *cells] for label, cells in zip(traces, matrix_cells(batch), strict=True)]
    return words["matrix_table"], [words["trace"].lower(), *refs], rows, words["matrix_star"]


def matrix_cells(batch: Batch) -> list[list[str]]:
    """The reported LRs as text, with a star where the calculated one is beyond the bounds."""
    return [
        [f"{fixed(b, language=batch.language)}{'' if a == b else '*'}" for a, b in zip(llrs, bounded, strict=True)]
        for llrs, bounded in zip(batch.log10_lr.tolist(), batch.bounded.tolist(), strict=True)
    ]


def _told_apart(labels: Sequence[str], number: str) -> list[str]:
    """Labels that are short enough for a table; those that look the same for it have their place behind them."""
    short = [shorten(label) for label in labels]
    return [
        each if short.count(each) == 1 else f"{each} ({number} {place})" for place, each in enumerate(short, start=1)
    ]


def describe_training(system: System) -> str:
    """What was trained on what, and what its validation says of it."""
    about = system.about
    data, validation = about["data"], about["validation"]
    replicates = f"{about['bootstrap']} replicates tell how sure it is"
    paragraphs = [system.doubt] if system.doubt else []
    paragraphs += [
        f"{system.name}, trained on {data['rows']:,} measurements of {data['sources']:,} sources in {len(system.features)} "
        f"features; {replicates if about['bootstrap'] else 'without replicates, no LR has an interval'}.",
        f"Validation, by {validation['how']}: Cllr {number(validation['cllr'])} ({_cllr_interval(validation)}0 is "
        f"perfect, 1 says nothing), of which "
        f"{number(validation['cllr_min'])} for want of discrimination and {number(validation['cllr_cal'])} for want of "
        f"calibration. Of {validation['pairs_same']:,} same-source pairs {_share(validation['misleading_same'])} had an LR "
        f"below 1; of {validation['pairs_different']:,} different-source pairs {_share(validation['misleading_different'])} "
        "had one above 1.",
        f"These pairs support LRs from {_span(system.bounds)}: {_beyond(system)}",
    ]
    if sessions := validation.get("sessions"):
        paragraphs.append(
            f"Of its same-source pairs {sessions['two_sessions']:,} are of two sessions and {sessions['one_session']:,} of "
            "one: trace and reference are of different sessions wherever a source has two."
        )
    if "mates" in about:
        paragraphs.append(
            f"Different sources of one group are {percent(about['mates']['share'])} of the pairs of different sources "
            f"({about['mates']['setting']}), in fit, calibration, bounds and validation alike."
        )
    if system.calibration.steps:
        paragraphs.append("Its LR is calibrated afterwards, and is therefore not similarity over typicality.")
    elif validation["cllr_cal"] > max(validation["cllr_min"], 0.05):
        paragraphs.append(
            "Most of its Cllr is for want of calibration: its LRs are too large or too small. The robust model, or "
            f"{system.name}+logistic, may serve better; 'lindley run' compares them."
        )
    paragraphs.append(_gives_away(system))
    told = [textwrap.fill(paragraph, WIDTH) for paragraph in paragraphs]
    if "rivals" in about:
        told.insert(len(told) - 1, _beside_rivals(system))
    return "\n\n".join(told)


def _beside_rivals(system: System) -> str:
    """The held-out cost of a system and of plain models, a line each, and which is best if another is."""
    costs = {system.name: system.about["validation"]["cllr"], **system.about["rivals"]}
    longest = max(map(len, costs))
    lines = [f"  {name:{longest}}  {'not fitted' if cost is None else number(cost)}" for name, cost in costs.items()]
    best = cheaper_rival(system)
    if best is not None:
        lines.append(f"On this table {best} costs less than {system.name}.")
    return "\n".join(["Held-out Cllr on this table, beside plain models with a cross-fitted calibration:", *lines])


def cheaper_rival(system: System) -> str | None:
    """The plain model with the least held-out cost, if that is below the system's own."""
    costs = {name: cost for name, cost in system.about.get("rivals", {}).items() if cost is not None}
    best = min(costs, key=lambda name: costs[name], default=None)
    return best if best is not None and costs[best] < system.about["validation"]["cllr"] else None


def _cllr_interval(validation: Mapping[str, Any]) -> str:
    if "cllr_interval" not in validation:  # of a system of lindley 0.2 or before
        return ""
    ends = validation["cllr_interval"]
    if ends is None:
        return "no interval, for want of groups of sources or because of too many pairs; "
    return f"95 % interval {number(ends[0])} to {number(ends[1])}; "


def _share(misleading: float) -> str:
    return percent(misleading) if misleading else "none"


def _span(bounds: tuple[float, float]) -> str:
    lower, upper = bounds
    return f"{ratio_text(lower, 'en')} to {ratio_text(upper, 'en')} (log10 {fixed(lower)} to {fixed(upper)})"


def _beyond(system: System) -> str:
    """How far a case can go: one of several measurements may have wider bounds than one against one."""
    shapes = system.casework.shapes if system.casework is not None else ()
    if not shapes:
        return "cases report nothing beyond."
    lower, upper = zip(system.bounds, *(bounds for _, bounds in shapes), strict=True)
    return (
        "a case of one measurement against one reports nothing beyond. Cases of more measurements have bounds of their own, "
        f"from {_span((min(lower), max(upper)))} at the widest."
    )


def describe_system(system: System, claimed: str | None) -> str:
    """What a system is; ``claimed`` is the key that a signature beside it names, which was not checked."""
    about = system.about
    if "signed_by" in about:
        signature = f"checked, key {about['signed_by']}"
    elif claimed is not None:
        signature = f"names the key {claimed}; not checked: --require-signature does that"
    else:
        signature = "none"
    transform = Transform(cast(TransformKind, system.transform), system.reference)
    facts = [
        ("System", system.file),
        ("SHA-256", f"{system.sha256}, to compare with the laboratory's archive"),
        ("Signature", signature),
        ("Model", f"{system.name}: {ModelName.parse(system.name).words}"),
        ("Columns", ", ".join(with_units(system.columns, system.column_units))),
        ("Transform", str(transform)),
    ]
    if system.casework is not None:
        data, made = (
            about["data"],
            ", ".join(f"{name} {version}" for name, version in sorted(about["versions"].items())),
        )
        facts += [
            ("Trained on", f"{data.get('name', UNKNOWN)}, SHA-256 {data.get('sha256', UNKNOWN)}"),
            *(("", described_file(each)) for each in system.background),
            *_updates(about.get("updates")),
            ("Made", f"{about.get('created', UNKNOWN)}; {made}"),
        ]
    lines = []
    for name, fact in facts:
        lines += textwrap.wrap(fact, WIDTH, initial_indent=f"{name:<11}", subsequent_indent=" " * 11)
    digest = (
        "The digest finds accidents. It has no key, so that whoever changes a file can renew it: compare the SHA-256 with that "
        "in the archive, or have systems signed ('lindley sign')."
    )
    if system.casework is None:
        rest = f"Of an experiment with {len(system.splits)} splits; not trained for casework."
        return "\n".join([*lines, "", rest, "", textwrap.fill(digest, WIDTH)])
    return "\n".join([*lines, "", describe_training(system), "", textwrap.fill(digest, WIDTH)])


def _updates(record: Any) -> list[tuple[str, str]]:
    """The system that this one takes the place of, if any."""
    if not isinstance(record, Mapping):
        return []
    return [("Updates", f"{record.get('file', UNKNOWN)}, SHA-256 {record.get('sha256', UNKNOWN)}")]


def described_file(record: Mapping[str, Any]) -> str:
    """A file of the training data, or a table that was none, as a system remembers it."""
    name = record.get("file", record.get("table", UNKNOWN))
    counts = f"{record.get('rows', '?')} measurements of {record.get('sources', '?')} sources"
    return f"{name}: {counts}, SHA-256 {record.get('sha256', UNKNOWN)}"


def _gives_away(system: System) -> str:
    if not system.digests:
        return (
            "Private: its training sources were moved at random before it learnt from them, so that it holds the mean of none. "
            "Nor does it hold digests of their measurements: whether a case was among them cannot be told."
        )
    return (
        f"The file holds the mean of each of its {len(system.population.means):,} training sources exactly, and a digest of "
        "every measurement: who has it, has these. 'lindley train --private' makes a system that does not."
    )


def _remarks(words: Mapping[str, str], remarks: Sequence[str]) -> list[str]:
    if not remarks:
        return [words["nothing"]]
    return _bullets(words["keep_in_mind"], remarks)


def _notes(words: Mapping[str, str], of: Case | Batch) -> list[str]:
    """What was done with the tables, on lines of their own."""
    notes = [note for evidence in (of.trace, of.ref) for note in evidence.notes]
    return ["", *_bullets(words["noted"], notes)] if notes else []


def _bullets(heading: str, sentences: Sequence[str]) -> list[str]:
    lines = [f"{heading}:"]
    for sentence in sentences:
        lines += textwrap.wrap(sentence, WIDTH, initial_indent="  • ", subsequent_indent="    ")
    return lines
