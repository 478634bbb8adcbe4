"""An experiment by name, from a file, and with options: what reads, and what is told if it does not."""

from __future__ import annotations

from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import assume, given, settings, strategies as st
from pydantic import ValidationError

from lindley.documents import Document
from lindley.errors import LindleyError
from lindley.experiment.config import BUILT_IN, Experiment, ModelConfig, json_schema, load_experiment
from lindley.experiment.folder import resolved
from lindley.models.neural.parameters import OrthonormalKind
from lindley.settings import speaking
from lindley.system.kinds import CALIBRATIONS, INTEGRATIONS
from lindley.table.config import DataConfig
from lindley.table.splits import Protocol


class TestConfig:
    def test_built_in(self) -> None:
        demo = load_experiment("demo")
        assert demo.name == "demo"
        assert demo.data.data == "glass-simulated"
        assert "tlm+logistic" in demo.rows

    def test_own_file_and_overrides(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text(
            "data: {data: t.csv, source_column: pane}\nprotocol: {splits: 2, shares: [2, 1, 1]}\nmodels: [tlm]\n"
        )
        mine = load_experiment(str(path), {"protocol": {"seed": 9}})
        assert (mine.name, mine.protocol.splits, mine.protocol.seed) == ("mine", 2, 9)
        assert mine.protocol.shares == (2.0, 1.0, 1.0)
        assert mine.data.source_column == "pane"
        assert load_experiment(str(path), {"data": {"data": "u.csv"}}).data.source_column is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("models: [tlm]\n", "data"),
            ("data: {data: a.csv}\nmodels: [tlm]\nmodel: x\n", "model"),
            ("data: {data: a.csv, colour: red}\nmodels: [tlm]\n", "data.colour"),
            ("data: {data: a.csv}\nprotocol: {split: 3}\nmodels: [tlm]\n", "protocol.split"),
            ("data: {data: a.csv}\nprotocol: {splits: many}\nmodels: [tlm]\n", "protocol.splits"),
            ("data: {data: a.csv}\nprotocol: {splits: 0}\nmodels: [tlm]\n", "splits must be 1 or more"),
            ("data: [unclosed\n", "is not YAML"),
            ("just text\n", "must hold the keys"),
            ("data: {data: a.csv}\nprotocol: 5\nmodels: [tlm]\n", r"protocol: \{splits: 21\}, and not 5"),
            ("data: {data: a.csv}\nprotocol: 0\nmodels: [tlm]\n", "protocol must hold"),
            ("data: {data: a.csv}\nprotocol: [splits, 5]\nmodels: [tlm]\n", "protocol must hold"),
            ("data: 5\nmodels: [tlm]\n", "data must hold"),
            ("data: [a.csv]\nmodels: [tlm]\n", "data must hold"),
            ("data: {1: a.csv}\nmodels: [tlm]\n", "data"),
            ("data: a.csv\nmodels: 3\n", "models"),
            ("data: a.csv\nmodels: [tlm]\nname: 5\n", "name"),
            ("data: a.csv\nmodels: [tlm]\ndate: 2024-13-40\n", "is not YAML"),
        ],
    )
    def test_bad_files(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "bad.yaml"
        path.write_text(text)
        with pytest.raises(LindleyError, match=message):
            load_experiment(str(path))

    def test_unknown_experiment(self) -> None:
        with pytest.raises(LindleyError, match="there is no experiment 'papre'"):
            load_experiment("papre")

    def test_named_data_knows_its_columns(self) -> None:
        config = DataConfig(data="glass-simulated", source_column="pane")
        with speaking("shell"), pytest.raises(LindleyError, match="leave out --source-column"):
            config.load()

    def test_a_file_that_is_not_utf8(self, tmp_path: Path) -> None:
        path = tmp_path / "bad.yaml"
        path.write_bytes("data: Süd.csv\nmodels: [tlm]\n".encode("latin-1"))
        with pytest.raises(LindleyError, match=r"byte 7 \(0xfc\) is not UTF-8 text.*Save"):
            load_experiment(str(path))

    def test_a_plain_data_entry_is_the_short_form(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text("data: nfi-glass\nmodels: [tlm]\n")
        assert load_experiment(str(path)).data == DataConfig(data="nfi-glass")
        with_option = load_experiment(str(path), {"data": {"source_column": "pane"}}).data
        assert with_option == DataConfig(data="nfi-glass", source_column="pane")
        assert load_experiment(str(path), {"data": {"data": "u.csv"}}).data.data == "u.csv"

    def test_an_empty_section_is_the_default(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text("data: nfi-glass\nprotocol:\nmodels: [tlm]\n")
        assert load_experiment(str(path)).protocol.splits == 21

    @pytest.mark.parametrize("name", ["a/b", "a\\\\b", "..", ".", "", " ", "/etc", "a\\nb"])
    def test_the_name_of_an_experiment_leads_nowhere_else(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / "bad.yaml"
        path.write_text(f'data: a.csv\nmodels: [tlm]\nname: "{name}"\n')
        with pytest.raises(LindleyError, match="cannot be called"):
            load_experiment(str(path))

    @pytest.mark.parametrize("name", ["glass 2024", "v1.2", "größe", "..a"])
    def test_plain_names(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / "good.yaml"
        path.write_text(f'data: a.csv\nmodels: [tlm]\nname: "{name}"\n', encoding="utf-8")
        assert load_experiment(str(path)).name == name


def told(tmp_path: Path, text: str, overrides: dict[str, dict[str, Any]] | None = None) -> list[str]:
    """The problems with a file, line by line."""
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LindleyError) as caught:
        load_experiment(str(path), overrides)
    first, *problems = str(caught.value).splitlines()
    assert first == f"the experiment '{path}' does not read:"
    return [problem.strip() for problem in problems]


TOP = """\
# a comment
data: a.csv

models:
  - tlm
"""  # the next item of the list stands on line 6


class TestLines:
    @pytest.mark.parametrize(
        ("text", "start"),
        [
            (TOP + "  - tml\n", "line 6, models.1: model 'tml': there is no model 'tml'. Did you mean 'tlm'?"),
            (TOP + "  - 5\n", "line 6, models.1: must be a name"),
            (TOP + "  - [tlm]\n", "line 6, models.1: must be a name"),
            (TOP + "  - {label: x}\n", "line 6, models.1.model: is missing"),
            (TOP + "  - model: tlm\n    colour: red\n", "line 7, models.1.colour: there is no such setting here"),
            (TOP + "  - model: tlm\n    label: ' '\n", "line 6, models.1: a label needs at least one letter"),
            (TOP + "  - model: tlm\n    calibration:\n    - logistic\n    - plat\n", "line 9, models.1.calibration.1: "),
            (TOP + "  - model: tlm\n    calibration: logistic\n", "line 7, models.1.calibration: must be a list"),
            (TOP + "  - model: ntlm-single-pairs-n1\n    options:\n      epochs: 0\n", "line 8, models.1.options.epochs: "),
            (TOP + "  - model: ntlm-single-pairs-n1\n    options: {epochs: 1.5}\n", "line 7, models.1.options.epochs: "),
            (TOP + "  - model: ntlm-single-pairs-n1\n    options:\n      epoch: 3\n", "line 8, models.1.options.epoch: "),
            (TOP + "  - model: ntlm-single-pairs-n1\n    options: 5\n", "line 7, models.1.options: "),
            (TOP + "  - model: ntlm-single-pairs-n1\n    integration: both\n", "line 7, models.1.integration: "),
            (TOP + "  - model: tlm\n    integration: common\n", "line 6, models.1: model 'tlm': integration: common is for a"),
            (TOP + "  - {model: tlm-kde, label: tlm}\n", "line 4, models: two models are called 'tlm'"),
            (TOP + "model: tlm\n", "line 6, model: there is no such setting here"),
            (TOP + "protocol:\n  split: 3\n", "line 7, protocol.split: there is no such setting here"),
            (TOP + "protocol:\n  seed: 1\n  splits: 0\n", "line 8, protocol.splits: splits must be 1 or more, not 0"),
            (TOP + "protocol:\n  splits: 1\n  seed: -1\n", "line 8, protocol.seed: the seed must be 0 or more"),
            (TOP + "protocol:\n  splits: 1\n  replicates: 1\n", "line 8, protocol.replicates: 1 of 1 replicates"),
            (TOP + "protocol:\n  shares: [1, 0, 1]\n", "line 7, protocol.shares: shares must be three numbers above 0"),
            (TOP + "protocol:\n  shares:\n  - 1\n  - 1\n  - x\n", "line 10, protocol.shares.2: "),
            (TOP + "protocol:\n  splits: 2.5\n", "line 7, protocol.splits: "),
            (TOP + "protocol: 5\n", "line 6, protocol must hold names and values"),
            (TOP + "training:\n  epochs: 3\n  learning_rate: .nan\n", "line 8, training.learning_rate: "),
            (TOP + "training:\n  learning_rate: .inf\n", "line 7, training.learning_rate: "),
            (TOP + "training:\n  device: tpu\n", "line 7, training.device: "),
            (TOP + "training:\n  epoch: 3\n", "line 7, training.epoch: "),
            (TOP + "output:\n  report: maybe\n", "line 7, output.report: "),
            (TOP + "output:\n  dir: x\n", "line 7, output.dir: "),
            (TOP + "name: a/b\n", "line 6, name: the experiment cannot be called 'a/b'"),
            (TOP + "3: x\n", "line 6, 3: "),
            ("models: [tlm]\ndata:\n  data: a.csv\n  transform: log2\n", "line 4, data.transform: "),
            ("models: [tlm]\ndata:\n  source_column: pane\n", "line 2, data.data: is missing"),
            ("models: [tlm]\ndata:\n  data: a.csv\n  include_columns: K39\n", "line 4, data.include_columns: must be a list"),
            ("models: [tlm]\ndata:\n  data: a.csv\n  ignore_columns: [A,\n    5]\n", "line 5, data.ignore_columns.1: "),
            ("models: [tlm]\n", "data.data: is missing"),
            ("data: a.csv\nprotocol:\n  splits: 2\n", "models: is missing"),
            ("data: a.csv\nmodels:\n", "line 2, models: must be a list"),
            ("data: a.csv\nmodels: tlm\n", "line 2, models: must be a list"),
            ("data: a.csv\nmodels: []\n", "line 2, models: there is no model to run"),
        ],
    )  # fmt: skip
    def test_the_line_of_what_is_wrong(self, tmp_path: Path, text: str, start: str) -> None:
        if "must hold names and values" in start:
            path = tmp_path / "bad.yaml"
            path.write_text(text)
            with pytest.raises(LindleyError, match=f"does not read: {start}"):
                load_experiment(str(path))
            return
        (problem,) = told(tmp_path, text)
        assert problem.startswith(start)

    def test_all_problems_at_once(self, tmp_path: Path) -> None:
        text = TOP + "  - tml\ntraining: {epochs: 0, batch: 0}\nprotocol:\n  seeds: 3\n"
        places = ["line 6, models.1", "line 7, training.epochs", "line 7, training.batch", "line 9, protocol.seeds"]
        assert sorted(problem.split(":")[0] for problem in told(tmp_path, text)) == sorted(places)

    @pytest.mark.parametrize(
        ("overrides", "start"),
        [
            ({"experiment": {"models": ("tlm", "tml")}}, "models.1: model 'tml'"),
            ({"protocol": {"splits": 0}}, "protocol.splits: splits must be 1 or more"),
            ({"protocol": {"seed": -1}}, "protocol.seed: the seed must be 0 or more"),
            ({"training": {"epochs": 0}}, "training.epochs: "),
            ({"data": {"transform": "log2"}}, "data.transform: "),
            ({"output": {"report": "maybe"}}, "output.report: "),
        ],
    )
    def test_an_option_has_no_line(self, tmp_path: Path, overrides: dict[str, dict[str, Any]], start: str) -> None:
        text = "data:\n  data: a.csv\n  transform: ln\nmodels: [tlm, tlm]\nprotocol: {splits: 3, seed: 3}\n"
        text += "training: {epochs: 3}\noutput: {report: true}\n"
        (problem,) = told(tmp_path, text, overrides)
        assert problem.startswith(start)

    def test_an_option_does_not_hide_the_line_of_something_else(self, tmp_path: Path) -> None:
        text = TOP + "protocol:\n  splits: many\n"
        (problem,) = told(tmp_path, text, {"protocol": {"seed": 3}})
        assert problem.startswith("line 7, protocol.splits: ")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (TOP + "data: b.csv\n", "line 6: the key 'data' stands on line 2 already"),
            (TOP + "protocol: {splits: 3, splits: 5}\n", "line 6: the key 'splits' stands on line 6 already"),
            (TOP + "  - {model: tlm, model: tlm-kde}\n", "line 6: the key 'model' stands on line 6 already"),
            (
                TOP + "training:\n  epochs: 3\n  batch: 2\n  epochs: 4\n",
                "line 9: the key 'epochs' stands on line 7 already",
            ),
            (TOP + "protocol: {splits: 3\n", "line 7"),
            (TOP + "\tprotocol: 3\n", "line 6"),
            (TOP + "protocol: " + "[" * 3000, "is not YAML"),
            (TOP + "protocol: *unknown\n", "line 6"),
            (TOP + "name: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
        ],
    )
    def test_what_is_not_yaml(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "bad.yaml"
        path.write_text(text)
        with pytest.raises(LindleyError, match="is not YAML") as caught:
            load_experiment(str(path))
        assert message in str(caught.value)

    def test_aliases_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "good.yaml"
        path.write_text(
            "data: a.csv\nmodels:\n- {model: ntlm-single-pairs-n1, options: &o {epochs: 5}}\n"
            "- {model: ntlm-double-pairs-n1, options: *o}\n"
        )
        assert [model.options["epochs"] for model in load_experiment(str(path)).models] == [5, 5]


class TestModels:
    def test_a_short_name_and_its_long_form_are_one_model(self) -> None:
        short = Experiment(name="x", data="a.csv", models=["ntlm-single-pairs-n1-varying+logistic"])
        long = Experiment(
            name="x", data="a.csv",
            models=[{"model": "ntlm-single-pairs-n1", "integration": "varying", "calibration": ["logistic"]}],
        )  # fmt: skip
        assert short.rows == long.rows
        assert list(long.rows) == ["ntlm-single-pairs-n1-varying+logistic"]
        both = Experiment(name="x", data="a.csv", models=[*short.models, *long.models])
        assert both.rows == short.rows
        assert len(both.models) == 1

    def test_labels_and_options(self) -> None:
        chosen = Experiment(
            name="x", data="a.csv",
            models=[
                {"model": "yeo-johnson:tlm+logistic", "calibration": ["elub"], "label": "the benchmark"},
                {"model": "ntlm-double-sources-n2", "options": {"orthonormal": "qr", "components": 4, "epochs": 7}},
                {"model": "ntlm-double-sources-n2-varying", "options": {"samples": 2000}},
                {"model": "ntlm-double-sources-n2", "integration": "common", "options": {"batch": 20}},
                {"model": "tlm", "label": "again"},
                "tlm",
            ],
        )  # fmt: skip
        assert {row: str(name) for row, name in chosen.rows.items()} == {
            "the benchmark": "yeo-johnson:tlm+logistic+elub",
            "ntlm-double-sources-n2[components=4,epochs=7,orthonormal=qr]": (
                "ntlm-double-sources-n2[components=4,epochs=7,orthonormal=qr]"
            ),
            "ntlm-double-sources-n2-varying[samples=2000]": "ntlm-double-sources-n2-varying[samples=2000]",
            "ntlm-double-sources-n2-common[batch=20]": "ntlm-double-sources-n2-common[batch=20]",
            "again": "tlm",
            "tlm": "tlm",
        }

    def test_samples_are_no_part_of_the_training(self) -> None:
        """With other samples, or none, the same network is used."""
        names = [
            ModelConfig(model="ntlm-single-pairs-n1-varying", options={"samples": n, "epochs": 5}).name  # type: ignore[arg-type]
            for n in (None, 10, 20)
        ]
        assert len(set(names)) == 3
        assert len({name.root for name in names}) == 1
        assert str(names[0].root) == "ntlm-single-pairs-n1[epochs=5]"

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            ({"model": "tlm", "options": {"epochs": 3}}, "there is no option epochs; it has no options"),
            ({"model": "tlm", "integration": "varying"}, "is for a neural model without one"),
            ({"model": "ntlm-single-pairs-n1-common", "integration": "varying"}, "is for a neural model without one"),
            ({"model": "ntlm-single-pairs-n1", "options": {"samples": 5}}, "samples is for a model"),
            ({"model": "ntlm-single-pairs-n1-common", "options": {"samples": 5}}, "samples is for a model"),
            ({"model": "ntlm-single-pairs-n1-varying", "options": {"components": 2}}, "models with one component"),
            ({"model": "tlm", "label": ""}, "a label needs at least one letter"),
            ({"model": "tlm", "label": "two\nlines"}, "a label needs at least one letter, on one line"),
            ({"model": "ntlm-single-pairs-n1", "options": {"orthonormal": "svd"}}, "orthonormal"),
            ({"model": "ntlm-single-pairs-n1", "options": {"learning_rate": float("inf")}}, "finite"),
        ],
    )
    def test_what_does_not_fit_together(self, model: dict[str, Any], message: str) -> None:
        with pytest.raises(ValidationError, match=message):
            ModelConfig.model_validate(model)

    def test_options_that_change_nothing_are_allowed(self) -> None:
        name = ModelConfig.model_validate({"model": "ntlm-single-pairs-n1-varying", "options": {"components": 1}}).name
        assert dict(name.options) == {"components": 1}
        assert ModelConfig.model_validate({"model": "tlm", "options": {}}).row == "tlm"


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


WORDS = st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), exclude_characters="/\\"), min_size=1, max_size=12)
NAMES = WORDS.filter(lambda text: bool(text.strip(" .")))
POSITIVE = st.floats(1e-9, 1e6)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "epochs": optional(st.integers(1, 5000)),
        "learning_rate": optional(POSITIVE),
        "weight_decay": optional(st.floats(0, 10)),
        "orthonormal": optional(st.sampled_from(["qr", "cayley"])),
        "start": optional(st.sampled_from(["random", "maximum-likelihood"])),
    },
)
MODEL = st.one_of(
    st.sampled_from(
        ["tlm", "tlm-kde+logistic", "quantile:tlm", "ntlm-single-pairs-n1", "ntlm-double-sources-n2-common"]
    ),
    st.fixed_dictionaries(
        {"model": st.sampled_from(["ntlm-single-pairs-n1", "yeo-johnson:ntlm-double-pairs-n2"]), "options": OPTIONS},
        optional={
            "label": optional(NAMES.filter(str.isprintable)),
            "integration": optional(st.sampled_from(["common", "varying"])),
            "calibration": st.lists(st.sampled_from(list(CALIBRATIONS)), max_size=3),
        },
    ),
)
EXPERIMENT = st.fixed_dictionaries(
    {
        "name": NAMES,
        "data": NAMES
        | st.fixed_dictionaries(
            {"data": NAMES},
            optional={
                "source_column": optional(WORDS),
                "include_columns": st.lists(WORDS, max_size=3),
                "transform": st.sampled_from(["none", "ln", "log10"]),
                "allow_duplicates": st.booleans(),
            },
        ),
        "models": st.lists(MODEL, min_size=1, max_size=4),
    },
    optional={
        "protocol": st.fixed_dictionaries(
            {}, optional={"splits": st.integers(1, 90), "seed": st.integers(0, 2**70), "shares": st.tuples(*[POSITIVE] * 3)}
        ),
        "training": st.fixed_dictionaries({}, optional={"epochs": st.integers(1, 9), "weight_decay": st.floats(0, 1)}),
        "output": st.fixed_dictionaries({}, optional={"folder": optional(WORDS), "report": st.booleans()}),
    },
)  # fmt: skip


@given(EXPERIMENT)
@settings(max_examples=150)
def test_the_resolved_configuration_reads_back_as_the_same_experiment(content: dict[str, Any]) -> None:
    try:
        chosen = Experiment.model_validate(content)
    except ValidationError:  # two models of one label
        assume(False)
    text = resolved(chosen)
    again = Experiment.model_validate(Document.parse(text, "it").content)
    assert again.told() == chosen.told()
    assert again.rows == chosen.rows
    assert resolved(again) == text


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_experiments_read_back(name: str, tmp_path: Path) -> None:
    chosen = load_experiment(name)
    path = tmp_path / "experiment.yaml"
    path.write_text(resolved(chosen), encoding="utf-8")
    assert load_experiment(str(path)) == chosen


def test_the_paper_has_every_model_of_its_summary() -> None:
    paper = load_experiment("paper")
    assert paper.protocol.splits == 21
    assert paper.training.epochs == 2000
    neural = {row for row in paper.rows if row.startswith("ntlm-")}
    assert {row.removesuffix("-common").removesuffix("-varying") for row in neural} == {
        f"ntlm-{projection}-{rest}"
        for projection in ("single", "double")
        for rest in ("pairs-n1", "pairs-n2", "sources-n2")
    }
    assert len(neural) == 18
    assert {row for row in paper.rows if not row.startswith("ntlm-")} == {
        "tlm", "tlm-kde", "quantile:tlm", "yeo-johnson:tlm", "flow:tlm", "tlm+logistic", "tlm+logistic+elub",
        "tlm-kde+logistic", "tlm-kde+logistic+elub",
    }  # fmt: skip
    demo = [name for name in load_experiment("demo").rows.values() if name.base != "robust"]
    assert {str(replace(name, options=())) for name in demo} <= set(paper.rows)


def test_the_literal_paper_takes_every_choice_as_printed() -> None:
    literal = load_experiment("paper-literal")
    assert (literal.protocol.splits, literal.protocol.replicates, literal.protocol.shares) == (21, 2, (1, 1, 1))
    training = literal.training
    assert (training.epochs, training.batch, training.learning_rate, training.weight_decay) == (2000, 50, 1e-3, 1e-2)
    networks = [name for name in literal.rows.values() if name.base.startswith("ntlm-")]
    printed = {"pairs-n1", "pairs-n2", "pairs-n2-common", "sources-n2", "sources-n2-varying"}
    assert {str(replace(name, options=())) for name in networks} == {
        f"ntlm-{projection}-{model}" for projection in ("single", "double") for model in printed
    }
    assert len(networks) == 10
    for name in networks:
        sampled = {"samples": 2000, "prior": "as-printed"} if name.integration == "varying" else {}
        assert dict(name.options) == {"orthonormal": "qr", **sampled}
    assert len({name.root for name in networks}) == 6  # integration reuses what was trained
    ours = load_experiment("paper")
    assert (literal.data, literal.protocol, literal.training) == (ours.data, ours.protocol, ours.training)
    assert set(literal.rows) - {str(name) for name in networks} <= set(ours.rows)


class TestSchema:
    """Held to a validator of its own, of the few words of JSON schema that it uses: no validator is a dependency."""

    def objects(self) -> dict[str, dict[str, Any]]:
        schema = json_schema()
        found = {"Experiment": schema}
        for name, part in schema["$defs"].items():
            found[name] = (
                next((one for one in part["anyOf"] if one.get("type") == "object"), {}) if "anyOf" in part else part
            )
        return found

    def test_every_setting_is_described_and_no_other_is_allowed(self) -> None:
        objects = self.objects()
        assert set(objects) == {
            "Experiment", "DataConfig", "ModelConfig", "Options", "OutputConfig", "Protocol", "TrainingConfig",
        }  # fmt: skip
        for name, part in objects.items():
            assert part["additionalProperties"] is False, name
            assert part["description"], name
            for setting, about in part["properties"].items():
                described = about.get("description") or json_schema()["$defs"][about["$ref"].split("/")[-1]]
                assert described, f"{name}.{setting}"

    def test_choices_are_those_that_there_are(self) -> None:
        objects = self.objects()
        model, options = objects["ModelConfig"]["properties"], objects["Options"]["properties"]
        assert model["calibration"]["items"]["enum"] == list(CALIBRATIONS)
        assert model["integration"]["anyOf"][0]["enum"] == list(INTEGRATIONS)
        assert options["orthonormal"]["anyOf"][0]["enum"] == list(get_args(OrthonormalKind))
        assert objects["Experiment"]["properties"]["models"]["minItems"] == 1
        assert objects["Experiment"]["required"] == ["data", "models"]
        defaults = {name: about["default"] for name, about in objects["Protocol"]["properties"].items()}
        assert {**defaults, "shares": tuple(defaults["shares"])} == asdict(Protocol())

    @pytest.mark.parametrize(
        "text",
        [
            TOP,
            TOP + "  - {model: tlm, label: x, calibration: [logistic]}\n",
            TOP
            + "  - model: ntlm-single-pairs-n1\n    integration: varying\n    options: {samples: 5, orthonormal: qr}\n",
            TOP + "protocol: {splits: 3, shares: [2, 1, 1], seed: 4}\nname: x\noutput: {folder: a, report: false}\n",
            TOP + "training: {epochs: 5, learning_rate: 1.0e-4, device: cuda}\n",
            "data: {data: a.csv, include_columns: [A], transform: ln, sheet: null}\nmodels: [tlm]\n",
        ],
    )
    def test_good_files_fit(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "good.yaml"
        path.write_text(text)
        load_experiment(str(path))
        assert fits(yaml.safe_load(text), json_schema())

    @pytest.mark.parametrize("name", BUILT_IN)
    def test_built_in_experiments_fit(self, name: str) -> None:
        text = files("lindley.experiment").joinpath(f"{name}.yaml").read_text("utf-8")
        assert fits(yaml.safe_load(text), json_schema())
        assert fits(yaml.safe_load(resolved(load_experiment(name))), json_schema())

    @pytest.mark.parametrize(
        "text",
        [
            "models: [tlm]\n",
            "data: a.csv\n",
            "data: a.csv\nmodels: []\n",
            "data: 5\nmodels: [tlm]\n",
            "data: {source_column: x}\nmodels: [tlm]\n",
            "data: {data: a.csv, transform: log2}\nmodels: [tlm]\n",
            TOP + "  - 5\n",
            TOP + "  - {label: x}\n",
            TOP + "  - {model: tlm, colour: red}\n",
            TOP + "  - {model: tlm, calibration: [plat]}\n",
            TOP + "  - {model: ntlm-single-pairs-n1, options: {epochs: 0}}\n",
            TOP + "  - {model: ntlm-single-pairs-n1, options: {samples: few}}\n",
            TOP + "model: x\n",
            TOP + "protocol: {split: 3}\n",
            TOP + "protocol: {splits: 0}\n",
            TOP + "protocol: {seed: -1}\n",
            TOP + "protocol: {shares: [1, 1]}\n",
            TOP + "training: {learning_rate: 0}\n",
            TOP + "training: {device: tpu}\n",
            TOP + "output: {report: maybe}\n",
        ],
    )
    def test_bad_files_do_not_fit(self, text: str) -> None:
        assert not fits(yaml.safe_load(text), json_schema())


def fits(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None) -> bool:
    """Whether a value fits a JSON schema of the words that pydantic uses here; another word is an error."""
    root = root or schema
    words = {"$schema", "$defs", "title", "description", "default", "$ref", "anyOf", "type", "enum", "minimum"}
    words |= {"exclusiveMinimum", "maximum", "properties", "required", "additionalProperties", "items", "prefixItems"}
    assert set(schema) <= words | {"minItems", "maxItems"}, set(schema) - words
    if "$ref" in schema and not fits(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root):
        return False
    if "anyOf" in schema and not any(fits(value, one, root) for one in schema["anyOf"]):
        return False
    number = isinstance(value, int | float) and not isinstance(value, bool)
    kinds = {
        "string": isinstance(value, str), "null": value is None, "boolean": isinstance(value, bool), "number": number,
        "integer": number and int(value) == value, "array": isinstance(value, list), "object": isinstance(value, dict),
    }  # fmt: skip
    if ("type" in schema and not kinds[schema["type"]]) or value not in schema.get("enum", [value]):
        return False
    if number and not schema.get("maximum", value) >= value >= schema.get("minimum", value):
        return False
    if number and "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
        return False
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        each = schema.get("prefixItems", [schema.get("items", {})] * len(value))
        return all(fits(one, about, root) for one, about in zip(value, each, strict=False))
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return (
            set(schema.get("required", [])) <= set(value) <= set(known)
            and all(fits(one, known[key], root) for key, one in value.items())
        )  # fmt: skip
    return True


def test_a_value_of_the_command_line_counts_for_models_with_an_option_of_their_own() -> None:
    as_it_is = load_experiment("demo")
    assert {model.options.get("epochs") for model in as_it_is.models} == {None, 600}
    assert as_it_is.training.epochs == 2000
    replaced = load_experiment("demo", {"training": {"epochs": 5}})
    assert {model.options.get("epochs") for model in replaced.models} == {None}
    assert replaced.training.epochs == 5
