"""Whether an LR of this case means anything: checked before anybody reads the number.

A *warning* goes into the report with its reason. A *refusal* means that an LR would be meaningless, and none is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from lindley.llrs import Floats
from lindley.models.two_level import item_squares
from lindley.settings import setting
from lindley.shown import in_marks
from lindley.system.header import may_say_nothing
from lindley.system.system import System, row_digests
from lindley.table.findings import Finding
from lindley.table.splits import Side
from lindley.table.table import Table

__all__ = [
    "CHECKS",
    "Remark",
    "check_items",
    "check_llr",
    "check_sessions",
    "check_sides",
    "check_system",
    "in_languages",
    "known_rows",
    "looks_foreign",
    "sd_outside",
]

ABSURD_SD = 50.0
"""Standard deviations of the population outside its range beyond which values are in another unit, or of another material."""
FAR_SD = 3.0
"""… and beyond which half of the features, and two at least, do not lie at once of anything like the population. No source of
six real tables does that when a system of half of the others looks at it."""
FAR_TIMES = 3.0
"""… nor do they lie so many times below the lowest or above the highest value at once, where the population is positive."""
MARGIN_SD = 0.5
"""… and within which a value a little outside the range is no news."""
DISAGREE = 10.0
"""Replicates that scatter so many times more than those of any training source are not replicates."""

Which = Literal["trace", "ref"]
_WHICH = {"en": {"trace": "Trace", "ref": "Reference"}, "nl": {"trace": "Spoor", "ref": "Referentie"}}
_MORE = {"en": "and {} more", "nl": "en {} andere"}

TEXTS: dict[str, dict[str, str]] = yaml.safe_load(files("lindley.casework").joinpath("remarks.yaml").read_text("utf-8"))
"""By code and by language."""
CHECKS = tuple(code for code, texts in TEXTS.items() if "en" in texts)
"""The codes of everything that is looked at; the others of `TEXTS` are of tables, which say the English themselves."""
_NOT_ALLOWED = {
    "en": "An LR would be meaningless: compare the units with those of the training data. If the values are what they are "
    f"meant to be, {setting('allow_outside')} gives an LR all the same, and the report says so.",
    "nl": "Een LR zou niets betekenen: vergelijk de eenheden met die van de trainingsgegevens. Zijn de waarden zoals ze "
    f"bedoeld zijn, dan geeft {setting('allow_outside')} toch een LR, en het rapport vermeldt dat.",
}
_ALLOWED = {
    "en": "There is an LR because it was asked for all the same; the population says little about it.",
    "nl": "Er is een LR omdat daar toch om is gevraagd; de populatie zegt er weinig over.",
}
_COPIED = {
    "en": "Two measurements never agree that well: give each side its own. For a test of the method, "
    f"{setting('allow_same_file')} gives an LR all the same, and the report says so.",
    "nl": "Twee metingen stemmen nooit zo goed overeen: geef van beide kanten de eigen metingen. Voor een test van de methode "
    f"geeft {setting('allow_same_file')} toch een LR, en het rapport vermeldt dat.",
}
_COPY_ALLOWED = {
    "en": "There is an LR because it was asked for all the same, as a test of the method: it is no evidence.",
    "nl": "Er is een LR omdat daar toch om is gevraagd, als test van de methode: bewijs is het niet.",
}
_CHANCE = {
    "en": "Equal measurements are among the training data as well, so that it may be chance.",
    "nl": "Ook in de trainingsgegevens staan gelijke metingen, zodat het toeval kan zijn.",
}
_DOUBTED = {
    "en": "An LR would be no evidence: train a system on more sources, with a calibration, or with another model. "
    f"{setting('force')} gives an LR all the same, and the report says so.",
    "nl": "Een LR zou geen bewijs zijn: train een systeem op meer bronnen, met een kalibratie, of met een ander model. "
    f"{setting('force')} geeft toch een LR, en het rapport vermeldt dat.",
}
_DOUBT_FORCED = {
    "en": "There is an LR because it was asked for all the same: do not take it for evidence.",
    "nl": "Er is een LR omdat daar toch om is gevraagd: zie hem niet als bewijs.",
}
_VALIDATED = {
    "en": " The validation of the system is of {two_sessions} same-source pairs of two sessions and {one_session} of one.",
    "nl": " De validatie van het systeem betreft {two_sessions} paren van één bron uit twee sessies en {one_session} uit één.",
}
_INTERVAL = {"en": " (95 % interval {} to {})", "nl": " (95%-interval {} tot {})"}
_BEYOND = {"en": {True: "above", False: "below"}, "nl": {True: "boven", False: "onder"}}


@dataclass(frozen=True)
class Remark:
    """One thing to know about a case; ``refusal`` if there can be no LR.

    ``message`` is in English, ``in_language`` in those of `TEXTS`.
    """

    code: str
    message: str
    refusal: bool = False
    which: Which | None = None
    items: tuple[str, ...] = ()
    translations: dict[str, str] = field(default_factory=dict, compare=False)

    def in_language(self, language: str) -> str:
        """The message in another language, if there is one."""
        return self.translations.get(language, self.message)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"code": self.code, "message": self.message, "which": self.which, "items": list(self.items)}


def check_system(system: System, *, force: bool = False) -> list[Remark]:
    """Whether the system says anything, by its own validation; ``force``: a warning in place of a refusal."""
    validation = system.about.get("validation", {})
    if not (validation and may_say_nothing(validation)):
        return []
    ends = [in_languages(end, 3) for end in validation.get("cllr_interval") or ()]
    interval = {
        language: form.format(*(end[language] for end in ends)) if ends else "" for language, form in _INTERVAL.items()
    }
    then = _DOUBT_FORCED if force else _DOUBTED
    return [
        _remark(
            "uninformative", None, (), not force, cllr=in_languages(validation["cllr"], 3), interval=interval, then=then
        )
    ]


def check_items(system: System, side: Side, items: Table, which: Which, *, allow_outside: bool = False) -> list[Remark]:
    """The traces or the refs on their own: their place in the population, their replicates, their history.

    ``allow_outside``: items that look like another unit or another method get a warning in place of a refusal.
    """
    remarks = [
        Remark(finding.code, str(finding), which=which, translations=_translated(finding))
        for finding in items.findings
        if finding.level == "warning"
    ]
    remarks += _range(system, side, which, allow_outside)
    remarks += _distance(system, side, which)
    remarks += _replicates(system, side, which)
    if not system.digests:
        remarks.append(_remark("training-unknown", which, side.source))
    if (known := known_rows(system, items)).any():
        remarks.append(_seen(system, side, items, which, known))
    return remarks


def check_sides(system: System, trace: Table, ref: Table, *, allow_same_file: bool = False) -> list[Remark]:
    """Traces and refs together: the same file on both sides, or measurements of the one among those of the other.

    Coarse measurements may be equal by chance. Where some of the training data are, equal ones are a warning, and one file on
    both sides is refused all the same.
    """
    shared = set(row_digests(ref.values)).intersection(row_digests(trace.values))
    if not shared:
        return []
    copied = np.array([digest in shared for digest in row_digests(trace.values)], dtype=bool)
    labels = np.array(trace.labels)[np.unique(trace.item[copied])]
    there = {digest for _, digest in ref.files}
    files = [name for name, digest in trace.files if digest in there]
    chance = len(set(system.digests)) < len(system.digests) and not files
    then = _CHANCE if chance else _COPY_ALLOWED if allow_same_file else _COPIED
    refusal = not (chance or allow_same_file)
    if files:
        named = {language: _some(tuple(files), language) for language in _WHICH}
        return [_remark("same-file", None, labels, refusal, files=named, then=then)]
    return [_remark("same-measurement", "trace", labels, refusal, then=then)]


def check_sessions(system: System, trace: Table, ref: Table) -> list[Remark]:
    """Whether traces and refs were measured in one session, where their tables name sessions."""
    if trace.session is None or ref.session is None:
        return []
    if not (shared := sorted(set(trace.session.tolist()) & set(ref.session.tolist()))):
        return []
    named = {language: _some(tuple(shared), language) for language in _WHICH}
    pairs = system.about.get("validation", {}).get("sessions")
    validated = _VALIDATED if pairs else dict.fromkeys(_WHICH, "")
    then = {language: text.format(**(pairs or {})) for language, text in validated.items()}
    return [_remark("same-session", None, (), sessions=named, then=then)]


def check_llr(llr: float, bounds: tuple[float, float]) -> list[Remark]:
    """What validation supports of an LR."""
    lower, upper = bounds
    if llr > upper or llr < lower:
        bound = upper if llr > upper else lower
        beyond = {language: words[llr > upper] for language, words in _BEYOND.items()}
        return [_remark("beyond-bounds", None, (), llr=in_languages(llr), bound=in_languages(bound), beyond=beyond)]
    return []


def known_rows(system: System, table: Table) -> NDArray[np.bool_]:
    """Which rows have the values of a training instance (rows,); labels may coincide, and say nothing."""
    seen = set(system.digests)
    return np.array([digest in seen for digest in row_digests(table.values)], dtype=bool)


def sd_outside(system: System, values: Floats) -> Floats:
    """How far standardised values lie outside the range of the population (rows, feature), in standard deviations."""
    population = system.population
    return np.maximum(np.maximum(population.lowest - values, values - population.highest), 0)


def looks_foreign(system: System, values: Floats) -> NDArray[np.bool_]:
    """Which transformed values (rows, feature) look like another unit or another method: far off on most features at once.

    A common factor moves all logarithms alike, and by few standard deviations each, so that no single feature gives it away.
    Before a logarithm a value that is a thousand times too small is close to 0, where the range of the population may begin.
    """
    scaled = system.scaling(values)
    far = sd_outside(system, scaled) > FAR_SD
    if system.transform == "none":
        lowest, highest = (system.scaling.undo(end) for end in (system.population.lowest, system.population.highest))
        far |= (lowest > 0) & ((values < lowest / FAR_TIMES) | (values > highest * FAR_TIMES))
    return np.asarray(far.sum(axis=1) >= max(2.0, len(system.features) / 2))


def _remark(code: str, which: Which | None, labels: object, refusal: bool = False, **facts: object) -> Remark:
    items = tuple(str(label) for label in np.asarray(labels, dtype=np.str_).reshape(-1).tolist())
    texts = {}
    for language, text in TEXTS[code].items():
        told = {key: value[language] if isinstance(value, dict) else value for key, value in facts.items()}
        named = {"which": _WHICH[language][which]} if which is not None else {}
        texts[language] = text.format(items=_some(items, language), **named, **told)
    return Remark(code, texts["en"], refusal, which, items, texts)


def _seen(system: System, side: Side, items: Table, which: Which, known: NDArray[np.bool_]) -> Remark:
    """Which rows of a case were trained on: digests are in the order of the training table, whose labels no system holds."""
    first = {digest: number for number, digest in reversed(list(enumerate(system.digests, 1)))}
    there = _some_of([first[digest] for digest in row_digests(items.values[known])])
    return _remark(
        "seen-in-training",
        which,
        side.source[np.unique(side.item[known])],
        known=known.sum(),
        rows=len(known),
        here=_some_of(np.flatnonzero(known) + 1),
        there=there,
        table=system.about.get("data", {}).get("name", ""),
    )


def _range(system: System, side: Side, which: Which, allow_outside: bool) -> list[Remark]:
    outside = sd_outside(system, system.scaling(side.values))
    if (outside > ABSURD_SD).any():
        return [_beyond(system, side, which, outside, ABSURD_SD, "outside-population")]
    remarks = []
    if (foreign := looks_foreign(system, side.mean)).any():
        then = _ALLOWED if allow_outside else _NOT_ALLOWED
        remarks.append(_remark("another-unit", which, side.source[foreign], refusal=not allow_outside, then=then))
    outside = np.where(foreign[side.item][:, None], 0, outside)
    if (outside > MARGIN_SD).any():
        remarks.append(_beyond(system, side, which, outside, MARGIN_SD, "outside-range"))
    return remarks


def _beyond(system: System, side: Side, which: Which, outside: Floats, limit: float, code: str) -> Remark:
    beyond = outside > limit
    labels = side.source[np.unique(side.item[beyond.any(axis=1)])]
    worst = int(np.argmax(outside.max(axis=0)))
    facts = {"feature": system.features[worst], "size": in_languages(outside.max(), 1), "limit": f"{limit:.0f}"}
    features = _names(system, np.asarray(beyond.any(axis=0)))
    return _remark(code, which, labels, refusal=limit == ABSURD_SD, features=features, **facts)


def _distance(system: System, side: Side, which: Which) -> list[Remark]:
    distance = system.population.distance_of(system.scaling(side.mean))
    far = distance > system.population.distance[-1]
    if not far.any():
        return []
    return [_remark("unlike-population", which, side.source[far], sources=len(system.population.means))]


def _replicates(system: System, side: Side, which: Which) -> list[Remark]:
    remarks = []
    if (single := side.count == 1).any():
        remarks.append(_remark("single-measurement", which, side.source[single]))
    measured = side.count > 1
    if not measured.any() or not len(system.population.scatter):
        return remarks
    # One yardstick for traces, refs and training sources: that of the refs.
    var = system.point.var_within_ref[0, 0].numpy()
    squares = item_squares(system.point, system.prepared(side)).numpy()[measured]
    scatter = (squares / var).sum(axis=1) / ((side.count[measured] - 1) * len(var))
    labels = side.source[measured]
    most = float(system.population.scatter[-1])
    usual = float(np.quantile(system.population.scatter, 0.99))
    absurd = scatter > DISAGREE * most
    if absurd.any():
        times = f"{scatter.max() / most:.0f}"
        remarks.append(_remark("replicates-contradict", which, labels[absurd], refusal=True, times=times))
    if (odd := (scatter > usual) & ~absurd).any():
        remarks.append(_remark("replicates-disagree", which, labels[odd]))
    return remarks


def in_languages(value: float, digits: int = 2) -> dict[str, str]:
    """A number as each language writes it."""
    return {language: in_marks(f"{value:.{digits}f}", language) for language in _WHICH}


def _translated(finding: Finding) -> dict[str, str]:
    """What was noticed about a table, in the languages that have words for it: the cells that it is about are named."""
    texts = TEXTS.get(finding.code, {})
    place = [finding.file] if finding.file else []
    if finding.rows:
        place.append(f"rij {_some_of(finding.rows)}")
    if finding.column is not None:
        place.append(f"kolom '{finding.column}'")
    where = f"{', '.join(place)}: " if place else ""
    return {"nl": where + texts["nl"]} if "nl" in texts else {}


def _names(system: System, chosen: NDArray[np.bool_]) -> str:
    names = [feature for feature, is_chosen in zip(system.features, chosen.tolist(), strict=True) if is_chosen]
    return ", ".join(names[:6]) + (f" (+{len(names) - 6})" if len(names) > 6 else "")


def _some_of(numbers: object) -> str:
    """The first of some numbers: of rows, counted from 1."""
    first = np.asarray(numbers).tolist()
    return ", ".join(map(str, first[:8])) + (" …" if len(first) > 8 else "")


def _some(labels: tuple[str, ...], language: str) -> str:
    shown = ", ".join(f"'{label}'" for label in labels[:4])
    return shown + (f" {_MORE[language].format(len(labels) - 4)}" if len(labels) > 4 else "")
