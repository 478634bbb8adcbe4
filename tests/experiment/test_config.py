"""An experiment by name, from a file, and with options: what reads, and what is told if it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lindley.errors import LindleyError
from lindley.experiment.config import DataConfig, load_experiment


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
        with pytest.raises(LindleyError, match="leave out --source-column"):
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
