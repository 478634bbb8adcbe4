"""What a case report says, in English and in Dutch: plain sentences for the court, and the names of its parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lindley.casework.verbal import Scale

if TYPE_CHECKING:
    from lindley.casework.record import Case

__all__ = ["WORDS", "conclusion", "lr_text", "power", "reading", "verbal_range"]

_SUPERSCRIPT = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")
_LARGE = {"en": ("million", "billion"), "nl": ("miljoen", "miljard")}
_BARELY = 1.1
"""LRs below this are told as equal probabilities."""

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "kicker": "Evaluation of a comparison",
        "title": "{trace} compared with {ref}",
        "case": "Case",
        "examiner": "Examiner",
        "date": "Date",
        "system": "System",
        "trace": "Trace",
        "ref": "Reference",
        "conclusion": "Conclusion",
        "times": "The measurements are about {times} times as probable if {favoured} as if {other}.",
        "equal": "The measurements are about as probable if {favoured} as if {other}.",
        "bounded": "The calculation itself gives a likelihood ratio of {raw}. The validation of the system supports no more than "
        "{reported}, so that is what is reported.",
        "prior": "This is the weight of these measurements alone. It is not the probability that the trace comes from this source: "
        "that depends on the other information in the case too, which is for the court to weigh.",
        "keep_in_mind": "What to keep in mind",
        "nothing": "No check of this case gave cause for a remark.",
        "propositions": "Propositions",
        "propositions_how": "The measurements are judged under two propositions, of which one at most is true.",
        "h1": "Hypothesis 1",
        "h2": "Hypothesis 2",
        "population": "“Another source” is a source from the population that the system was trained on: {sources} sources in the "
        "data set “{data}”. Whether that is the right population for this case is for the examiner to judge.",
        "measured": "What was measured",
        "measured_how": "The trace was measured {trace_times}, the reference {ref_times}, in {features} features. All measurements "
        "count, each as often as it was made.",
        "once": "once",
        "n_times": "{n} times",
        "feature": "Feature",
        "mean": "mean",
        "many_rows": "There are many measurements, so the table shows their mean and their range; all of them are under “{all}”.",
        "range": "range",
        "where": "Where trace and reference lie in the population",
        "where_how": "Each strip is one feature. The hill shows how the {sources} training sources are spread: where it is high, many "
        "sources are alike. Triangles above the line are measurements of the trace, circles below it those of the "
        "reference. A pair that agrees in a place where the hill is low says more than one where it is high.",
        "higher_than": "higher than {trace} % (trace) and {ref} % (reference) of the sources",
        "scatter_how": "The two directions in which this system tells sources apart best. Every dot is a training source. One step on "
        "an axis is the usual difference between two measurements of one source (a standard deviation); the ring around "
        "the reference holds 95 % of the measurements that its source would give.",
        "scatter_axis": "direction {n}: mostly {features}",
        "other_sources": "training sources",
        "why": "Similarity and typicality",
        "why_how": "A likelihood ratio weighs two things against each other. ",
        "similarity": "Similarity",
        "similarity_how": "How probable are the measurements of the trace if it comes from the source of the reference? The closer trace "
        "and reference are, measured by how much repeated measurements differ, the higher.",
        "typicality": "Typicality",
        "typicality_how": "How probable are the measurements of the trace if it comes from another source? The more common such "
        "measurements are in the population, the higher.",
        "ratio": "Their ratio is the likelihood ratio",
        "ratio_how": "10 to the power {similarity} − ({typicality}) = {llr}.",
        "calibrated": "This system adjusts its likelihood ratio afterwards (post-hoc calibration: {steps}). What is reported is "
        "therefore not similarity over typicality: their ratio is a log10 LR of {model}, which the calibration turns into "
        "{llr}. The shares of the features below explain the first number, and not the second.",
        "shares": "What each feature contributes",
        "shares_how": "Bars to the right support a common source, bars to the left another source. Each feature starts from what a "
        "perfect match of unremarkable values would be worth (match); it gains where the values are rare, or loses where "
        "they are common (rarity); and loses as trace and reference differ (difference). The diamond is the sum. The sums "
        "of all features add up to the log10 LR of the model, {model}.",
        "match": "match",
        "rarity": "rarity",
        "difference": "difference",
        "sum": "sum",
        "against": "← another source",
        "for": "the same source →",
        "limits": "Limits",
        "limit_population": "The result holds for the population of the training data. If sources of another kind are possible in this "
        "case, typicality may be other than it is here.",
        "limit_measuring": "Trace and reference must have been measured as the training data were: same instrument, same settings, same "
        "units. The system can tell gross departures from this, and not small ones.",
        "limit_bounds": "Validation rests on {same} pairs from the same source and {different} pairs from different sources. They support "
        "log10 LRs from {lower} to {upper}, and nothing beyond.",
        "limit_source": "The propositions are about the source of the trace. How it got where it was found is another question.",
        "limit_interval": "The interval tells how much the result depends on which sources happened to be in the training data. It does not "
        "tell of errors in sampling, in measuring or in the choice of the model.",
        "sign": "Signed",
        "name": "Name",
        "place": "Place and date",
        "signature": "Signature",
        "reviewer": "Second examiner",
        "expert": "For the expert",
        "d_result": "The result in numbers",
        "log10_lr": "log10 LR, calculated",
        "log10_bounded": "log10 LR, reported (within the bounds)",
        "bounds": "Bounds (log10)",
        "bounds_how": "empirical lower and upper bounds (ELUB) of the validation pairs",
        "interval": "{level} % interval (log10)",
        "interval_how": "of the calculated LR; bootstrap of {n} draws of the training sources",
        "no_interval": "none: the system was trained without bootstrap replicates",
        "log10_similarity": "log10 similarity",
        "log10_typicality": "log10 typicality",
        "density_how": "densities of the mean trace in standardised features",
        "log10_model": "log10 LR of the model, before calibration",
        "verbal_interval": "Verbal equivalents over the interval",
        "d_scale": "The verbal scale",
        "scale_how": "Scale: {name}. {source}. Below 1 the scale is read with the propositions exchanged.",
        "from_lr": "LR from",
        "words": "words",
        "d_features": "Features: values and shares",
        "share": "share",
        "d_axes": "Axes: shares",
        "axes_how": "The axes are the directions on which the model works; their shares add up to the log10 LR of the model. A direction is "
        "named by the features that weigh most in it.",
        "axis": "axis",
        "features": "features",
        "d_method": "Method",
        "d_system": "System and validation",
        "d_checks": "Checks of applicability",
        "checks_how": "Each of these was looked at. None that is marked was passed over in silence.",
        "noticed": "noticed",
        "in_order": "in order",
        "d_data": "All measurements",
        "as_measured": "As measured, and as the model sees them ({transform}).",
        "row": "row",
        "d_repeat": "To repeat this",
        "repeat_how": "The same files and the same version of lindley give the same LR on every machine.",
        "command": "Command",
        "files": "Files",
        "versions": "Versions",
        "reported_here": "reported",
        "calculated_here": "calculated",
        "unsupported": "not supported by validation",
        "footer": "Made by lindley {version}. This page is one file: it loads nothing from elsewhere.",
    },
    "nl": {
        "kicker": "Evaluatie van een vergelijking",
        "title": "{trace} vergeleken met {ref}",
        "case": "Zaak",
        "examiner": "Onderzoeker",
        "date": "Datum",
        "system": "Systeem",
        "trace": "Spoor",
        "ref": "Referentie",
        "conclusion": "Conclusie",
        "times": "De metingen zijn ongeveer {times} keer zo waarschijnlijk wanneer {favoured} als wanneer {other}.",
        "equal": "De metingen zijn ongeveer even waarschijnlijk wanneer {favoured} als wanneer {other}.",
        "bounded": "De berekening zelf geeft een likelihood ratio van {raw}. De validatie van het systeem ondersteunt niet meer dan "
        "{reported}; daarom wordt dat gerapporteerd.",
        "prior": "Dit is de bewijskracht van deze metingen alleen. Het is niet de kans dat het spoor van deze bron komt: die hangt ook "
        "af van de andere informatie in de zaak, en het is aan de rechter om die te wegen.",
        "keep_in_mind": "Aandachtspunten",
        "nothing": "Geen van de controles gaf aanleiding tot een opmerking.",
        "propositions": "Hypothesen",
        "propositions_how": "De metingen zijn beschouwd onder twee hypothesen, waarvan er hoogstens één waar is.",
        "h1": "Hypothese 1",
        "h2": "Hypothese 2",
        "population": "“Een andere bron” is een bron uit de populatie waarop het systeem is getraind: {sources} bronnen in de "
        "gegevensverzameling “{data}”. Of dat voor deze zaak de juiste populatie is, is aan de onderzoeker.",
        "measured": "Wat is gemeten",
        "measured_how": "Het spoor is {trace_times} gemeten, de referentie {ref_times}, op {features} kenmerken. Alle metingen tellen "
        "mee, elk zo vaak als ze is gedaan.",
        "once": "één keer",
        "n_times": "{n} keer",
        "feature": "Kenmerk",
        "mean": "gemiddelde",
        "many_rows": "Er zijn veel metingen; de tabel geeft hun gemiddelde en hun bereik. Ze staan alle onder “{all}”.",
        "range": "bereik",
        "where": "Waar spoor en referentie in de populatie liggen",
        "where_how": "Elke strook is één kenmerk. De heuvel laat zien hoe de {sources} trainingsbronnen verspreid zijn: waar hij hoog is, "
        "lijken veel bronnen op elkaar. Driehoeken boven de lijn zijn metingen van het spoor, cirkels eronder die van de "
        "referentie. Overeenkomst waar de heuvel laag is zegt meer dan overeenkomst waar hij hoog is.",
        "higher_than": "hoger dan {trace} % (spoor) en {ref} % (referentie) van de bronnen",
        "scatter_how": "De twee richtingen waarin dit systeem bronnen het best onderscheidt. Elke stip is een trainingsbron. Eén stap op "
        "een as is het gebruikelijke verschil tussen twee metingen van één bron (een standaarddeviatie); de ring om de "
        "referentie bevat 95 % van de metingen die haar bron zou geven.",
        "scatter_axis": "richting {n}: vooral {features}",
        "other_sources": "trainingsbronnen",
        "why": "Overeenkomst en zeldzaamheid",
        "why_how": "Een likelihood ratio weegt twee dingen tegen elkaar af. ",
        "similarity": "Overeenkomst (similarity)",
        "similarity_how": "Hoe waarschijnlijk zijn de metingen van het spoor als het van de bron van de referentie komt? Hoe dichter spoor en "
        "referentie bij elkaar liggen, afgemeten aan het verschil tussen herhaalde metingen, hoe hoger.",
        "typicality": "Gewoonheid (typicality)",
        "typicality_how": "Hoe waarschijnlijk zijn de metingen van het spoor als het van een andere bron komt? Hoe gewoner zulke metingen in "
        "de populatie zijn, hoe hoger.",
        "ratio": "Hun verhouding is de likelihood ratio",
        "ratio_how": "10 tot de macht {similarity} − ({typicality}) = {llr}.",
        "calibrated": "Dit systeem past zijn likelihood ratio achteraf aan (kalibratie: {steps}). Wat wordt gerapporteerd is daarom niet "
        "similarity gedeeld door typicality: hun verhouding is een log10 LR van {model}, en de kalibratie maakt daar {llr} "
        "van. De bijdragen van de kenmerken hieronder verklaren het eerste getal, en niet het tweede.",
        "shares": "Wat elk kenmerk bijdraagt",
        "shares_how": "Balken naar rechts steunen één gemeenschappelijke bron, balken naar links een andere bron. Elk kenmerk begint met "
        "wat een volmaakte overeenkomst van onopvallende waarden waard zou zijn (overeenkomst); het wint waar de waarden "
        "zeldzaam zijn, of verliest waar ze gewoon zijn (zeldzaamheid); en het verliest naarmate spoor en referentie "
        "verschillen (verschil). De ruit is de som. De sommen van alle kenmerken zijn samen de log10 LR van het model, "
        "{model}.",
        "match": "overeenkomst",
        "rarity": "zeldzaamheid",
        "difference": "verschil",
        "sum": "som",
        "against": "← een andere bron",
        "for": "dezelfde bron →",
        "limits": "Beperkingen",
        "limit_population": "Het resultaat geldt voor de populatie van de trainingsgegevens. Als in deze zaak bronnen van een andere soort "
        "mogelijk zijn, kan de zeldzaamheid anders zijn dan hier.",
        "limit_measuring": "Spoor en referentie moeten zijn gemeten zoals de trainingsgegevens: hetzelfde instrument, dezelfde instellingen, "
        "dezelfde eenheden. Het systeem herkent grove afwijkingen daarvan, en kleine niet.",
        "limit_bounds": "De validatie berust op {same} paren van dezelfde bron en {different} paren van verschillende bronnen. Die "
        "ondersteunen log10 LR's van {lower} tot {upper}, en niet verder.",
        "limit_source": "De hypothesen gaan over de bron van het spoor. Hoe het is gekomen waar het is gevonden, is een andere vraag.",
        "limit_interval": "Het interval zegt hoezeer het resultaat afhangt van de bronnen die toevallig in de trainingsgegevens zitten. Het "
        "zegt niets over fouten in de bemonstering, het meten of de keuze van het model.",
        "sign": "Ondertekening",
        "name": "Naam",
        "place": "Plaats en datum",
        "signature": "Handtekening",
        "reviewer": "Tweede onderzoeker",
        "expert": "Voor de deskundige",
        "d_result": "Het resultaat in getallen",
        "log10_lr": "log10 LR, berekend",
        "log10_bounded": "log10 LR, gerapporteerd (binnen de grenzen)",
        "bounds": "Grenzen (log10)",
        "bounds_how": "empirische onder- en bovengrens (ELUB) van de validatieparen",
        "interval": "{level} %-interval (log10)",
        "interval_how": "van de berekende LR; bootstrap van {n} trekkingen van de trainingsbronnen",
        "no_interval": "geen: het systeem is zonder bootstrap getraind",
        "log10_similarity": "log10 similarity",
        "log10_typicality": "log10 typicality",
        "density_how": "dichtheden van het gemiddelde spoor in gestandaardiseerde kenmerken",
        "log10_model": "log10 LR van het model, vóór kalibratie",
        "verbal_interval": "Verbale termen over het interval",
        "d_scale": "De verbale schaal",
        "scale_how": "Schaal: {name}. {source}. Onder 1 wordt de schaal met verwisselde hypothesen gelezen.",
        "from_lr": "LR vanaf",
        "words": "woorden",
        "d_features": "Kenmerken: waarden en bijdragen",
        "share": "bijdrage",
        "d_axes": "Assen: bijdragen",
        "axes_how": "De assen zijn de richtingen waarop het model werkt; hun bijdragen zijn samen de log10 LR van het model. Een richting "
        "heet naar de kenmerken die er het zwaarst in wegen.",
        "axis": "as",
        "features": "kenmerken",
        "d_method": "Methode",
        "d_system": "Systeem en validatie",
        "d_checks": "Controles van de toepasbaarheid",
        "checks_how": "Elk van deze punten is nagegaan; wat is opgemerkt, staat erbij.",
        "noticed": "opgemerkt",
        "in_order": "in orde",
        "d_data": "Alle metingen",
        "as_measured": "Zoals gemeten, en zoals het model ze ziet ({transform}).",
        "row": "rij",
        "d_repeat": "Om dit te herhalen",
        "repeat_how": "Dezelfde bestanden en dezelfde versie van lindley geven op elke machine dezelfde LR.",
        "command": "Opdracht",
        "files": "Bestanden",
        "versions": "Versies",
        "reported_here": "gerapporteerd",
        "calculated_here": "berekend",
        "unsupported": "niet ondersteund door validatie",
        "footer": "Gemaakt met lindley {version}. Deze pagina is één bestand: zij laadt niets van elders.",
    },
}  # fmt: skip


def power(log10_lr: float) -> str:
    """``10³·⁴`` has no place in a sentence: a whole power of ten, cut towards 1.

    >>> power(33.9), power(-580.2)
    ('10³³', '10⁻⁵⁸⁰')
    """
    return "10" + str(int(log10_lr)).translate(_SUPERSCRIPT)


def lr_text(log10_lr: float, language: str = "en") -> str:
    """An LR of 1 or more as a person says it, cut to two digits: never more than it is.

    >>> lr_text(2.76), lr_text(7.29), lr_text(7.29, "nl"), lr_text(0.31), lr_text(15.2)
    ('570', '19 million', '19 miljoen', '2.0', '10¹⁵')
    """
    if log10_lr >= 12:
        return power(log10_lr)
    exponent = math.floor(log10_lr + 1e-12)
    mantissa = math.floor(10 ** (log10_lr - exponent + 1) + 1e-9)  # 10 to 99
    mantissa = min(max(mantissa, 10), 99)
    for size, word in zip((6, 9), _LARGE[language], strict=True):
        if size <= exponent < size + 3:
            return f"{_plain(mantissa, exponent - size - 1, language)} {word}"
    return _plain(mantissa, exponent - 1, language)


def _plain(mantissa: int, exponent: int, language: str) -> str:
    text = f"{mantissa * 10**exponent:,}" if exponent >= 0 else f"{mantissa / 10:.1f}"
    return text if language == "en" else text.translate(str.maketrans(",.", ".,"))


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
    return sentences


def ratio_text(log10_lr: float, language: str) -> str:
    """An LR of any size: ``1/420`` for one below 1."""
    if log10_lr <= -12:
        return power(log10_lr)
    return lr_text(log10_lr, language) if log10_lr >= 0 else f"1/{lr_text(-log10_lr, language)}"


def verbal_range(case: Case) -> str:
    """The verbal equivalents at both ends of the interval, within the bounds."""
    interval = case.explanation.interval
    if interval is None:
        return ""
    lower, upper = case.explanation.bounds
    ends = [
        case.scale.describe(min(max(end, lower), upper), case.language).sentence for end in (interval.lower, interval.upper)
    ]
    return ends[0] if ends[0] == ends[1] else " … ".join(ends)
