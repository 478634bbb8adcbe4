"""The registry: one entry is enough for a kind of model, and what entries say of their models is true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import lindley
from lindley.adapters.sklearn import TwoLevelClassifier
from lindley.calibration import CALIBRATIONS as STEPS
from lindley.casework.case import make_case
from lindley.cli import options
from lindley.errors import LindleyError
from lindley.experiment.saved import SavedRun
from lindley.models.between import Scatter
from lindley.models.classical import fit_classical
from lindley.models.fitting import Fitted, Task, refittable
from lindley.models.gaussianise import GAUSSIANISERS as TRANSFORMS
from lindley.models.two_level import TwoLevel
from lindley.system.fit import Settings
from lindley.system.kinds import CALIBRATIONS, GAUSSIANISERS, KINDS, Kind, Options, fetch, register
from lindley.system.names import ModelName
from lindley.system.train import fit_table
from tests.system.test_train import instances


@dataclass(frozen=True, eq=False)
class Doubtful(TwoLevel):
    """The classical model, which says only a part of what it thinks."""

    doubt: Tensor  # (run, 1, 1)

    def ln_lr(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        return self.doubt * super().ln_lr(trace, ref, n_trace, n_ref, scatter)

    def ln_parts(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> tuple[Tensor, Tensor]:
        similarity, typicality = super().ln_parts(trace, ref, n_trace, n_ref, scatter)
        return self.doubt * similarity, self.doubt * typicality

    def ln_lr_pairs(
        self, trace: Tensor, ref: Tensor, n_trace: int = 1, n_ref: int = 1, scatter: Scatter | None = None
    ) -> Tensor:
        return self.doubt * super().ln_lr_pairs(trace, ref, n_trace, n_ref, scatter)


class DoubtfulOptions(Options):
    doubt: float | None = None


def fit_doubtful(task: Task) -> Fitted:
    def fit(task: Task) -> Doubtful:
        plain = fit_classical(task.learn, "normal")
        doubt = torch.full((len(task.learn), 1, 1), task.options.get("doubt", 0.5), dtype=torch.float64)
        return Doubtful(**vars(plain), doubt=doubt)

    return refittable(fit, task)


DOUBTFUL = Kind(
    name="doubtful",
    label="in doubt",
    words="the classical model, which says a part of what it thinks",
    fit=f"{__name__}:fit_doubtful",
    stores=(f"{__name__}:Doubtful", "lindley.models.between:NormalBetween"),
    can=frozenset({"parts", "shares"}),
    options=DoubtfulOptions,
    replicates=3,
)


@pytest.fixture
def doubtful() -> Iterator[Kind]:
    with register(DOUBTFUL):
        yield DOUBTFUL


def test_one_entry_makes_a_model_at_home_everywhere(
    doubtful: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lindley.pages.run_page.draw_pictures", lambda report, **_: {})  # takes seconds
    table = instances(60)
    trace, ref = table.values[:1], table.values[1:3]

    results = lindley.run(
        "demo", table, models=["tlm", "doubtful", {"model": "doubtful+logistic", "options": {"doubt": 0.3}}],
        splits=2, folder=tmp_path / "run",
    )  # fmt: skip
    assert list(results.models) == ["tlm", "doubtful", "doubtful[doubt=0.3]+logistic"]
    run = SavedRun.open(tmp_path / "run")
    np.testing.assert_allclose(run.llr("doubtful", 0), 0.5 * run.llr("tlm", 0), rtol=1e-5, atol=1e-6)
    assert "in doubt" in (tmp_path / "run" / "report.html").read_text("utf-8")

    system = lindley.train(table, "doubtful")
    plain = lindley.train(table, "tlm", replicates=0)
    assert system.llr(trace, ref) == pytest.approx(0.5 * plain.llr(trace, ref))
    system.save(tmp_path / "it.safetensors")
    again = lindley.load(tmp_path / "it.safetensors")
    assert type(again.model) is Doubtful
    assert again.llr(trace, ref) == system.llr(trace, ref)

    case = make_case(again, trace, ref)
    assert case.explanation.interval is not None
    case.write(tmp_path / "case.html")
    assert doubtful.words in (tmp_path / "case.html").read_text("utf-8")
    case.write(tmp_path / "case.json")
    assert json.loads((tmp_path / "case.json").read_text("utf-8"))["log10_lr"] == pytest.approx(system.llr(trace, ref))

    classifier = TwoLevelClassifier("doubtful+elub", options={"doubt": 0.4}).fit(table.values, table.source)
    assert np.isfinite(classifier.decision_matrix(table.values[:3], table.values[3:6])).all()


def test_a_file_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    kind = Kind("doubtful", "in doubt", "", f"{__name__}:fit_doubtful", (f"{__name__}:Doubtful",), replicates=0)
    with register(kind):
        lindley.train(instances(60), "doubtful").save(tmp_path / "it.safetensors")
    with pytest.raises(LindleyError, match="Doubtful"):
        lindley.load(tmp_path / "it.safetensors")


def test_names_are_not_taken_twice() -> None:
    with pytest.raises(ValueError, match="there is a kind 'tlm' already"), register(KINDS["tlm"]):
        pass


def test_help_texts_name_what_there_is() -> None:
    """They are written out, so that the help needs no registry."""
    shown = [kind.name for kind in KINDS.values() if not kind.name.startswith("ntlm-") and "parts" in kind.can]
    assert options.MODELS.split(", ") == shown
    assert options.CALIBRATIONS.split(", ") == [f"+{step}" for step in CALIBRATIONS]


def test_what_stands_around_a_model_exists() -> None:
    assert set(CALIBRATIONS) == set(STEPS)
    assert set(GAUSSIANISERS) == set(TRANSFORMS)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_can_do_what_it_says(name: str) -> None:
    kind = KINDS[name]
    assert (kind.cross_fit == "never") == kind.is_trained
    fitted = fit_table(instances(), ModelName.parse(name), settings=Settings(training=(("epochs", 2),)))
    model = fitted.stage.system.model
    assert model.has_axis_shares == ("shares" in kind.can)
    assert model.uses_scatter == ("scatter" in kind.can)
    stored = {fetch(place) for place in kind.stores}
    assert type(model) in stored
    x = torch.zeros(1, 2, 3, dtype=torch.float64)
    if "parts" in kind.can:
        similarity, typicality = model.ln_parts(x, x)
        torch.testing.assert_close(similarity - typicality, model.ln_lr(x, x))
    else:
        with pytest.raises(LindleyError, match="no similarity and no typicality"):
            model.ln_parts(x, x)
