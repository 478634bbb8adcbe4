"""YAML files that would hang, fill the memory, or say another number than they seem to: each is refused with its reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lindley.casework.laboratory import load_criteria, load_scale
from lindley.errors import LindleyError
from lindley.experiment.config import load_experiment
from lindley.table.splits import Protocol

BASE = "data: glass.csv\nmodels: [tlm]\n"
LONG = "1" + "0" * 400


def laughs(levels: int) -> str:
    """Nine of nine of nine …"""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, levels)]
    return "\n".join(lines) + "\n"


def merges(levels: int) -> str:
    """Every mapping is merged of two like the one before."""
    lines = ["m0: &m0 {a: 1}"] + [f"m{k}: &m{k}\n  <<: [*m{k - 1}, *m{k - 1}]" for k in range(1, levels)]
    return "\n".join(lines) + "\n"


# what is refused, and what is said
REFUSED: dict[str, tuple[str, str]] = {
    # aliases
    "nine of nine": (BASE + laughs(12), "with every alias written out: the limit is 200 KB, which the environment"),
    "nine of nine as models": (laughs(12) + "data: x\nmodels: *a11\n", "LINDLEY_MAX_YAML_KB"),
    "merged of two": (BASE + merges(40), "with every alias written out"),
    "merged a thousand times": (
        BASE
        + "m: &m {"
        + ", ".join(f"k{n}: 1" for n in range(900))
        + "}\nx: {<<: ["
        + ", ".join(["*m"] * 900)
        + "]}\n",
        "with every alias written out",
    ),
    "a list in itself": (
        "data: a.csv\nmodels: &again [*again]\n",
        "line 2: an alias (*) stands inside of what it stands",
    ),
    "options in themselves": (
        "data: x\nmodels:\n  - model: tlm\n    options: &o\n      a: *o\n",
        "line 4: an alias (*) stands inside of what it stands",
    ),
    "merged into itself": (BASE + "x: &x {<<: *x}\n", "an alias (*) stands inside"),
    "an alias of nothing": ("data: *x\nmodels: [tlm]\n", "undefined alias"),
    # sizes
    "a long comment": (BASE + "# " + "x" * 300_000, "too large: the limit is 200 KB"),
    "many keys": (BASE + "".join(f"k{n}: 1\n" for n in range(30_000)), "too large"),
    "deep lists": (BASE + "x: " + "[\n" * 2000, "nested too deeply"),
    "deep mappings": (BASE + "x: " + "{a: " * 1500 + "1" + "}" * 1500, "nested too deeply"),
    "a thousand wrong keys": (BASE + "".join(f"k{n}: 1\n" for n in range(1000)), "and 980 problems more"),
    # numbers
    "splits without end": (
        BASE + "protocol: {splits: 1000000000}\n",
        "line 3, protocol.splits: splits are too many: the limit is",
    ),
    "splits of 400 digits": (
        BASE + f"protocol: {{splits: {LONG}}}\n",
        "line 3: 10000000… has 401 digits; 18 are the most",
    ),
    "a seed of 400 digits": (BASE + f"protocol: {{seed: {LONG}}}\n", "401 digits"),
    "a seed of 5000 digits": (BASE + f"protocol: {{seed: {LONG * 13}}}\n", "digits; 18 are the most"),
    "a seed of 400 digits as text": (BASE + f"protocol: {{seed: '{LONG}'}}\n", "seed is too large"),
    "replicates of 400 digits as text": (BASE + f"protocol: {{replicates: '{LONG}'}}\n", "replicates is too large"),
    "epochs of 400 digits": (BASE + f"training: {{epochs: {LONG}}}\n", "401 digits"),
    "epochs of 400 digits as text": (BASE + f"training: {{epochs: '{LONG}'}}\n", "training.epochs"),
    "epochs without end": (BASE + "training: {epochs: 100000000000}\n", "less than or equal to 1000000"),
    "a batch without end": (BASE + "training: {batch: 100000000000}\n", "less than or equal to 1000000"),
    "a rate of 400 digits": (BASE + f"training: {{learning_rate: {LONG}}}\n", "401 digits"),
    "a rate beyond numbers": (BASE + "training: {learning_rate: 1.0e+400}\n", "write 1.0e+400 as a plain number"),
    "a rate of infinity": (BASE + "training: {learning_rate: .inf}\n", "must be a finite number"),
    "a rate that is none": (BASE + "training: {learning_rate: .nan}\n", "training.learning_rate"),
    "shares of 400 digits": (BASE + f"protocol: {{shares: [{LONG}, 1, 1]}}\n", "401 digits"),
    "shares of infinity": (BASE + "protocol: {shares: [.inf, 1, 1]}\n", "shares must be three numbers above 0"),
    "shares that are none": (BASE + "protocol: {shares: [.nan, 1, 1]}\n", "shares must be three numbers above 0"),
    "ten that is eight": (BASE + "protocol: {splits: 010}\n", "line 3: write 010 as a plain whole number"),
    "ninety of an hour": (BASE + "protocol: {splits: 1:30}\n", "line 3: write 1:30 as a plain whole number"),
    "ten with a line": (BASE + "protocol: {splits: 1_0}\n", "write 1_0 as a plain whole number"),
    "sixteen in hexadecimal": (BASE + "protocol: {splits: 0x10}\n", "write 0x10 as a plain whole number"),
    "two in binary": (BASE + "protocol: {splits: 0b10}\n", "write 0b10 as a plain whole number"),
    "a float of an hour": (BASE + "training: {learning_rate: 1:30.5}\n", "write 1:30.5 as a plain number"),
    "splits of yes": (BASE + "protocol: {splits: yes}\n", "line 3, protocol.splits: splits must be a number or a name"),
    "epochs of on": (BASE + "training: {epochs: on}\n", "epochs must be a number or a name, and not yes or no"),
    "half a split": (BASE + "protocol: {splits: 2.5}\n", "line 3, protocol.splits"),
    "no split": (BASE + "protocol: {splits: 0}\n", "splits must be 1 or more"),
    "fewer than none": (BASE + "protocol: {seed: -1}\n", "seed must be 0 or more"),
    # tags
    "code": (BASE + "x: !!python/object/apply:os.system ['true']\n", "could not determine a constructor"),
    "a module": (BASE + "x: !!python/module:os\n", "could not determine a constructor"),
    "an empty number": (BASE + "x: !!int ''\n", "as a plain whole number"),
    "an empty float": (BASE + "x: !!float ''\n", "does not fit its tag"),
    "a truth that is none": (BASE + "x: !!bool maybe\n", "does not fit its tag (KeyError: 'maybe')"),
    "a time that is none": (BASE + "x: !!timestamp maybe\n", "does not fit its tag"),
    "the 40th of January": (BASE + "x: 2024-01-40\n", "out of range"),
    "bytes that are none": (BASE + "x: !!binary 'a$'\n", "base64"),
    "a list as a text": (BASE + "x: !!str [a]\n", "expected a scalar node"),
    # structure
    "nothing": ("", "must hold the keys data and models"),
    "a number": ("5\n", "must hold the keys data and models"),
    "a list": ("[a]\n", "must hold the keys data and models"),
    "two documents": (BASE + "---\n" + BASE, "expected a single document"),
    "a key twice": (BASE + "data: other.csv\n", "line 3: the key 'data' stands on line 1 already"),
    "a key twice in options": ("data: x\nmodels: [{model: tlm, model: tlm-kde}]\n", "the key 'model' stands on line 2"),
    "a list as key": ("? [a]\n: 1\n" + BASE, "unhashable key"),
    "a number as key": ("1: 2\n" + BASE, "line 1, 1: Keys should be strings"),
    "merging a number": ("<<: 5\n" + BASE, "expected a mapping"),
    "another version": ("%YAML 9.9\n---\n" + BASE, "incompatible YAML document"),
    "an open quotation mark": ("data: 'x\nmodels: [tlm]\n", "quoted scalar"),
    "models that are a mapping": ("data: x\nmodels: {a: 1}\n", "line 2, models: must be a list"),
    "models that are a text": ("data: x\nmodels: tlm\n", "line 2, models: must be a list"),
    "data that is a date": ("data: 2024-01-01\nmodels: [tlm]\n", "line 1, data must hold names and values"),
    "hidden that is no choice": ("data: {data: x, hidden: maybe}\nmodels: [tlm]\n", "line 1, data.hidden"),
    "a decimal mark that is none": ("data: {data: x, decimal: ;}\nmodels: [tlm]\n", "line 1, data.decimal"),
    # characters
    "a NUL": (BASE + "x: a\0b\n", "special characters are not allowed"),
    "an escape": ("data: \x1b[2J\nmodels: [tlm]\n", "special characters are not allowed"),
    "a NUL in the name": ('name: "a\\0"\n' + BASE, "line 1, name: the experiment cannot be called 'a\\x00'"),
    "an escape in the name": ('name: "a\\e[2J"\n' + BASE, "cannot be called 'a\\x1b[2J'"),
    "half a character in the name": ('name: "\\udc00x"\n' + BASE, "cannot be called"),
    "a name turned round": ('name: "a\\u202eb"\n' + BASE, "cannot be called"),
    "a label that is not seen": (
        'data: x\nmodels: [{model: tlm, label: "\\u200b"}]\n',
        "a label needs at least one letter",
    ),
}


def refusal(load: Callable[[str], object], path: Path) -> str:
    start = time.process_time()
    with pytest.raises(LindleyError) as caught:
        load(str(path))
    assert time.process_time() - start < 10
    assert len(str(caught.value)) < 5000
    return str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    content, said = REFUSED[name]
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")
    assert said in refusal(load_experiment, path)


@pytest.mark.parametrize("load", [load_scale, load_criteria], ids=["scale", "criteria"])
@pytest.mark.parametrize(
    "name", ["nine of nine", "merged of two", "a list in itself", "a long comment", "deep lists", "code"]
)
def test_other_files_are_refused_likewise(load: Callable[[str], object], name: str, tmp_path: Path) -> None:
    content, said = REFUSED[name]
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")
    assert said in refusal(load, path)


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"\x00\xff", b"data: \xff\n", b"\xef\xbb\xbf\xef\xbb\xbf[", b"\xfe\xff\xd8\x00"]
)
def test_bytes_that_are_no_text(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(data)
    assert "mine.yaml" in refusal(load_experiment, path)


@pytest.mark.parametrize("name", ["x" * 300 + ".yaml", "a\0b.yaml", "\ud800", "", "."])
@pytest.mark.parametrize("load", [load_experiment, load_scale, load_criteria], ids=["experiment", "scale", "criteria"])
def test_names_that_no_file_can_have(load: Callable[[str], object], name: str) -> None:
    with pytest.raises(LindleyError, match=r"there is no|cannot be read"):
        load(name)


def test_an_alias_of_some_options_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "data: x.csv\nmodels:\n  - {model: ntlm-single-sources-n2, options: &o {epochs: 3}}\n"
        "  - {model: ntlm-single-pairs-n2, options: *o}\n"
    )
    models = load_experiment(str(path)).models
    assert [model.options for model in models] == [{"epochs": 3}] * 2


def test_limits_are_settable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(BASE + "protocol: {splits: 20000}\n# " + "x" * 300_000)
    monkeypatch.setenv("LINDLEY_MAX_YAML_KB", "400")
    monkeypatch.setenv("LINDLEY_MAX_SPLITS", "30000")
    assert load_experiment(str(path)).protocol.splits == 20_000


@pytest.mark.parametrize("name", ["splits", "replicates", "seed"])
def test_a_protocol_of_huge_numbers(name: str) -> None:
    with pytest.raises(LindleyError, match=r"too many|too large"):
        Protocol(**{name: 10**6000})
