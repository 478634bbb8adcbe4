"""What a report says in words: how models are called, and the facts that somebody needs to repeat a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lindley.experiment.config import DataConfig
from lindley.system.names import NEURAL, ROBUST, ModelName

__all__ = ["family_of", "kind", "label", "list_facts"]

CLASSICAL_LABELS = {
    "robust": "robust",
    "tlm": "TLM",
    "tlm-kde": "TLM-KDE",
    "tlm-bayes": "TLM-Bayes",
    "ht-plda": "HT-PLDA",
    "nplda": "NPLDA",
}
CALIBRATION_LABELS = {"logistic": "logistic", "kde": "KDE", "pav": "PAV", "elub": "ELUB", "iv": "IV"}
GAUSSIANISER_LABELS = {"quantile": "quantile", "yeo-johnson": "Yeo-Johnson", "flow": "flow"}


def family_of(spec: ModelName) -> Literal["single", "double", "robust", "benchmark"]:
    """Which projection a network has, or that it is the robust model; the classical ones are benchmarks."""
    if spec.root.base == ROBUST:
        return "robust"
    if spec.root.base not in NEURAL:
        return "benchmark"
    return "single" if spec.base.startswith("ntlm-single-") else "double"


def label(name: str, spec: ModelName) -> str:
    """How the paper calls a model, "sources, N=2, varying", or as the experiment's author does.

    The projection is left out: models that differ in it alone share a place on the axis, as squares and circles.
    """
    if name != str(spec):
        return name  # a label of the author's own choice
    words = [GAUSSIANISER_LABELS.get(spec.gaussianiser, spec.gaussianiser)] if spec.gaussianiser else []
    root = spec.root.base
    if root in NEURAL:
        _, _, mode, within = root.split("-")
        words += [mode, f"N={within[1:]}"]
    else:
        words.append(CLASSICAL_LABELS.get(root, root))
    words += [spec.integration] if spec.integration else []
    words += [f"{option} {value}" for option, value in spec.options]
    words += ["cross-fitted"] if spec.cross_fitted else []
    return " + ".join([", ".join(words), *(CALIBRATION_LABELS.get(step, step) for step in spec.calibrations)])


def kind(spec: ModelName) -> str:
    """What kind of prediction a model makes, as a heading of panels side by side."""
    if spec.calibrations:
        return "after " + " + ".join(CALIBRATION_LABELS.get(step, step) for step in spec.calibrations)
    if spec.root.base not in NEURAL:
        return f"raw {label(str(spec), spec)}"
    if spec.integration is None:
        return "point value"
    own = set(spec.options) - set(spec.root.options)
    return ", ".join([f"{spec.integration}, integrated", *(f"{option} {value}" for option, value in sorted(own))])


def list_facts(content: Mapping[str, Any], source: DataConfig, neural: bool) -> tuple[tuple[str, str], ...]:
    """The data, the protocol, the versions and the machine of a results.json, for a reader who wants to repeat it."""
    data, protocol = content["data"], content["protocol"]
    facts = [("Data", f"{data['name']}: {data['rows']:,} measurements of {data['sources']:,} sources")]
    if data["groups"] != data["sources"]:
        facts.append(("Groups", f"{data['groups']:,}; the sources of a group are never split apart"))
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
