"""Named data sets. Real ones are found through $LINDLEY_DATA; without it, their tests are skipped."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.table import Table, datasets, export_csv, list_datasets, load_dataset, read_table

REAL = os.environ.get("LINDLEY_DATA")
needs_real_tables = pytest.mark.skipif(not REAL, reason="LINDLEY_DATA does not name a folder of real tables")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no $LINDLEY_DATA, and no network: nothing that the test did not put there."""
    folder = tmp_path / "cache"
    monkeypatch.delenv("LINDLEY_DATA", raising=False)
    monkeypatch.setattr("lindley.table.datasets.cache_folder", lambda: folder)

    def offline(url: str, timeout: float) -> Any:
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    return folder


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Small files in place of the published ones: 7 training items, 4 validation items, and some copies."""
    rng = np.random.default_rng(6)

    def measure(items: int, pieces: int) -> dict[tuple[int, int], list[float]]:
        centre = rng.normal(size=(items, 10))
        return {
            (i + 1, p + 1): (centre[i] + 0.01 * rng.normal(size=10)).round(6).tolist()
            for i in range(items)
            for p in range(pieces)
        }

    training, duplo, triplo = measure(7, 3), measure(6, 2), measure(6, 3)
    triplo[2, 2] = training[5, 1]  # one row in common is enough
    triplo[3, 1] = training[6, 1]  # and the tie goes on: training 6, validation 3, training 7
    duplo[3, 2] = training[7, 3]
    triplo[4, 3] = duplo[4, 1]  # a copy within one item
    texts = {}
    for name, rows in (("training.csv", training), ("duplo.csv", duplo), ("triplo.csv", triplo)):
        lines = ['"id","Item","Piece",' + ",".join(f"El{k}" for k in range(10))]
        lines += [f'"{n + 1}",{i},{p},' + ",".join(map(str, values)) for n, ((i, p), values) in enumerate(rows.items())]
        texts[name] = ("\n".join(lines) + "\n").encode()
    sums = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    monkeypatch.setattr(datasets, "NFI_GLASS_FILES", sums)
    return texts


def put(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def test_sources_that_share_a_row_are_one(published: dict[str, bytes], tmp_path: Path) -> None:
    put(tmp_path, published)
    table = load_dataset("nfi-glass", tmp_path)
    assert len(table.sources) == 7 + 6 - 1 - 2  # the tie of three takes two away
    assert {"training-5", "training-6", "validation-1", "validation-4"} <= set(table.sources)
    assert not {"validation-2", "validation-3", "training-7"} & set(table.sources)
    assert (table.source == "training-6").sum() == 3 + 3 + 5 - 2
    assert (table.source == "training-5").sum() == 3 + 5 - 1
    assert (table.source == "validation-4").sum() == 5 - 1
    assert len(np.unique(table.values, axis=0)) == len(table.values) == 21 + 12 + 18 - 4
    pairs = set(zip(table.source.tolist(), table.instance.tolist(), strict=True))
    assert ("validation-1", "duplo-2") in pairs
    assert [(finding.level, finding.code, finding.file) for finding in table.findings] == [
        ("note", "merged-sources", "duplo.csv"),
        ("note", "merged-sources", "triplo.csv"),
        ("note", "merged-sources", "triplo.csv"),
        ("note", "dropped-copy", "triplo.csv"),
    ]
    assert "validation-3 repeats training-7 (training.csv, row 22): one source, training-6" in str(table.findings[0])
    assert table.findings[3].rows == (13,)


def test_a_changed_file_is_refused_by_name(published: dict[str, bytes], tmp_path: Path) -> None:
    put(tmp_path / "nfi_glass", published | {"duplo.csv": published["duplo.csv"].replace(b"\n", b"\r\n")})
    with pytest.raises(LindleyError, match=r"duplo\.csv is not the published file.*SHA-256.*line ends"):
        load_dataset("nfi-glass", tmp_path)


def test_the_variable_comes_before_the_cache(
    published: dict[str, bytes], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINDLEY_DATA", str(tmp_path / "mine"))
    put(cache / "nfi_glass", published)
    assert len(load_dataset("nfi-glass").sources) == 10
    put(tmp_path / "mine", {"duplo.csv": b"not it"})  # directly in the folder, and not the published one
    with pytest.raises(LindleyError, match="mine"):
        load_dataset("nfi-glass")
    put(tmp_path / "mine" / "nfi_glass", published)
    assert len(load_dataset("nfi-glass").sources) == 10


def test_offline_it_says_which_files_to_put_where(cache: Path) -> None:
    with pytest.raises(LindleyError) as raised:
        load_dataset("nfi-glass")
    text = str(raised.value)
    for part in (
        "training.csv",
        "duplo.csv",
        "triplo.csv",
        "no network",
        str(cache / "nfi_glass"),
        "LINDLEY_DATA",
    ):
        assert part in text
    assert not cache.exists()


def test_an_explicit_folder_is_never_overruled_by_a_download(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(LindleyError, match=r"training\.csv, duplo\.csv and triplo\.csv not found in"):
        load_dataset("nfi-glass", tmp_path)


def test_a_download_is_kept_if_it_is_the_published_one(
    published: dict[str, bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def serve(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        return io.BytesIO(published[url.rsplit("/", 1)[1]])

    monkeypatch.setattr("urllib.request.urlopen", serve)
    table = load_dataset("nfi-glass")
    assert len(table.sources) == 10
    assert asked == [datasets.NFI_GLASS_URL + file for file in published]
    assert sorted(path.name for path in (cache / "nfi_glass").iterdir()) == sorted(published)
    assert load_dataset("nfi-glass").sha256() == table.sha256()
    assert len(asked) == 3  # the second time it was in the cache


def test_a_wrong_download_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: io.BytesIO(b"<html>Log in</html>"))
    with pytest.raises(LindleyError, match="is not the published file"):
        load_dataset("nfi-glass")
    assert not list(cache.rglob("*.csv"))


@pytest.mark.parametrize(
    ("name", "file", "origin"),
    [
        ("fiu-vehicle-glass", "fiu_vehicle_glass.csv", "SK4FGA"),
        ("onze-vowels", "onze_vowels.csv", "nzilbb.vowels"),
    ],
)
def test_an_absent_file_says_where_it_belongs_and_comes_from(
    name: str, file: str, origin: str, cache: Path, tmp_path: Path
) -> None:
    with pytest.raises(LindleyError) as raised:
        load_dataset(name)
    for part in (file, str(cache / file.removesuffix(".csv")), "LINDLEY_DATA", origin):
        assert part in str(raised.value)
    with pytest.raises(LindleyError, match=str(tmp_path)):
        load_dataset(name, tmp_path)


def test_a_file_of_another_size_gives_a_warning(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    lines = ["speaker,rep,F1,gender,yob"]
    lines += [f"s{n // 2},{n % 2},{rng.normal(500, 50):.1f},F,1980" for n in range(20)]
    put(tmp_path, {"onze_vowels.csv": "\n".join(lines).encode()})
    table = load_dataset("onze-vowels", tmp_path)
    assert table.features == ("F1",)
    assert [finding.code for finding in table.findings] == ["unexpected-size"]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(LindleyError, match=r"no data set 'nfi_glas'\. Did you mean 'nfi-glass'\? Choose glass-simul"):
        load_dataset("nfi_glas")
    with pytest.raises(LindleyError, match=r"'x'\. Choose"):
        load_dataset("x")


def test_the_list_says_where_each_is_or_how_to_get_it(cache: Path) -> None:
    listed = {info.name: info for info in list_datasets()}
    assert list(listed) == ["glass-simulated", "nfi-glass", "fiu-vehicle-glass", "onze-vowels"]
    assert listed["nfi-glass"].size == "976 × 3 or 5 × 10"
    assert "downloaded" in listed["nfi-glass"].where
    assert "onze_vowels.csv" in listed["onze-vowels"].where
    assert all(info.terms and info.citation and info.description and info.where for info in listed.values())
    put(cache / "onze_vowels", {"onze_vowels.csv": b""})
    assert {info.name: info.where for info in list_datasets()}["onze-vowels"] == f"found in {cache / 'onze_vowels'}"


def test_the_simulated_glass_has_the_size_that_is_listed() -> None:
    info = next(info for info in list_datasets() if info.name == "glass-simulated")
    table = load_dataset("glass-simulated")
    assert (len(table.sources), len(table.features)) == (info.sources, info.features)


@needs_real_tables
def test_nfi_glass_merges_what_is_known_to_be_filed_twice() -> None:
    table = load_dataset("nfi-glass")
    assert len(table.sources) == 976
    assert table.values.shape == (1977 + 640 + 960 - 11, 10)
    assert len(np.unique(table.values, axis=0)) == len(table.values)
    merged = [str(finding).split(": ", 1)[1] for finding in table.findings if finding.code == "merged-sources"]
    assert [text.split(" (")[0] for text in merged] == [
        "training-460 repeats training-130",
        "validation-127 repeats training-459",
        "validation-128 repeats training-131",
    ]
    dropped = [finding for finding in table.findings if finding.code == "dropped-copy"]
    assert [(finding.file, finding.message.split(" repeats")[0]) for finding in dropped] == [
        ("triplo.csv", "validation-170"),
        ("triplo.csv", "validation-216"),
    ]
    assert len(table.findings) == 5
    counts = dict(zip(*np.unique(table.source, return_counts=True), strict=True))
    assert (counts["training-130"], counts["training-131"], counts["training-459"]) == (3, 5, 5)
    assert (counts["validation-170"], counts["validation-216"], counts["validation-1"]) == (4, 4, 5)


@needs_real_tables
def test_nfi_glass_is_found_directly_in_a_folder_too(tmp_path: Path) -> None:
    assert REAL
    for file in datasets.NFI_GLASS_FILES:
        shutil.copy(Path(REAL) / "nfi_glass" / file, tmp_path)
    assert load_dataset("nfi-glass", tmp_path).sha256() == load_dataset("nfi-glass").sha256()


@needs_real_tables
@pytest.mark.parametrize(
    ("name", "rows", "sources", "groups", "features"),
    [("fiu-vehicle-glass", 6831, 759, 565, 15), ("onze-vowels", 2808, 468, 468, 20)],
)
def test_real_tables_have_their_known_size(name: str, rows: int, sources: int, groups: int, features: int) -> None:
    table = load_dataset(name)
    assert table.values.shape == (rows, features)
    assert (len(table.sources), len(set(table.group.tolist()))) == (sources, groups)
    assert table.name == name
    assert {finding.code for finding in table.findings} <= {"far-from-replicates", "more-of-far-from-replicates"}


@needs_real_tables
@pytest.mark.parametrize("name", ["nfi-glass", "fiu-vehicle-glass", "onze-vowels"])
def test_real_tables_survive_an_export(name: str, tmp_path: Path) -> None:
    table = load_dataset(name)
    export_csv(table, tmp_path / "t.csv")
    assert_equal(read_table(tmp_path / "t.csv"), table)


def assert_equal(one: Table, other: Table) -> None:
    assert one.sha256() == other.sha256()
    np.testing.assert_array_equal(one.instance, other.instance)


def test_platformdirs_is_not_needed_while_files_are_where_the_variable_says(tmp_path: Path) -> None:
    lines = ["speaker,rep,F1,gender,yob", *(f"s{n // 2},{n % 2},{500 + n * n % 41},F,1980" for n in range(20))]
    put(tmp_path, {"onze_vowels.csv": "\n".join(lines).encode()})
    code = (
        "import sys; sys.modules['platformdirs'] = None; from lindley.table.config import DataConfig; "
        "print([len(DataConfig(data=name).load().sources) for name in ('onze-vowels', 'glass-simulated')])"
    )
    environment = {**os.environ, "LINDLEY_DATA": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "[10, 1053]", done.stderr
