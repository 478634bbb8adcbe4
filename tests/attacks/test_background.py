"""Ways to get a background of several files, or an update of a system, wrong: each is told, and leaves nothing behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from lindley.system.train import train
from lindley.table.read import read_table
from tests.attacks.door import lindley
from tests.casework.factory import FEATURES, population, write_csv
from tests.casework.test_update import background, laboratory  # noqa: F401 - a fixture

WRONG: list[tuple[str, str]] = [
    ("train one.csv one.csv", "one (1) and one (2) hold the same table: every measurement would count twice"),
    ("train one.csv labels.csv", "the sources 'aS000', 'aS001', 'aS002', 'aS003', 'aS004', 'aS005'"),
    ("train one.csv labels.csv", "say so with --same-labels same; if it means another source, with --same-labels different"),
    ("train one.csv --same-labels same", "--same-labels is about labels of several tables, and there is one"),
    ("train one.csv two.csv --same-labels perhaps", "'perhaps' is not one of"),
    ("train one.csv fewer.csv", "fewer: it lacks 'Rb85', unlike one."),
    ("train one.csv fewer.csv", "with --include-columns K39,Ti49,Mn55"),
    ("train one.csv other.csv", "it lacks 'Mn55' and it has 'Mn-55' besides, unlike one. Did you mean 'Mn-55'?"),
    ("train one.csv copied.csv", "copied: 3 measurements are in one too: of 'zS000' ('aS000' there)"),
    ("train ppm.csv percent.csv", "column 'K39': the values are in ppm (ppm) and in mg/L (percent)."),
    ("train none.csv nothing.csv", "nothing.csv: there is no such file"),
    ("train none.csv nothing.csv", "none.csv: there is no such file"),
    ("train one.csv two.csv --out one.csv", "give a file that ends in .safetensors"),
    ("check one.csv one.csv", "hold the same table"),
    ("check one.csv --same-labels same", "there is one: leave it out"),
    ("update old.safetensors more.csv --background nowhere", "--background nowhere: there is no such file or folder"),
    ("update lost.safetensors more.csv",
     "a system holds no measurements, and those that it was trained on are needed again. Not found: gone.csv (60 "
     "measurements of 20 sources, SHA-256 "),
    ("update private.safetensors more.csv", "Name the files, or the folder that holds them, with --background."),
    ("update lost.safetensors more.csv --background one.csv", "Not found: gone.csv"),
    ("update old.safetensors more.csv --background two.csv", "--background two.csv: the system was not trained on this file"),
    ("update old.safetensors one.csv", "hold the same table: every measurement would count twice"),
    ("update old.safetensors copied.csv", "copied: 3 measurements are in one too: of 'zS000' ('aS000' there)"),
    ("update old.safetensors labels.csv", "say so with --same-labels same"),
    ("update old.safetensors fewer.csv", "the system needs 'Rb85', and the table has no such column"),
    ("update old.safetensors none.csv", "none.csv: there is no such file"),
    ("update old.safetensors more.csv --source-column item", "there is no column 'item'"),
    ("update old.safetensors more.csv --out both.safetensors", "both.safetensors is there already. Give another name"),
    ("update old.safetensors more.csv --out old.safetensors --force", "is a folder, or among the files that are read"),
    ("update old.safetensors more.csv --out kept.safetensors", "kept-update.html is there already. Give another"),
    ("update old.safetensors more.csv --out new.csv", "give a file that ends in .safetensors"),
    ("update old.safetensors more.csv --cases trace0.csv", "--cases trace0.csv: the page holds no record"),
    ("update old.safetensors more.csv --cases none.html", "there is no file none.html"),
    ("update old.safetensors more.csv --cases empty", "the folder empty holds no report of a case"),
    ("update old.safetensors more.csv --require-signature key.pem", "key.pem"),
    ("update more.csv one.csv", "more.csv does not hold a lindley system"),
    ("update none.safetensors one.csv", "there is no file none.safetensors"),
    ("update old.safetensors", "Missing argument 'TABLE"),
]  # fmt: skip


@pytest.fixture(scope="module")
def wrong(laboratory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """The laboratory, with files that go wrong."""
    folder = tmp_path_factory.mktemp("wrong") / "laboratory"
    shutil.copytree(laboratory, folder)
    values, source = population(20, 3, 6)
    labels = [f"z{each}" for each in source]
    write_csv(folder / "fewer.csv", values[:, :3], FEATURES[:3], source=labels)
    write_csv(folder / "other.csv", values, ("K39", "Ti49", "Mn-55", "Rb85"), source=labels)
    copied = values.copy()
    copied[:3] = np.round(population(40, 3, 1)[0][:3], 6)
    write_csv(folder / "copied.csv", copied, source=labels)
    for name, unit in (("ppm", "ppm"), ("percent", "mg/L")):
        own = [f"{name}{each}" for each in source]
        write_csv(folder / f"{name}.csv", values + len(name), [f"{each} [{unit}]" for each in FEATURES], source=own)
    gone = background(folder / "gone.csv", 7, 20, "g")
    for name, private in (("lost", False), ("private", True)):
        train(read_table(gone), "tlm", replicates=0, private=private).save(folder / f"{name}.safetensors")
    gone.unlink()
    (folder / "empty").mkdir()
    (folder / "kept-update.html").write_text("kept")
    (folder / "key.pem").write_text("no key")
    return folder


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[f"{k} {words}" for k, (words, _) in enumerate(WRONG, 1)])
def test_what_goes_wrong_is_told_and_leaves_nothing(
    words: str, message: str, wrong: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(wrong)
    command = words.split()
    if command[0] == "train" and "--out" not in command:
        command += ["--out", "trained.safetensors"]
    before = {path: path.read_bytes() for path in wrong.rglob("*") if path.is_file()}
    answer = lindley(*command)
    assert answer.status == 2
    assert message in " ".join(
        (answer.out if command[0] == "check" else "").split() + answer.err.replace("│", " ").split()
    )
    assert {path: path.read_bytes() for path in wrong.rglob("*") if path.is_file()} == before
