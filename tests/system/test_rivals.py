"""Training without the name of a model: robust, and the held-out costs of two plain models beside its own."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lindley.calibration import Logistic
from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.llrs import LLRs
from lindley.models.robust.model import Robust
from lindley.pages.case_words import describe_training
from lindley.system.names import ModelName
from lindley.system.system import System, load
from lindley.system.train import RIVALS, fit_table, held_out_cllr, train
from lindley.table.table import Table
from tests.attacks.door import lindley
from tests.casework.factory import population, table, write_csv

pytestmark = pytest.mark.usefixtures("short_search")
HEAD = "Held-out Cllr on this table, beside plain models with a cross-fitted calibration:"


def noise(seed: int, n: int = 12) -> Table:
    """Sources between which there is no difference."""
    values = np.random.default_rng(seed).normal(size=(3 * n, 2))
    return Table.from_arrays(values, [f"{k:02d}" for k in np.repeat(np.arange(n), 3)], name="noise")


def lines_of(text: str) -> list[str]:
    """The lines between the heading and the next paragraph."""
    return text.partition(f"{HEAD}\n")[2].partition("\n\n")[0].splitlines()


class TestTheFigure:
    def fit(self, name: str, of: Table) -> LLRs:
        return fit_table(of, ModelName.parse(name), validated=True).stage.held_out[0]

    def test_without_a_calibration_it_is_that_of_the_validation(self) -> None:
        found = held_out_cllr(partial(fit_table, table(30, 3), validated=True), ModelName.parse("tlm"))
        assert found == pytest.approx(train(table(30, 3), "tlm", replicates=0).about["validation"]["cllr"], abs=1e-12)

    def test_pairs_are_calibrated_on_those_of_other_folds(self) -> None:
        """Fold by fold, from the LRs of all pairs."""
        llrs, same, different, at = self.fit("tlm", table(30, 3)), [], [], [0, 0]
        cut = []
        for trace, ref, *_ in llrs.matrices:
            n = len(set(trace) & set(ref)), len(trace) * len(ref) - len(set(trace) & set(ref))
            cut.append([slice(start, start + more) for start, more in zip(at, n, strict=True)])
            at = [start + more for start, more in zip(at, n, strict=True)]
        for one, other in cut:
            rest = LLRs(np.delete(llrs.same, one), np.delete(llrs.different, other))
            step = Logistic.fit(rest)
            same.append(step(llrs.same[one]))
            different.append(step(llrs.different[other]))
        found = held_out_cllr(partial(fit_table, table(30, 3), validated=True), ModelName.parse("tlm+logistic@cv"))
        assert found == pytest.approx(cllr(np.concatenate(same), np.concatenate(different)), abs=1e-12)

    def test_what_says_nothing_costs_more_than_nothing(self) -> None:
        """A calibration that has seen the pairs never costs more than 1."""
        seen, held_out = [], []
        for seed in range(4):
            seen.append(cllr(self.fit("tlm+logistic@cv", noise(seed))))
            fit = partial(fit_table, noise(seed), validated=True)
            held_out.append(held_out_cllr(fit, ModelName.parse("tlm+logistic@cv")))
        assert max(seen) <= 1 + 1e-9
        assert np.mean(held_out) > 1


class TestPython:
    def test_it_is_robust_with_the_costs_of_two_others(self) -> None:
        told: list[str] = []
        system = train(table(30, 3), replicates=0, progress=lambda name, detail, done: told.append(name))
        assert isinstance(system.model, Robust)
        assert system.name == "robust"
        assert list(system.about["rivals"]) == list(RIVALS)
        for name, cost in system.about["rivals"].items():
            fit = partial(fit_table, table(30, 3), validated=True)
            assert cost == pytest.approx(held_out_cllr(fit, ModelName.parse(name)), abs=1e-12)
            assert name in told
        assert System.from_bytes(system.to_bytes(), "it").about["rivals"] == system.about["rivals"]

    def test_the_name_of_a_model_asks_for_nothing_else(self) -> None:
        told: list[str] = []
        named = train(table(30, 3), "robust", replicates=0, progress=lambda name, detail, done: told.append(name))
        assert "rivals" not in named.about
        assert set(told) == {"robust", "done"}
        assert HEAD not in describe_training(named)
        unnamed = train(table(30, 3), replicates=0)
        one, other = (table(4, 2, seed=9).values[:2], table(4, 2, seed=9).values[2:4])
        assert named.llr(one, other) == unnamed.llr(one, other)
        assert named.about["validation"] == unnamed.about["validation"]

    def test_a_model_that_cannot_be_fitted_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(fit: object, name: ModelName) -> float:
            if name.base == "tlm":
                raise LindleyError("singular")
            return 5.0

        monkeypatch.setattr("lindley.system.train.held_out_cllr", refuse)
        system = train(table(30, 3), replicates=0)
        assert system.about["rivals"] == dict(zip(RIVALS, (None, 5.0), strict=True))
        assert lines_of(describe_training(system))[1:] == [
            "  tlm+logistic@cv      not fitted",
            "  ht-plda+logistic@cv  5.00",
        ]


class TestTheCommand:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        values, source = population(30, 3, 7)
        write_csv(Path("my glass.csv"), 10**values, ["K39", "Ti49", "Mn55", "Rb85"], source.tolist())

    def words(self, *more: str) -> tuple[str, ...]:
        return "train", "my glass.csv", "--transform", "log10", "--replicates", "0", "--out", "glass.safetensors", *more

    @pytest.mark.parametrize("costs", [(9.0, 9.5), (9.0, 1e-9), (1e-8, 1e-9)])
    def test_three_lines_and_what_to_type_if_another_costs_less(
        self, costs: tuple[float, float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given = dict(zip(RIVALS, costs, strict=True))
        monkeypatch.setattr("lindley.system.train.held_out_cllr", lambda fit, name: given[str(name)])
        answer = lindley(*self.words("--seed", "4"))
        assert answer.status == 0, answer.err
        lines, best = lines_of(answer.out), min(RIVALS, key=lambda name: given[name])
        assert [line.split()[0] for line in lines[:3]] == ["robust", *RIVALS]
        assert len({line.rindex(" ") for line in lines[:3]}) == 1
        if min(costs) > 1:
            assert len(lines) == 3
            assert "instead" not in answer.out
            return
        assert lines[3:] == [f"On this table {best} costs less than robust."]
        again = answer.out.partition(f"To train {best} instead: ")[2].splitlines()[0]
        assert again.startswith(("lindley train 'my glass.csv' ", 'lindley train "my glass.csv" '))
        assert lindley(*shlex.split(again)[1:]).status == 0
        system = load("glass.safetensors")
        assert (system.name, system.about["seed"], system.transform) == (best, 4, "log10")

    def test_with_a_name_nothing_else_is_fitted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lindley.system.train.held_out_cllr", lambda fit, name: pytest.fail("fitted"))
        answer = lindley(*self.words("--model", "robust"))
        assert answer.status == 0, answer.err
        assert HEAD not in answer.out
        assert load("glass.safetensors").about["configuration"]["model"] == "robust"
