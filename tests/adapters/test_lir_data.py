"""What stands around the numbers in LiR: names and transforms of features, fields of pairs, groups, bounds, cases, errors."""

from __future__ import annotations

import csv
import pickle
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lir", reason="LiR is not installed (Python 3.12 or newer): make test-lir")

import yaml
from lir.algorithms.kde import KDECalibrator
from lir.algorithms.logistic_regression import LogitCalibrator
from lir.config.base import ConfigValue
from lir.config.data import parse_data_provider
from lir.config.lrsystem_architectures import parse_lrsystem
from lir.data.models import FeatureData, LLRData, PairedFeatureData, concatenate_instances
from lir.lrsystems.two_level import TwoLevelSystem as LirTwoLevelSystem
from lir.main import main
from lir.transform.pairing import InstancePairing, SourcePairing
from lir.transform.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from lindley.adapters.lir import (
    AllPairs,
    CasePairs,
    LogisticCalibrator,
    SavedSystem,
    Table,
    TwoLevelModel,
    TwoLevelSystem,
    case_pairs,
    cllr,
)
from lindley.adapters.lir.data import instances_of
from lindley.errors import LindleyError
from lindley.system.train import train
from lindley.table.read import read_table
from lindley.table.scaling import Transform

# tables that are odd on purpose are warned of: concentrations as they are, of which a saved system takes the logarithms; those
# of another unit; and few measurements
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*the scatter within sources is .* times higher",
    "ignore:.*% is more than the whole",
    "ignore:.*1 source has one measurement only",
)

FEATURES = ("K", "Ti", "Mn")


def measured(n: int = 60, replicates: int = 4, seed: int = 0) -> FeatureData:
    rng = np.random.default_rng(seed)
    means = np.repeat(rng.normal(size=(n, 3)) * [0.3, 0.2, 0.25] + [2.5, 3.2, 1.6], replicates, axis=0)
    values = np.round(10 ** (means + 0.03 * rng.normal(size=means.shape)), 4)
    source = np.repeat([f"s{k:02d}" for k in range(n)], replicates)
    return FeatureData(features=values, source_ids=source)


def write(path: Path, data: FeatureData, columns: tuple[str, ...] = FEATURES, source: bool = True) -> str:
    places = [FEATURES.index(re.sub(r" \[.*\]", "", name)) for name in columns]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([*(["source"] if source else []), *columns])
        for label, values in zip(data.source_ids, data.features[:, places].tolist(), strict=True):
            rows.writerow([*([label] if source else []), *values])
    return str(path)


PPM, OTHERS = measured(), measured(30, seed=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in ppm in two orders of columns, and a system that takes their log10."""
    path = tmp_path_factory.mktemp("lir")
    write(path / "ppm.csv", PPM)
    write(path / "ppm_other.csv", PPM, ("Mn", "K", "Ti"))
    table = read_table(path / "ppm.csv", transform="log10")
    train(replace(table, units=("ppm",) * 3), "tlm+logistic", replicates=0).save(path / "ppm.safetensors")
    return path


# ── features by their names ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_table_says_what_its_features_are(folder: Path) -> None:
    data = Table(str(folder / "ppm.csv"), transform="log10", reference_column="Mn").get_instances()
    assert (data.feature_names, data.transform, data.reference_column) == (("K", "Ti"), "log10", "Mn")
    halves = concatenate_instances(data[:100], data[100:])
    for handed_on in (halves, AllPairs().pair(data), InstancePairing(different_source_limit=9).pair(data[:40])):
        assert (handed_on.feature_names, handed_on.transform) == (("K", "Ti"), "log10")


@pytest.mark.parametrize("bounded", [True, False])
def test_a_saved_system_takes_features_by_name(folder: Path, bounded: bool) -> None:
    system = SavedSystem(folder / "ppm.safetensors", bounded=bounded)
    right = system.apply(Table(str(folder / "ppm.csv")).get_instances())
    assert cllr(right) < 0.1
    for other in (
        Table(str(folder / "ppm_other.csv")),
        Table(str(folder / "ppm.csv"), transform="log10"),
        Table(str(folder / "ppm_other.csv"), transform="log10"),
        Table(write(folder / "units.csv", PPM, ("Ti [ppm]", "Mn", "K [ppm]"))),
    ):
        np.testing.assert_allclose(system.apply(other.get_instances()).llrs, right.llrs, rtol=0, atol=1e-10)
        pairs = AllPairs().pair(other.get_instances())
        np.testing.assert_allclose(system.apply(pairs).llrs, right.llrs, rtol=0, atol=1e-10)


def test_a_saved_system_converts_units_of_one_kind(folder: Path) -> None:
    system = SavedSystem(folder / "ppm.safetensors")
    expected = system.apply(Table(str(folder / "ppm.csv")).get_instances()).llrs
    in_percent = PPM.replace(features=PPM.features / [1e4, 1.0, 1.0])
    percent = Table(write(folder / "percent.csv", in_percent, ("K [%]", "Ti", "Mn"))).get_instances()
    with pytest.warns(UserWarning, match="values in % were multiplied by 10,000, which makes them ppm"):
        np.testing.assert_allclose(system.apply(percent).llrs, expected, rtol=0, atol=1e-9)


def test_a_saved_system_refuses_what_contradicts_it(folder: Path) -> None:
    path, ppm = folder / "ppm.safetensors", str(folder / "ppm.csv")
    logs = Table(ppm, transform="log10").get_instances()
    with pytest.raises(LindleyError, match="transformed: false contradicts the data"):
        SavedSystem(path, transformed=False).apply(logs)
    with pytest.raises(
        LindleyError, match="system takes log10 of its features, and the data was read with transform: ln"
    ):
        SavedSystem(path).apply(Table(ppm, transform="ln").get_instances())
    with pytest.raises(LindleyError, match=r"needs 'Mn', and the table has no such column.*The data has 'K' and 'Ti'"):
        SavedSystem(path).apply(Table(ppm, ignore_columns=["Mn"]).get_instances())
    volume = Table(write(folder / "volume.csv", PPM, ("K [mg/L]", "Ti", "Mn")))
    with pytest.raises(LindleyError, match="the values are in mg/L, and the system was trained on ppm"):
        SavedSystem(path).apply(volume.get_instances())
    with pytest.raises(LindleyError, match="values of 'K', 'Ti' and 'Mn' are nowhere near"):
        SavedSystem(path, transformed=True).apply(Table(ppm).get_instances())
    with pytest.raises(LindleyError, match="feature_names of the data are K, Ti, Mn, and it has 2 columns"):
        SavedSystem(path).apply(logs.replace(features=logs.features[:, :2]))
    said = SavedSystem(path, transformed=True)
    silent = logs.replace(transform="none")  # a file that holds logarithms
    np.testing.assert_array_equal(said.apply(silent).llrs, said.apply(logs).llrs)


def test_a_saved_system_without_a_logarithm_takes_one_only_where_it_is_told_so(folder: Path) -> None:
    table = read_table(folder / "ppm.csv", transform="log10")
    as_it_is = replace(table, transform=Transform())  # as a table of logarithms would be
    train(as_it_is, "tlm", replicates=0).save(folder / "logs.safetensors")
    logs = Table(str(folder / "ppm.csv"), transform="log10").get_instances()
    with pytest.raises(LindleyError, match=r"takes no logarithm of its features.* transformed: true if the system"):
        SavedSystem(folder / "logs.safetensors").apply(logs)
    assert cllr(SavedSystem(folder / "logs.safetensors", transformed=True).apply(logs)) < 0.1


def test_columns_without_names_are_told_once(folder: Path) -> None:
    system = SavedSystem(folder / "ppm.safetensors")
    with pytest.warns(UserWarning, match="columns are taken to be K, Ti, Mn, in this order"):
        first = system.apply(OTHERS)
    np.testing.assert_array_equal(system.apply(OTHERS).llrs, first.llrs)


def test_a_system_that_lir_fits_takes_features_by_name(folder: Path) -> None:
    train, other = (Table(str(folder / name)).get_instances() for name in ("ppm.csv", "ppm_other.csv"))
    for before in (None, Pipeline([("scale", StandardScaler())])):
        system = TwoLevelSystem("tlm", preprocessing=before).fit(train)
        np.testing.assert_array_equal(system.apply(other).llrs, system.apply(train).llrs)
        again = pickle.loads(pickle.dumps(system))
        np.testing.assert_array_equal(again.apply(AllPairs().pair(other)).llrs, system.apply(train).llrs)
    with pytest.raises(
        LindleyError, match=r"fitted on features with transform: no logarithm, and the data has .*log10"
    ):
        system.apply(Table(str(folder / "ppm.csv"), transform="log10").get_instances())
    with pytest.raises(LindleyError, match="the system needs 'Ti'"):
        system.apply(Table(str(folder / "ppm.csv"), ignore_columns=["Ti"]).get_instances())


# ── pairs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", [None, LogitCalibrator])
@pytest.mark.parametrize("counts", [(1, 1), (1, 2)])
def test_source_pairs_are_those_of_lirs_own_system(
    after: type[LogitCalibrator] | None, counts: tuple[int, int]
) -> None:
    """LiR's source pairing goes on where it stopped, so that the pairs of a fit decide on those that come after."""

    def parts() -> tuple[SourcePairing, LogitCalibrator | None]:
        return SourcePairing(50, 50, seed=1), None if after is None else after()

    pairing, post = parts()
    theirs = LirTwoLevelSystem(None, pairing, post, *counts).fit(PPM)
    pairing, post = parts()
    ours = TwoLevelSystem("tlm-kde", pairing, *counts, postprocessing=post, validation=0).fit(PPM)
    for _ in range(2):
        expected, found = theirs.apply(OTHERS), ours.apply(OTHERS)
        np.testing.assert_array_equal(found.source_ids, expected.source_ids)
        np.testing.assert_allclose(found.llrs, expected.llrs, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("pairing", "counts"),
    [
        (AllPairs(), (1, 1)),
        (AllPairs(), (1, 2)),
        (SourcePairing(seed=1), (1, 1)),
        (SourcePairing(seed=1), (1, 2)),
        (InstancePairing(different_source_limit=9000, seed=1), (1, 1)),
    ],
)
def test_groups_of_paired_sources_stay_together(pairing: AllPairs, counts: tuple[int, int]) -> None:
    data = PPM[PPM.source_ids < "s24"]
    of = {source: f"g{int(source[1:]) // 2}" for source in data.source_ids.tolist()}
    pairs = pairing.pair(data.replace(group_ids=np.array([of[s] for s in data.source_ids.tolist()])), *counts)
    system = TwoLevelSystem("ntlm-single-pairs-n1", options={"epochs": 1}).fit(pairs)
    kept = set(system.kept_sources.tolist())
    assert kept
    assert not {of[s] for s in kept} & {of[s] for s in np.unique(pairs.source_ids).tolist() if s not in kept}
    with pytest.raises(LindleyError, match=r"group_ids of .* must be an array"):
        TwoLevelModel("tlm").fit(pairs.replace(group_ids=np.arange(len(pairs))))


def test_all_pairs_keeps_every_field() -> None:
    n = len(OTHERS)
    data = OTHERS.replace(car=np.arange(n) // 8, instance_ids=np.arange(n), laboratory="north")
    pairs = AllPairs().pair(data, 1, 2)
    np.testing.assert_array_equal(pairs.instance_ids, pairs.instance_indices)
    np.testing.assert_array_equal(pairs.car, pairs.instance_indices // 8)
    assert pairs.laboratory == "north"
    llrs = TwoLevelSystem("tlm").fit(PPM).apply(pairs)
    np.testing.assert_array_equal(llrs.car, pairs.car)


def test_arguments_of_all_pairs() -> None:
    some = AllPairs(different_source_limit=100, same_source_limit=7).pair(OTHERS)
    assert (some.hypothesis.sum(), len(some)) == (7, 107)
    assert len(AllPairs(different_source_limit=10**6, same_source_limit=10**6).pair(OTHERS)) == 900
    fixed, free = AllPairs(), AllPairs(seed=None)
    np.testing.assert_array_equal(fixed.pair(OTHERS).features, fixed.pair(OTHERS).features)
    assert not np.array_equal(free.pair(OTHERS).features, free.pair(OTHERS).features)
    for wrong in ({"seed": -1}, {"seed": 0.5}, {"same_source_limit": 0}, {"different_source_limit": 0.5}):
        with pytest.raises(LindleyError, match=f"{next(iter(wrong))} must be"):
            AllPairs(**wrong)
    with pytest.raises(LindleyError, match=r"n_trace_instances must be a whole number, not 1\.5"):
        AllPairs().pair(OTHERS, 1.5, 1)
    with pytest.raises(LindleyError, match=r"n_ref_instances must be a whole number, not 1\.5"):
        TwoLevelSystem("tlm", n_ref_instances=1.5)
    with pytest.raises(LindleyError, match="n_ref_instances must be 1 or more, not True"):
        TwoLevelSystem("tlm", n_ref_instances=True)


# ── values and labels ───────────────────────────────────────────────────────────────────────────────────────────────


def test_instances_with_nan() -> None:
    features = OTHERS.features.copy()
    features[[0, 5, 6], 1] = np.nan
    data = OTHERS.replace(features=features, feature_names=FEATURES)
    with pytest.warns(UserWarning, match="3 of 120 instances, of 2 sources, have a NaN and are left out of the pairs"):
        pairs = AllPairs().pair(data)
    assert np.isfinite(pairs.features).all()
    np.testing.assert_array_equal(data.features[pairs.instance_indices], pairs.features)
    assert len(pairs) == 900
    with pytest.raises(LindleyError, match=r"3 of 120 .* instance 1, of source 's00', where 'Ti' is nan"):
        TwoLevelSystem("tlm").fit(data)
    system, model = TwoLevelSystem("tlm").fit(PPM), TwoLevelModel("tlm").fit(PPM)
    paired = InstancePairing(different_source_limit=50, seed=1).pair(data)
    for apply in (system.apply, model.apply):
        with pytest.raises(LindleyError, match=r"pair 1, the trace of source 's00' is without an instance .* \('Ti'\)"):
            apply(paired)
    infinite = case_pairs([[300, 1500, np.inf]], [[300, 1500, 40]])
    with pytest.raises(LindleyError, match="pair 1, the trace is infinite in feature 3"):
        system.apply(infinite)


def test_a_saved_system_names_what_is_not_measured(folder: Path) -> None:
    pairs = case_pairs([[300, 1500, 40]], [[300, np.nan, 40]], FEATURES)
    with pytest.raises(LindleyError, match=r"1 of 1 pairs .* the ref is without an instance that has no NaN \('Ti'\)"):
        SavedSystem(folder / "ppm.safetensors").apply(pairs)


@pytest.mark.parametrize("kind", [AllPairs, SourcePairing])
def test_labels_of_text_and_numbers(kind: type[AllPairs]) -> None:
    codes = np.array([int(label[1:]) for label in PPM.source_ids])
    mixed = np.array([int(code) if code % 2 else f"s{code}" for code in codes], dtype=object)
    for labels in (mixed, codes.astype(object), codes / 2):
        data = PPM.replace(source_ids=labels)
        for model in ("tlm", "tlm+logistic"):
            system = TwoLevelSystem(model, kind(seed=1, different_source_limit=200)).fit(data)
            assert cllr(system.apply(data)) < 0.5
    pairs = AllPairs().pair(PPM.replace(source_ids=mixed))
    assert cllr(TwoLevelSystem("tlm", postprocessing=LogisticCalibrator()).fit(pairs).apply(pairs)) < 0.5


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_are_refused(missing: float | None) -> None:
    codes = np.array([int(label[1:]) for label in PPM.source_ids])
    labels = codes.astype(object if missing is None else float)
    labels[3] = missing
    data = PPM.replace(source_ids=labels)
    for use in (TwoLevelSystem("tlm").fit, TwoLevelModel("tlm").fit, AllPairs().pair):
        with pytest.raises(LindleyError, match=f"the source of instance 4 of 240 is {str(missing).lower()}|None"):
            use(data)
    pairs = AllPairs().pair(PPM)
    labels = np.where(pairs.source_ids == "s01", missing, 1.0).astype(labels.dtype)
    with pytest.raises(LindleyError, match="the source of pair 2 of 3600"):
        TwoLevelSystem("tlm").fit(pairs.replace(source_ids=labels))


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_bounds_in_the_name_of_a_model_are_told() -> None:
    pairs = AllPairs().pair(OTHERS)
    system = TwoLevelSystem("tlm-kde+logistic+elub").fit(PPM)
    result = system.apply(pairs)
    assert result.llr_bounds == (result.llrs.min(), result.llrs.max())
    assert TwoLevelModel("tlm-kde+logistic+elub").fit(PPM).apply(pairs).llr_bounds == result.llr_bounds
    assert TwoLevelSystem("tlm-kde+elub+logistic").fit(PPM).apply(pairs).llr_bounds == (None, None)
    for after in (KDECalibrator(bandwidth=1.0), LogisticCalibrator()):
        calibrated = TwoLevelSystem("tlm+elub", postprocessing=after).fit(PPM).apply(pairs)
        assert calibrated.llr_bounds == (None, None)


# ── tables and cases ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_table_of_few_sources(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("source,car,Mn,K\na,1,2.0,10\na,1,2.5,11\nb,2,3.5,100\n")
    options = {"group_column": "car", "transform": "log10", "reference_column": "Mn"}
    data = Table(str(tmp_path / "few.csv"), **options).get_instances()
    np.testing.assert_allclose(data.features[:, 0], np.log10([5, 4.4, 100 / 3.5]))
    assert data.source_ids.tolist() == ["a", "a", "b"]
    assert data.group_ids.tolist() == ["1", "1", "2"]
    (tmp_path / "one.csv").write_text("source,K\na,10\n")
    assert Table(str(tmp_path / "one.csv")).get_instances().features.tolist() == [[10]]
    (tmp_path / "bad.csv").write_text("source,K\na,10\nb,x\n")
    with pytest.raises(LindleyError, match=r"^1 error") as told:
        Table(str(tmp_path / "bad.csv")).get_instances()
    assert "it takes 6" not in str(told.value)


def test_pairs_are_of_two_sessions(tmp_path: Path) -> None:
    rows = [f"w{k},f{j},{k + j / 10 + i / 100}" for k in range(6) for j in (1, 2) for i in range(3)]
    (tmp_path / "t.csv").write_text("\n".join(["source,fragment,K", *rows]) + "\n")
    data = Table(str(tmp_path / "t.csv"), session_column="fragment").get_instances()
    assert data.session_ids.tolist() == ["f1", "f1", "f1", "f2", "f2", "f2"] * 6
    pairs = AllPairs().pair(data, 2, 3)
    of_trace, of_ref = pairs.session_ids[:, :2], pairs.session_ids[:, 2:]
    same = pairs.hypothesis == 1
    assert same.sum() == 6
    assert (of_trace[same][:, :1] != of_ref[same]).all()
    assert (of_trace[:, :1] == of_trace).all()
    assert (of_ref[:, :1] == of_ref).all()
    with pytest.raises(LindleyError, match="0 of 6 sources"):
        AllPairs().pair(data, 4, 1)
    assert instances_of(pairs, "a fit").session_ids.shape == (len(np.unique(pairs.instance_indices)),)


def test_a_file_is_looked_for_where_lir_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside").mkdir()
    write(tmp_path / "beside" / "glass.csv", PPM)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LindleyError, match="there is no such file"):
        Table("glass.csv").get_instances()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "beside")])
    assert len(Table("glass.csv").get_instances()) == 240
    with pytest.raises(LindleyError, match="Did you mean the data set 'nfi-glass'"):
        Table("nfi_glass").get_instances()


def test_errors_speak_of_keys(folder: Path) -> None:
    with pytest.raises(LindleyError, match="there is no column 'item', as source_column: asks for"):
        Table(str(folder / "ppm.csv"), source_column="item").get_instances()
    with pytest.raises(LindleyError, match="leave out source_column:"):
        Table("nfi-glass", source_column="item").get_instances()
    constant = PPM.replace(features=np.column_stack([PPM.features, np.ones(len(PPM))]))
    with pytest.raises(LindleyError, match="out with ignore_columns: "):
        TwoLevelSystem("tlm").fit(constant)


def test_pairs_of_a_case_from_arrays() -> None:
    traces = [PPM.features[:2], PPM.features[4:5]]
    refs = [PPM.features[2:4], PPM.features[5:8], PPM.features[8:12]]
    pairs = case_pairs(traces, refs, FEATURES, transform="none")
    assert isinstance(pairs, PairedFeatureData)
    assert (pairs.hypothesis, pairs.n_trace_instances, pairs.n_ref_instances) == (None, 2, 4)
    llrs = TwoLevelSystem("tlm").fit(PPM).apply(pairs).llrs.reshape(2, 3)
    for i, trace in enumerate(traces):
        for j, ref in enumerate(refs):
            one = TwoLevelSystem("tlm").fit(PPM).apply(case_pairs(trace, ref))
            assert one.llrs == pytest.approx([llrs[i, j]], abs=1e-10)
    with pytest.raises(LindleyError, match="the trace has 3 features and the ref 2"):
        case_pairs(traces[0], refs[0][:, :2])
    for wrong in ([], [["a", "b"]], np.zeros((2, 2, 2, 2)), [np.zeros((1, 2)), np.zeros((1, 3))]):
        with pytest.raises(LindleyError, match=r"the trace (is not|must be) an array of instances"):
            case_pairs(wrong, refs)


def test_pairs_of_a_case_from_files(folder: Path) -> None:
    trace = write(folder / "trace.csv", OTHERS[:2], source=False)
    ref = write(folder / "ref.csv", OTHERS[2:11], ("Ti", "Mn", "K"))
    pairs = CasePairs(trace, ref).get_instances()
    assert pairs.features.shape == (3, 6, 3)
    assert pairs.hypothesis is None
    assert pairs.source_ids.tolist() == [["trace", "s00"], ["trace", "s01"], ["trace", "s02"]]
    system = SavedSystem(folder / "ppm.safetensors", bounded=False)
    items = [OTHERS.features[rows] for rows in (slice(0, 2), slice(2, 4), slice(4, 8), slice(8, 11))]
    expected = [system.system.llr(items[0], item) for item in items[1:]]
    np.testing.assert_allclose(system.apply(pairs).llrs, expected, atol=1e-10)
    logs = CasePairs(trace, ref, transform="log10").get_instances()
    np.testing.assert_allclose(system.apply(logs).llrs, expected, atol=1e-10)
    with pytest.raises(LindleyError, match="there is no column 'item', as source_column: asks for"):
        CasePairs(trace, ref, source_column="item").get_instances()
    with pytest.raises(LindleyError, match="there is no such file"):
        CasePairs("none.csv", ref).get_instances()
    config = {"method": "lindley.adapters.lir.CasePairs", "trace": trace, "ref": ref, "ignore_columns": ["Mn"]}
    provider = parse_data_provider(ConfigValue.wrap([], config), folder)
    assert provider.get_instances().feature_names == ("K", "Ti")


# ── experiment files ────────────────────────────────────────────────────────────────────────────────────────────────


def test_outputs_by_category_and_of_a_case(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        [label, f"c{int(label[1:]) % 2}", *values] for label, values in zip(PPM.source_ids, PPM.features, strict=True)
    ]
    with (tmp_path / "cars.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["source", "car", *FEATURES], *rows])
    write(tmp_path / "trace.csv", OTHERS[:2], source=False)
    write(tmp_path / "ref.csv", OTHERS[2:11], ("Ti", "Mn", "K"))
    (tmp_path / "e.yaml").write_text("""
output_path: out
experiments:
  - name: e
    strategy: single_run
    data:
      provider: {method: lindley.adapters.lir.Table, data: cars.csv, group_column: car, transform: log10}
      splits: {strategy: train_test_sources, test_size: 0.4, seed: 1}
    lrsystem: {architecture: lindley.adapters.lir.two_level, model: tlm}
    output:
      - {method: by_category, category_field: group_ids, output: [{method: metrics}]}
      - method: case_llr
        case_llr_data: {method: lindley.adapters.lir.CasePairs, trace: trace.csv, ref: ref.csv, transform: log10}
""")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    main(["e.yaml"])
    (case,) = tmp_path.rglob("case_llr.csv")
    with case.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == [f"{side}_{FEATURES[k]}" for side in _SIDES for k in range(3)] + ["llr"]
    train = Table("cars.csv", ignore_columns=["car"], transform="log10").get_instances()
    pairs = CasePairs("trace.csv", "ref.csv", transform="log10").get_instances()
    expected = TwoLevelSystem("tlm").fit(train).apply(pairs)
    assert isinstance(expected, LLRData)
    np.testing.assert_allclose([float(row["llr"]) for row in found], expected.llrs, atol=1e-9)
    (metrics,) = tmp_path.rglob("metrics.csv")
    assert len(metrics.read_text().splitlines()) == 5  # of c0 against c0, c0 against c1, and so on


_SIDES = [f"{side}_{number}" for side, n in (("trace", 2), ("ref", 4)) for number in range(1, n + 1)]


def test_names_in_an_experiment_file(folder: Path) -> None:
    text = (
        f"{{architecture: lindley.adapters.lir.saved_system, path: '{folder / 'ppm.safetensors'}', n_ref_instances: 2}}"
    )
    system = parse_lrsystem(ConfigValue.wrap(["lrsystem"], yaml.safe_load(text)), Path()).lrsystem
    for options in ({}, {"transform": "log10"}):
        assert cllr(system.apply(Table(str(folder / "ppm_other.csv"), **options).get_instances())) < 0.1
