"""What the report of a run says in words: how models are called, the result, and the facts that are needed to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lindley.pages.numerals import number, percent, times
from lindley.pages.run_figures import CalibrationPanel, Report, SummaryFigure, SummaryRow
from lindley.system.kinds import CALIBRATIONS, GAUSSIANISERS, INTEGRATIONS
from lindley.system.names import ModelName
from lindley.table.config import DataConfig

__all__ = [
    "AXIS_KINDS",
    "headline",
    "is_neural",
    "kind",
    "label",
    "list_facts",
    "model_labels",
    "panel_title",
    "series_words",
]

AXIS_KINDS = {"discriminating": "discriminates", "neutral": "says nothing", "bias": "shifts", "mixed": "mixed"}
"""What an axis does, in a word or two."""


def is_neural(spec: ModelName) -> bool:
    """Whether it is one of the paper's networks, with a projection, or made from one."""
    return spec.kind.family in ("single", "double")


def label(name: str, spec: ModelName) -> str:
    """How the paper calls a model, "sources, N=2, varying", or as the experiment's author does.

    The projection is left out: models that differ in it alone share a place on the axis, as squares and circles.
    """
    if name != str(spec):
        return name  # a label of the author's own choice
    words = [GAUSSIANISERS[spec.gaussianiser].label] if spec.gaussianiser else []
    words.append(spec.kind.label)
    words += [INTEGRATIONS[spec.integration].label] if spec.integration else []
    words += [f"{option} {value}" for option, value in spec.options]
    words += ["cross-fitted"] if spec.cross_fitted else []
    return " + ".join([", ".join(words), *(CALIBRATIONS[step].label for step in spec.calibrations)])


def kind(spec: ModelName) -> str:
    """What kind of prediction a model makes, as a heading of panels side by side."""
    if spec.calibrations:
        return "after " + " + ".join(CALIBRATIONS[step].label for step in spec.calibrations)
    if not is_neural(spec):
        return f"raw {label(str(spec), spec)}"
    if spec.integration is None:
        return "point value"
    own = set(spec.options) - set(spec.root.options)
    return ", ".join([f"{spec.integration}, integrated", *(f"{option} {value}" for option, value in sorted(own))])


def model_labels(figure: SummaryFigure) -> dict[str, str]:
    """Model names in words: with the projection, where the label leaves it out."""
    networks = ("single", "double")
    return {row.name: f"{row.label}, {row.family}" if row.family in networks else row.label for row in figure.rows}


def panel_title(panel: CalibrationPanel) -> str:
    """Which run it is, or which kind of prediction."""
    return f"{panel.which} run" if panel.which in ("worst", "median", "best") else panel.which


def headline(report: Report) -> tuple[str, ...]:
    """Two to four sentences: the best model as it is, how calibration compares, and how far the floor is."""
    rows, labels = report.summary.rows, model_labels(report.summary)
    best = next((row for row in rows if row.name == report.best), None)
    if best is None:
        return ()
    splits = report.summary.splits
    over = f"on average over {splits} splits (± 2 standard errors)" if splits > 1 else "on the one split of this run"
    kept = " of the models that keep similarity over typicality" if best.keeps_reading else ""
    said = [
        f"Chosen by validation, the best{kept} is “{labels[best.name]}”: its test Cllr is {_test_cllr(best)} {over}."
    ]
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
    text = f"The {what}, “{labels[other.name]}”, has {_test_cllr(other)}"
    if low <= 0 or high / low < 1.05:
        return f"{text}, about the same."
    return f"{text}, {number(high / low, 2)} times {'lower' if other.test < best.test else 'higher'}."


def _test_cllr(row: SummaryRow) -> str:
    return number(row.test) + (f" ± {number(row.test_error, 2)}" if row.test_error > 0 else "")


def series_words(report: Report) -> tuple[str, ...]:
    """What more measurements per item bring, what was done for it, and which sources it rests on."""
    figure = report.series
    if figure is None:
        return ()
    first, last = times(figure.sizes[0]), times(figure.sizes[-1])
    models = [row for row in figure.rows if row.family is not None]
    falling = sum(row.cllr[-1] < row.cllr[0] for row in models)
    best = next((row for row in models if row.name == report.best), models[0])
    said = [
        f"From {first} to {last} measurements (trace × ref), the mean test Cllr of “{best.label}” goes from "
        f"{number(best.cllr[0])} to {number(best.cllr[-1])}"
        + (f", and it falls for {falling} of {len(models)} models." if len(models) > 1 else "."),
        f"The systems are those of Table 1 at every size: fitted as the protocol says, with {times(figure.fitted)}. Only the "
        "measurements of the test sources were drawn anew, smaller draws within larger ones: so this is another draw than "
        "that of Table 1, also at the same size.",
    ]
    if any(row.calibrated for row in report.summary.rows):
        said.append("Calibrations were fitted at the protocol's size, and may fit less well at others.")
    if len(set(figure.sources)) > 1:
        said.append("Larger sizes rest on fewer sources: those that have enough measurements.")
    return tuple(said)


def list_facts(content: Mapping[str, Any], source: DataConfig, neural: bool) -> tuple[tuple[str, str], ...]:
    """The data, the protocol, the versions and the machine of a results.json, for a reader who wants to repeat it."""
    data, protocol = content["data"], content["protocol"]
    facts = [("Data", f"{data['name']}: {data['rows']:,} measurements of {data['sources']:,} sources")]
    if data["groups"] != data["sources"]:
        facts.append(("Groups", f"{data['groups']:,}; the sources of a group are never split apart"))
    if sessions := data.get("sessions"):
        facts.append(
            (
                "Sessions",
                f"{sessions['two_sessions']:,} sources have two or more, of which trace and ref are of different ones; of "
                f"{sessions['one_session']:,} sources both are of one",
            )
        )
    if "mates" in data:
        facts.append(
            (
                "Sources of one group",
                f"{percent(data['mates'])} of the pairs of different sources ({protocol['mates']}): mates are weighted to that "
                "share in fits, calibrations and figures",
            )
        )
    facts.append(("Features", f"{len(data['features'])}: {', '.join(data['features'])}"))
    if source.transform != "none":
        ratio = f" of the ratio to {source.reference_column}" if source.reference_column else ""
        facts.append(("Transform", f"{source.transform}{ratio}"))
    facts.append(("Fingerprint of the data", f"SHA-256 {data['sha256']}"))
    facts.append(("Protocol", _protocol(protocol)))
    facts.append(("Seed", str(protocol["seed"])))
    if neural:
        facts.append(("Training", _training(content["training"])))
    return (*facts, *_environment(content["environment"]))


def _environment(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whatever is named there and is not the machine is a version of something."""
    known = ("lindley", "python", "code_sha256", "platform", "machine", "cores")
    software = [f"lindley {environment['lindley']}", f"Python {environment['python']}"]
    software += [f"{package} {number}" for package, number in environment.items() if package not in known]
    machine = [str(environment[key]) for key in ("platform", "machine") if key in environment]
    if "cores" in environment:
        machine.append(f"{environment['cores']} cores")
    facts = [("Software", ", ".join(software))]
    if "code_sha256" in environment:
        facts.append(("Fingerprint of the code", f"SHA-256 {environment['code_sha256']}"))
    return [*facts, ("Machine", ", ".join(machine))]


def _protocol(protocol: Mapping[str, Any]) -> str:
    splits, replicates, trace = protocol["splits"], protocol["replicates"], protocol["trace_instances"]
    times = "one random split" if splits == 1 else f"{splits} random splits"
    shares = " : ".join(f"{share:g}" for share in protocol["shares"])
    return (
        f"{times} of the sources into training, validation and test ({shares}); {replicates} measurements drawn of every "
        f"source, {trace} as the trace and {replicates - trace} as the ref"
    )


def _training(training: Mapping[str, Any]) -> str:
    known = {"epochs": "{} epochs", "batch": "batches of {}", "learning_rate": "learning rate {:g}"}
    known |= {"weight_decay": "weight decay {:g}", "device": "on {}"}
    names = {"cpu": "a CPU", "cuda": "a GPU"}
    return ", ".join(
        text.format(names.get(training[key], training[key]) if key == "device" else training[key])
        for key, text in known.items()
        if key in training
    )
