"""Bundles for machines without a network, with tiny wheels that are made here: what goes in, and what the scripts refuse.

Real ones are made and tried by ``make bundle-test``.
"""

from __future__ import annotations

import configparser
import ensurepip
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from bundle.__main__ import EXTRAS
from bundle.collect import Wheel, collect, read_pins
from bundle.licences import write_licences
from bundle.pack import CARRIED, SUMS, fill, write_zip
from bundle.proof import resolve
from bundle.target import PYTHONS, SYSTEMS, Problem, Target, this_machine
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PLATFORM, PYTHON = this_machine()
PIP = next(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"), None)
PINS = {"pip": "1.0", "torch": "2.0", "colorama": "1.0", "uvloop": "1.0", "starlette": "1.0", "tzdata": "1.0"}
NEEDS: dict[str, list[str]] = {
    "lindley": ["torch>=1", 'colorama; sys_platform == "win32"', 'starlette>=1; extra == "app"'],
    "torch": ['uvloop; platform_system == "Linux"', 'tzdata; python_full_version < "3.11.3" and os_name == "nt"'],
}
MODULES = {
    "lindley": "__version__ = '0.9'\ndef main():\n    print('lindley', __version__)\n",
    "torch": "class ones:\n    def __init__(self, n): self.n = n\n    def sum(self): return self.n\n",
}

needs_pip = pytest.mark.skipif(PIP is None, reason="this Python comes without pip")
needs_linux = pytest.mark.skipif(
    PLATFORM not in SYSTEMS or os.name == "nt", reason="there is no bundle for this machine"
)


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    needs: Sequence[str] = (),
    texts: Mapping[str, str] | None = None,
    head: str = "",
) -> Path:
    """A wheel of one module, with a licence text unless others are given."""
    info = f"{name}-{version}.dist-info"
    provides = sorted({found for need in needs for found in re.findall(r'extra == "(\w+)"', need)})
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{head}"
    metadata += "".join(f"Provides-Extra: {extra}\n" for extra in provides)
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {f"{name}.py": MODULES.get(name, ""), f"{info}/METADATA": metadata}
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files |= {f"{info}/licenses/LICENSE": f"{name} may be used.\n"} if texts is None else texts
    if name == "lindley":
        files[f"{info}/entry_points.txt"] = "[console_scripts]\nlindley = lindley:main\n"
    record = "".join(f"{member},,\n" for member in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0)), text)
    return path


def fetch(wanted: list[str], folder: Path, target: Target) -> list[str]:
    """All packages of PINS, and pip itself."""
    for one in wanted:
        name, _, version = one.partition("==")
        if name == "pip" and PIP is not None:
            shutil.copy(PIP, folder)
        else:
            make_wheel(folder, name, version.replace("+cpu", ""), NEEDS.get(name, []))
    return []


def make_bundle(
    folder: Path, platform: str = PLATFORM, python: str = PYTHON, extras: Sequence[str] = ("app",), version: str = "0.9"
) -> Path:
    """A whole bundle of tiny wheels."""
    target = Target(platform, python)
    (folder / "wheels").mkdir(parents=True)
    own = Wheel.read(make_wheel(folder / "wheels", "lindley", version, NEEDS["lindley"]))
    wheels = collect(own, extras, folder / "wheels", target, PINS, fetch)
    fill(folder, own, list(wheels.values()), list(extras), target)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if PLATFORM not in SYSTEMS or PYTHON not in PYTHONS:
        pytest.skip("there is no bundle for this machine")
    return make_bundle(tmp_path_factory.mktemp("made") / "a bundle")


@pytest.fixture
def bundle(whole: Path, tmp_path: Path) -> Path:
    """A bundle for this machine, to be spoilt."""
    return Path(shutil.copytree(whole, tmp_path / "a bundle"))


@pytest.fixture
def installer() -> ModuleType:
    """The module install.py."""
    spec = importlib.util.spec_from_file_location("carried_install", CARRIED / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(*command: str | Path, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    environment = {**kept, "HOME": str(home), "XDG_DATA_HOME": "", **more}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, encoding="utf-8", env=environment, check=False
    )


def install(bundle: Path, *options: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    home = bundle.parent / "home"
    home.mkdir(exist_ok=True)
    return start("sh", bundle / "install.sh", *options, home=home, PYTHON=sys.executable, **more)


# What goes in


@pytest.mark.parametrize(
    ("platform", "python", "there"),
    [
        ("win_amd64", "3.11", {"colorama", "tzdata"}),
        ("win_amd64", "3.12", {"colorama"}),
        ("linux_x86_64", "3.11", {"uvloop"}),
        ("macosx_arm64", "3.11", set()),
    ],
)
def test_what_is_needed_there_counts_and_not_what_is_needed_here(
    platform: str, python: str, there: set[str], tmp_path: Path
) -> None:
    folder = make_bundle(tmp_path / "b", platform, python)
    names = {Wheel.read(path).name for path in (folder / "wheels").iterdir()}
    assert names == {"lindley", "pip", "torch", "starlette", *there}
    assert {line.partition("==")[0] for line in (folder / "constraints.txt").read_text("utf-8").splitlines()} == names


def test_an_extra_brings_its_packages(tmp_path: Path) -> None:
    folder = make_bundle(tmp_path / "b", "macosx_arm64", "3.11", extras=())
    assert "starlette" not in (folder / "constraints.txt").read_text("utf-8")
    assert json.loads((folder / "bundle.json").read_text("utf-8"))["app"] is False


@pytest.mark.parametrize(("platform", "asked"), [("linux_x86_64", "torch==2.0+cpu"), ("win_amd64", "torch==2.0")])
def test_linux_gets_the_torch_without_cuda(platform: str, asked: str, tmp_path: Path) -> None:
    seen: list[str] = []

    def noted(wanted: list[str], folder: Path, target: Target) -> list[str]:
        seen.extend(wanted)
        return fetch(wanted, folder, target)

    own = Wheel.read(make_wheel(tmp_path, "lindley", "0.9", NEEDS["lindley"]))
    collect(own, [], tmp_path, Target(platform, "3.11"), PINS, noted)
    assert asked in seen


@pytest.mark.parametrize(
    ("pins", "extras", "said"),
    [
        ({**PINS, "torch": "0.5"}, [], "lindley needs torch>=1, and constraints.txt has 0.5"),
        ({name: PINS[name] for name in PINS if name != "torch"}, [], "constraints.txt has no version of it"),
        ({name: PINS[name] for name in PINS if name != "pip"}, [], "no version of pip"),
        (PINS, ["app", "nonsense"], "has no extra nonsense; it has app"),
    ],
)
def test_no_bundle_with_holes(pins: dict[str, str], extras: list[str], said: str, tmp_path: Path) -> None:
    own = Wheel.read(make_wheel(tmp_path, "lindley", "0.9", NEEDS["lindley"]))
    with pytest.raises(Problem, match=re.escape(said)):
        collect(own, extras, tmp_path, Target("linux_x86_64", "3.11"), pins, fetch)


def test_every_wheel_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    def some(wanted: list[str], folder: Path, target: Target) -> list[str]:
        there = [one for one in wanted if one.startswith("torch")]
        fetch(there, folder, target)
        return [f"{one}: no" for one in wanted if one not in there]

    own = Wheel.read(make_wheel(tmp_path, "lindley", "0.9", NEEDS["lindley"]))
    with pytest.raises(Problem, match="would have holes") as told:
        collect(own, ["app"], tmp_path, Target("win_amd64", "3.11"), PINS, some)
    missing = {line.removeprefix("- ") for line in str(told.value).splitlines()[1:]}
    assert missing == {"pip==1.0: no", "colorama==1.0: no", "starlette==1.0: no", "tzdata==1.0: no"}


@pytest.mark.parametrize(("platform", "python"), [("win32", "3.11"), ("linux_aarch64", "3.12"), ("win_amd64", "3.10")])
def test_machines_without_a_bundle(platform: str, python: str) -> None:
    with pytest.raises(Problem, match="There is no bundle for"):
        Target(platform, python)


def test_constraints_name_every_package_that_a_laboratory_gets() -> None:
    pins = read_pins(ROOT / "constraints.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [
        *project["dependencies"],
        *(line for extra in EXTRAS for line in extras.get(extra, [])),
        "pip",
        "hatchling",
    ]
    for line in lines:
        requirement = Requirement(line)
        assert canonicalize_name(requirement.name) in pins, line
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), line


@pytest.mark.parametrize("line", ["numpy", "numpy>=1,<2", "numpy ==", "-r more.txt", "SciPy==1.0"])
def test_constraints_that_are_no_versions(line: str, tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text(f"# a remark\nscipy==1.0\n{line}\n", "utf-8")
    with pytest.raises(Problem, match="line 3"):
        read_pins(tmp_path / "constraints.txt")


def test_licences_of_everything(tmp_path: Path) -> None:
    texts = {
        "a": {
            "a-1.dist-info/licenses/third_party/x/LICENSE": "X",
            "a-1.dist-info/licenses/LICENSE.txt": "X",
            "a/NOTICE": "Y",
        },
        "b": {"b-1.dist-info/LICENSE": "Zoë", "b/license.py": "no text"},
        "c": {},
    }
    heads = {
        "a": "License-Expression: MIT\n",
        "b": "Classifier: License :: OSI Approved :: BSD License\n",
        "c": "License: MIT\n",
    }
    wheels = [Wheel.read(make_wheel(tmp_path, name, "1", [], texts[name], heads[name])) for name in "cab"]
    assert write_licences(wheels, tmp_path / "licences") == ["c 1 (MIT)"]
    index = (tmp_path / "licences" / "INDEX.txt").read_text("utf-8").splitlines()
    assert [line.split()[0] for line in index[3:]] == ["a", "b", "c"]
    assert "BSD License" in index[4]
    assert index[5].endswith("its wheel holds no text")
    a = (tmp_path / "licences" / "a-1.txt").read_text("utf-8")
    assert a.count("\nX\n") == 1  # the same text once, below both names
    assert "third_party/x/LICENSE\n" in a
    assert "\nY\n" in a
    b = (tmp_path / "licences" / "b-1.txt").read_text("utf-8")
    assert "Zoë" in b
    assert "no text" not in b


def test_the_same_wheels_give_the_same_zip(bundle: Path, tmp_path: Path) -> None:
    first = write_zip(bundle, tmp_path / "one.zip")
    for path in bundle.rglob("*"):
        os.utime(path, (time.time(), 1e9))
    other = Path(shutil.copytree(bundle, tmp_path / "elsewhere" / bundle.name))
    assert write_zip(other, tmp_path / "two.zip") == first
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert (tmp_path / "one.zip.sha256").read_text("utf-8") == f"{first}  one.zip\n"
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert all("\\" not in name and name.startswith("a bundle/") for name in names)
        assert archive.getinfo("a bundle/install.sh").external_attr >> 16 == 0o100755
        assert max(map(len, names)) < 100  # Windows unpacks it in any folder
    assert make_bundle(tmp_path / "again").joinpath(SUMS).read_bytes() == (bundle / SUMS).read_bytes()


@pytest.mark.parametrize("platform", SYSTEMS)
def test_scripts_are_filled_in(platform: str, tmp_path: Path) -> None:
    folder = make_bundle(tmp_path / "b", platform, "3.12")
    command = (folder / "install.cmd").read_bytes()
    assert command.isascii()
    assert command.count(b"\r\n") == command.count(b"\n") > 10
    assert b"py -3.12 " in command
    assert b"$" not in command
    shell = (folder / "install.sh").read_text("utf-8")
    assert "\r" not in shell
    assert "python3.12" in shell
    assert "$python" not in shell
    assert os.access(folder / "install.sh", os.X_OK)
    assert f"lindley 0.9 for {platform} and Python 3.12" in (folder / "README.txt").read_text("utf-8")
    labels = re.findall(rb"^:(\w+)\r", command, re.MULTILINE)
    assert set(re.findall(rb"goto (\w+)", command)) == set(labels)
    if shutil.which("sh"):
        assert start("sh", "-n", folder / "install.sh", home=tmp_path).returncode == 0


def test_every_file_has_its_checksum(bundle: Path) -> None:
    told = dict(reversed(line.split("  ")) for line in (bundle / SUMS).read_text("utf-8").splitlines())
    files = {path.relative_to(bundle).as_posix(): path for path in bundle.rglob("*") if path.is_file()}
    assert set(told) == set(files) - {SUMS}
    assert all(hashlib.sha256(files[name].read_bytes()).hexdigest() == told[name] for name in told)


# What the scripts do


def spoil_wheel(bundle: Path) -> None:
    (bundle / "wheels" / "starlette-1.0-py3-none-any.whl").write_bytes(b"PK")


def take_wheel(bundle: Path) -> None:
    (bundle / "wheels" / "starlette-1.0-py3-none-any.whl").unlink()


def slip_wheel_in(bundle: Path) -> None:
    make_wheel(bundle / "wheels", "starlette", "9.9")


def spoil_constraints(bundle: Path) -> None:
    (bundle / "constraints.txt").write_text("starlette==9.9\n", "utf-8")


def take_sums(bundle: Path) -> None:
    (bundle / SUMS).unlink()


def spoil_installer(bundle: Path) -> None:
    with (bundle / "install.py").open("a", encoding="utf-8") as file:
        file.write("# more\n")


@needs_linux
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_wheel, "wheels/starlette-1.0-py3-none-any.whl was changed"),
        (take_wheel, "wheels/starlette-1.0-py3-none-any.whl is missing"),
        (slip_wheel_in, "wheels/starlette-9.9-py3-none-any.whl does not belong to it"),
        (spoil_constraints, "constraints.txt was changed"),
        (take_sums, "SHA256SUMS is missing"),
        (spoil_installer, "install.py was changed"),
    ],
)
def test_a_bundle_that_was_changed_is_not_installed(spoil: Any, said: str, bundle: Path) -> None:
    spoil(bundle)
    answer = install(bundle)
    assert answer.returncode == 1
    assert said in answer.stderr
    assert "What to do: unpack the zip file again" in answer.stderr
    assert not list((bundle.parent / "home").iterdir())


@needs_linux
def test_a_whole_bundle_fits(bundle: Path) -> None:
    answer = install(bundle, "--check")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert f"into {bundle.parent / 'home' / 'lindley-0.9'}" in answer.stdout
    assert not list((bundle.parent / "home").iterdir())


@needs_linux
def test_another_python(tmp_path: Path) -> None:
    other = next(version for version in PYTHONS if version != PYTHON)
    bundle = make_bundle(tmp_path / "b", python=other)
    answer = install(bundle)
    assert answer.returncode == 1
    assert f"PYTHON names {sys.executable}, which is not Python {other}" in answer.stderr
    answer = start(sys.executable, bundle / "install.py", home=tmp_path)
    assert answer.returncode == 1
    assert f"and the bundle is for Python {other}.\nWhat to do:" in answer.stderr
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "dirname"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    answer = start("sh", bundle / "install.sh", home=tmp_path, PYTHON="", PATH=str(tmp_path / "bin"))
    assert answer.returncode == 1
    assert f"there is no Python {other} on this computer" in answer.stderr
    assert "What to do:" in answer.stderr


@needs_linux
def test_another_system(tmp_path: Path) -> None:
    other = "macosx_arm64" if PLATFORM == "linux_x86_64" else "linux_x86_64"
    answer = install(make_bundle(tmp_path / "b", platform=other))
    assert answer.returncode == 1
    assert "and this Python is for" in answer.stderr
    assert "What to do: ask for a bundle for this computer" in answer.stderr


ABOUT: dict[str, Any] = {
    "version": "0.9", "python": PYTHON, "platform": PLATFORM, "app": True, "longest_name": 170, "installed_bytes": 1000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("libc", "said"),
    [(("glibc", "2.17"), "glibc 2.17"), (("", ""), r"C library \(unknown\)"), (("glibc", "2.28"), None)],
)
def test_an_old_linux(
    libc: tuple[str, str], said: str | None, installer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installer, "this_platform", lambda: "linux_x86_64")
    monkeypatch.setattr(installer.platform, "libc_ver", lambda: libc)
    about = {**ABOUT, "platform": "linux_x86_64"}
    if said is None:
        installer.check_machine(about)
    else:
        with pytest.raises(installer.Refused, match=said):
            installer.check_machine(about)


def test_an_old_mac(installer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "this_platform", lambda: "macosx_arm64")
    monkeypatch.setattr(installer.platform, "mac_ver", lambda: ("13.6", ("", "", ""), "arm64"))
    with pytest.raises(installer.Refused, match=r"macOS 13.6, .* needs macOS 14"):
        installer.check_machine({**ABOUT, "platform": "macosx_arm64"})


@pytest.mark.parametrize(
    ("system", "machine", "platform"),
    [("win-amd64", "AMD64", "win_amd64"), ("win32", "x86", "win32"), ("linux-x86_64", "x86_64", "linux_x86_64"),
     ("macosx-11.0-universal2", "arm64", "macosx_arm64"), ("macosx-10.9-x86_64", "x86_64", "macosx_x86_64")],
)  # fmt: skip
def test_how_a_machine_is_known(
    system: str, machine: str, platform: str, installer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installer.sysconfig, "get_platform", lambda: system)
    monkeypatch.setattr(installer.platform, "machine", lambda: machine)
    assert installer.this_platform() == platform


def test_python_for_32_bits(installer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "this_platform", lambda: "win32")
    with pytest.raises(installer.Refused, match="install the 64-bit Python"):
        installer.check_machine({**ABOUT, "platform": "win_amd64"})


def test_folders_that_will_not_do(installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "work.xlsx").touch()
    for taken in ("taken", "taken/work.xlsx"):
        with pytest.raises(installer.Refused, match="is there already, and is not an empty folder"):
            installer.choose_folder(ABOUT, str(tmp_path / taken))
    with pytest.raises(installer.Refused, match="may not write into"):
        installer.choose_folder(ABOUT, str(tmp_path / "taken" / "work.xlsx" / "below"))
    with pytest.raises(installer.Refused, match=r"GB free, and lindley needs 1500000000\.0 GB"):
        installer.choose_folder({**ABOUT, "installed_bytes": 1e18}, str(tmp_path / "new"))
    assert installer.choose_folder(ABOUT, str(tmp_path / "new")) == tmp_path / "new"
    monkeypatch.setattr(installer, "WINDOWS", True)
    monkeypatch.setattr(installer, "long_names", lambda: False)
    with pytest.raises(installer.Refused, match=r"too long for Windows.*\n.*--folder C:\\lindley"):
        installer.choose_folder(ABOUT, str(tmp_path / ("a" * 100)))
    monkeypatch.setattr(installer, "long_names", lambda: True)
    assert installer.choose_folder(ABOUT, str(tmp_path / ("a" * 100))).name == "a" * 100


ODD = Path('/home/o\'neil/my "lab" 100% $HOME `x`\\y/bin/lindley')


def test_entry_of_a_linux_menu(installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert "'lindley 0.9'" in installer.desktop_file(ABOUT, ODD)
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(tmp_path / "applications" / "lindley-0.9.desktop", "utf-8")
    entry = parser["Desktop Entry"]
    value = entry["Exec"].replace("\\\\", "\\")  # as any value is read; then as a quoted word of Exec
    found = re.fullmatch(r'"((?:[^"\\`$]|\\["\\`$])*)" app', value)
    assert found
    assert re.sub(r"\\(.)", r"\1", found[1]).replace("%%", "%") == str(ODD)
    assert entry["Type"] == "Application"


@needs_linux
def test_entry_of_a_mac(installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    command = tmp_path / "it's $HOME" / "lindley"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\necho "started $1"\n', "utf-8")
    command.chmod(0o755)
    installer.command_file(ABOUT, command)
    answer = start(tmp_path / "Applications" / "lindley 0.9.command", home=tmp_path)
    assert answer.stdout == "started app\n"


def test_entry_of_the_start_menu(installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "WINDOWS", True)
    ran: list[tuple[list[Any], dict[str, str]]] = []
    monkeypatch.setattr(installer, "run", lambda command, wrong, more: ran.append((command, more)) or "")
    said = installer.menu_entry(ABOUT, tmp_path, ODD)
    ((command, variables),) = ran
    assert said.startswith("Start menu, 'lindley 0.9'")
    assert variables == {"LINDLEY_ENTRY": "lindley 0.9", "LINDLEY_COMMAND": str(ODD)}
    assert "WScript.Shell" in command[-1]
    assert "o'neil" not in str(command)  # no letter of a path is taken for PowerShell
    assert not list(tmp_path.iterdir())


def test_a_laboratory_that_forbids_powershell(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any) -> str:
        raise installer.Refused("PowerShell could not make it.")

    monkeypatch.setattr(installer, "WINDOWS", True)
    monkeypatch.setattr(installer, "run", forbidden)
    said = installer.menu_entry(ABOUT, tmp_path, ODD)
    assert said == f'double click "{tmp_path / "lindley app.cmd"}"'
    assert (tmp_path / "lindley app.cmd").read_bytes() == b'@"%~dp0Scripts\\lindley.exe" app\r\n'


@needs_pip
@needs_linux
def test_it_installs_from_the_bundle_alone(bundle: Path) -> None:
    elsewhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_FIND_LINKS": "/nowhere",
        "PIP_REQUIRE_VIRTUALENV": "0",
    }
    elsewhere |= {"PYTHONPATH": "/nowhere", "PIP_CONFIG_FILE": "/nowhere/pip.conf", "PIP_TARGET": "/nowhere"}
    folder = bundle.parent / "home" / "my programs" / "lindley"
    answer = install(bundle, "--folder", folder, **elsewhere)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "lindley 0.9 is installed in" in answer.stdout
    home = bundle.parent / "home"
    assert start(folder / "bin" / "lindley", home=home).stdout == "lindley 0.9\n"
    if sys.platform == "linux":
        entry = (home / ".local/share/applications/lindley-0.9.desktop").read_text("utf-8")
        assert f'Exec="{folder}/bin/lindley" app' in entry
    again = install(bundle, "--folder", folder)
    assert again.returncode == 1
    assert "is there already" in again.stderr


@pytest.mark.parametrize("before", [False, True])
def test_what_fails_leaves_nothing(
    before: bool, installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "pip-1-py3-none-any.whl").touch()
    folder = tmp_path / "home" / "new" / "lindley"
    if before:
        folder.mkdir(parents=True)

    def run(command: list[Any], wrong: str) -> str:
        if "venv" not in command:
            raise installer.Refused("the disk is full")
        (folder / "lib").mkdir(parents=True)
        return ""

    monkeypatch.setattr(installer, "HERE", tmp_path)
    monkeypatch.setattr(installer, "run", run)
    with pytest.raises(installer.Refused, match="the disk is full"):
        installer.install({**ABOUT, "requirement": "lindley"}, folder)
    assert not folder.exists()
    assert folder.parent.exists() == before  # what was there before is left


def test_an_answer_of_another_version(installer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "run", lambda *_: "0.8\n")
    with pytest.raises(installer.Refused, match=r"it says that it is version 0\.8, and should be 0\.9"):
        installer.try_it(ABOUT, Path("python"))


@needs_pip
def test_pip_finds_everything_without_an_index_and_nothing_else(tmp_path: Path) -> None:
    """For Windows, wherever this runs: what only Windows needs, and not what only Linux does."""
    target = Target("win_amd64", "3.11")
    folder = make_bundle(tmp_path / "b", target.platform, target.python)
    make_wheel(folder / "wheels", "needless", "1")
    with pytest.raises(Problem, match=r"would not be installed: needless\."):
        resolve(folder, target)
    (folder / "wheels" / "colorama-1.0-py3-none-any.whl").unlink()
    with pytest.raises(Problem, match="the bundle for win_amd64 does not resolve"):
        resolve(folder, target)
