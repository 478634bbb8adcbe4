"""A saved run gives back what the report needs: the figures, the LLRs, models that score to them, and the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.experiment.config import Experiment
from lindley.experiment.folder import read_table_file
from lindley.experiment.saved import SavedRun
from lindley.files import json_digest
from lindley.llrs import LLRs
from lindley.system.system import load
from lindley.table.splits import make_split
from lindley.table.table import Table
from tests.experiment.conftest import make_table

SINGLE = 2.0**-23
"""The relative precision of float32."""


@pytest.fixture(scope="module")
def run(pristine: Path) -> SavedRun:
    return SavedRun.open(pristine)


def test_rows_and_figures(run: SavedRun, experiment: Experiment, pristine: Path) -> None:
    assert run.models == tuple(experiment.rows)
    assert "the network" in run.models
    content = json.loads((pristine / "results.json").read_bytes())
    for row in run.models:
        result = run.result(row)
        assert result.to_json() == content["models"][row]
        assert len(result.test_cllr) == len(result.validate_cllr) == len(result.test_cllr_min) == 8
        assert result.model == str(run.spec(row)) == str(experiment.rows[row])
    assert run.oracle_cllr is None
    steps = run.result("tlm-kde+logistic+elub").calibration
    assert [[step["name"] for step in split] for split in steps] == [["logistic", "elub"]] * 8


def test_llrs_have_the_cllr_of_the_results(run: SavedRun) -> None:
    for row in run.models:
        for split in range(8):
            test = run.splits[split].raw[2]
            llr = run.llr(row, split)
            assert llr.dtype == np.float64
            assert llr.shape == (len(test.trace.source), len(test.ref.source))
            pairs = {
                "test": LLRs.from_matrix(llr, test.trace.source, test.ref.source),
                "validate": run.validation(row, split),
            }
            for which, llrs in pairs.items():
                expected = getattr(run.result(row), f"{which}_cllr")[split]
                # dCllr ≤ log2(10)/2 · (mean |dLLR| of same + of different)
                room = 4 * SINGLE * max(1.0, *(float(np.abs(side).max()) for side in (llrs.same, llrs.different)))
                assert cllr(llrs) == pytest.approx(expected, abs=room), (row, split, which)


def test_systems_score_to_their_llrs(run: SavedRun) -> None:
    for row in run.models:
        for split in (0, 3, 4, 7):  # the ends of both groups
            system = run.system(row, split)
            assert system.splits == (split,)
            assert system.runs == 1
            test = run.splits[split].raw[2]
            llr = system.llr_sides(test.trace, test.ref)
            np.testing.assert_allclose(run.llr(row, split), llr, rtol=2 * SINGLE, atol=1e-6, err_msg=f"{row} {split}")


def test_files_of_systems_can_be_loaded(run: SavedRun) -> None:
    system = load(run.folder / "models" / "tlm-kde+logistic+elub" / "system-05-08.safetensors")
    assert system.splits == (4, 5, 6, 7)
    assert repr(system) == "<System tlm-kde+logistic+elub: 3 features, 4 splits of an experiment>"
    test = run.splits[6].raw[2]
    with pytest.raises(
        LindleyError, match=r"systems of 4 splits of an experiment: take one with system.for_split\(4\)"
    ):
        system.llr_sides(test.trace, test.ref)
    np.testing.assert_array_equal(
        system.for_split(6).llr_sides(test.trace, test.ref),
        run.system("tlm-kde+logistic+elub", 6).llr_sides(test.trace, test.ref),
    )
    with pytest.raises(LindleyError, match="there is no split 1 here: there are 4, 5, 6, 7"):
        system.for_split(1)


def test_the_history_leads_to_the_model_that_was_kept(run: SavedRun) -> None:
    epochs = {"the network": 4, run.models[-1]: 3}
    for row in run.models:
        for split in range(8):
            history = run.history(row, split)
            if "ntlm" not in str(run.spec(row)):
                assert history is None
                continue
            assert history is not None
            best = history.best_epoch.item()
            assert history.validate.shape == history.train.shape == (1, epochs.get(row, 4))
            assert history.validate[0, best] == history.validate.min()
            assert history.validate_axes is not None
            assert history.validate_axes.shape == (*history.validate.shape, 3)
            if row == "the network":  # what builds on it has a Cllr of its own
                assert run.result(row).validate_cllr[split] == pytest.approx(history.validate.min(), rel=1e-3)


def test_a_system_prepares_values_as_its_model_saw_them(run: SavedRun, table: Table, experiment: Experiment) -> None:
    for split in (0, 5):
        made = make_split(table, experiment.protocol, split)
        np.testing.assert_array_equal(run.system("tlm", split).prepare(made.raw[2].values), made.test.values)
        transformed = run.system("yeo-johnson:tlm", split).prepare(made.raw[0].values)
        assert not np.allclose(transformed, made.train.values)
        assert abs(transformed.mean()) < 1e-9


def test_what_there_is_not(run: SavedRun) -> None:
    with pytest.raises(LindleyError, match=r"holds no model 'tml'. It holds: tlm, tlm-kde\+logistic\+elub, "):
        run.llr("tml", 0)
    with pytest.raises(LindleyError, match="holds no model 'ntlm-single-pairs-n2'"):  # it has a label
        run.result("ntlm-single-pairs-n2")
    for split in (-1, 8):
        with pytest.raises(IndexError, match="there is no split"):
            run.llr("tlm", split)


def signed(content: dict[str, Any]) -> bytes:
    """results.json with the digest of its content, as somebody would forge it: it has no key."""
    content = {name: value for name, value in content.items() if name != "sha256"}
    return json.dumps({**content, "sha256": json_digest(content)}).encode()


def change(path: Path, **parts: Any) -> None:
    path.write_bytes(signed({**json.loads(path.read_bytes()), **parts}))


class TestDamage:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "does not read .*Run the experiment again"),
            (b"{", "does not read"),
            (b"[]", "does not read"),
            (b"{}", "does not read"),
            (b'{"schema": 3}', "changed after it was written, or is damaged: its digest is another"),
            (signed({"schema": 3}), "is damaged .*Run the experiment again"),
            (signed({"schema": 1}), r"another version of lindley \(layout 1; this one reads 3\). Run the experiment again"),
            (signed({"schema": 4}), r"another version of lindley \(layout 4"),
            (signed({"schema": 3, "experiment": {}, "models": {}, "data": {"sha256": ""}}), "is damaged"),
            (signed({"schema": 3, "experiment": {"name": "x", "data": "a", "models": ["tlm"]}, "models": []}), "is damaged"),
        ],
    )  # fmt: skip
    def test_results(self, finished: Path, content: bytes, message: str) -> None:
        (finished / "results.json").write_bytes(content)
        with pytest.raises(LindleyError, match=message) as caught:
            SavedRun.open(finished)
        assert str(finished / "results.json") in str(caught.value)

    def test_a_digit_of_the_results_is_not_trusted(self, finished: Path) -> None:
        path = finished / "results.json"
        content = json.loads(path.read_bytes())
        for place in ("test", "validate"):
            changed = json.loads(path.read_bytes())
            changed["models"]["tlm"][place]["cllr"][3] *= 1 + 1e-15
            path.write_text(json.dumps(changed))
            with pytest.raises(LindleyError, match="its digest is another"):
                SavedRun.open(finished)
            path.write_bytes(signed(changed))
            with pytest.raises(LindleyError, match="its figures or facts are not those of the parts it was made of"):
                SavedRun.open(finished)
            path.write_text(json.dumps(content))
        change(path, oracle={"test": {"cllr": [0.1] * 8}})
        with pytest.raises(LindleyError, match="its figures or facts are not those"):
            SavedRun.open(finished)

    def test_rows_of_another_experiment(self, finished: Path) -> None:
        path = finished / "results.json"
        models = json.loads(path.read_bytes())["models"]
        change(path, models=dict(reversed(models.items())))
        with pytest.raises(LindleyError, match="its models are not those of its experiment"):
            SavedRun.open(finished)

    def test_the_data(self, finished: Path, pristine: Path) -> None:
        path = finished / "data.npz"
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(LindleyError, match=r"data\.npz is missing. Run the experiment again"):
            SavedRun.open(finished)
        for bad in (b"", data[:-20], data[: len(data) // 2], b"PK\x03\x04", b"text"):
            path.write_bytes(bad)
            with pytest.raises(LindleyError, match=r"data\.npz is damaged .*Run the experiment again"):
                SavedRun.open(finished)
        other = make_table(seed=9)
        labels = {"source": other.source, "group": other.group, "instance": other.instance}
        np.savez(path, name="x", features=np.array(other.features), values=other.values, **labels)
        with pytest.raises(LindleyError, match=r"are not those of its results\.json"):
            SavedRun.open(finished)
        np.savez(path, name="x", features=np.array(other.features), values=other.values)
        with pytest.raises(LindleyError, match="damaged"):
            SavedRun.open(finished)
        np.savez(path, name=np.array([{}], dtype=object))
        with pytest.raises(LindleyError, match=r"data\.npz is damaged"):
            SavedRun.open(finished)

    def test_any_flipped_bit_of_the_data(self, finished: Path, pristine: Path, table: Table) -> None:
        """Told as damage, whatever zip, zlib or numpy make of it; or no measurement is another."""
        rng = np.random.default_rng(2)
        good = (pristine / "data.npz").read_bytes()
        path = finished / "data.npz"
        for place in rng.choice(len(good), 300, replace=False):
            data = bytearray(good)
            data[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(data))
            try:
                again = read_table_file(finished)
            except LindleyError:
                continue
            assert again.sha256() == table.sha256()

    def test_a_unit(self, finished: Path) -> None:
        path = finished / "units" / "tlm.05-08.json"
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(LindleyError, match=r"tlm\.05-08\.json is damaged .*it redoes what is damaged"):
            SavedRun.open(finished)
        path.unlink()
        with pytest.raises(LindleyError, match=r"tlm\.05-08\.json is missing. Run the experiment again"):
            SavedRun.open(finished)

    @pytest.mark.parametrize("how", ["half", "bit", "gone"])
    def test_files_of_models(self, how: str, finished: Path) -> None:
        """Told when they are read, and only then."""
        folder = finished / "models" / "ntlm-single-pairs-n2"
        for what in ("llrs-01-04.npz", "system-01-04.safetensors", "history-01-04.npz"):
            path = folder / what
            data = path.read_bytes()
            if how == "gone":
                path.unlink()
            else:
                path.write_bytes(data[: len(data) // 2] + (b"" if how == "half" else bytes([data[len(data) // 2] ^ 1])))
                path.write_bytes(path.read_bytes() + (b"" if how == "half" else data[len(data) // 2 + 1 :]))
        run = SavedRun.open(finished)
        for read in (
            lambda: run.llr("the network", 1),
            lambda: run.system("the network", 1),
            lambda: run.history("ntlm-single-pairs-n2-common", 1),
        ):
            with pytest.raises(LindleyError, match=r"is missing or damaged\. Run the experiment again") as caught:
                read()
            assert str(folder) in str(caught.value)
        run.llr("the network", 5)  # the other group is whole
        assert run.system("the network", 5).splits == (5,)

    def test_no_run(self, tmp_path: Path) -> None:
        for folder in (tmp_path, tmp_path / "nowhere"):
            with pytest.raises(
                LindleyError, match=r"holds no results\.json. Name the folder that 'lindley run' wrote to"
            ):
                SavedRun.open(folder)
