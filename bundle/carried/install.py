"""Installs lindley from the folder that holds this file: without a network, without administrator rights.

install.cmd (Windows) and install.sh (Linux, macOS) look for the right Python and start this. It checks that the bundle is whole
and unchanged and that this computer is the right one, makes an environment in a folder of its own, lets the pip of the bundle
install into it from the bundle alone, tries it, and puts it into the menu. If anything fails, nothing is left.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SYSTEMS = {
    "win_amd64": "Windows (64 bit)",
    "linux_x86_64": "Linux (Intel or AMD, 64 bit)",
    "macosx_arm64": "macOS (Apple silicon)",
    "win32": "Windows (32 bit)",
}
WINDOWS = os.name == "nt"
WINDOWS_PATH = 259
"""The longest file name on Windows, where long ones are not switched on."""
COMPILED = 1.5
"""What is installed takes so much more room than the wheels hold: Python compiles it."""


class Refused(Exception):
    """Why lindley is not installed, and what to do."""


def main(given: list[str] | None = None) -> int:
    """Install, and return 0 if that went well."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(prog="install", description="Install lindley from this folder, without a network.")
    parser.add_argument(
        "--folder", help="where to install it: a new folder; default: lindley-VERSION in your home folder"
    )
    parser.add_argument("--check", action="store_true", help="only look whether it would go well")
    options = parser.parse_args(given)
    try:
        about = check_bundle(HERE)
        check_machine(about)
        folder = choose_folder(about, options.folder)
        if options.check:
            print(f"The bundle is whole, and fits this computer. It would be installed into {folder}")
        else:
            install(about, folder)
    except Refused as reason:
        print(f"\nlindley is not installed: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nlindley is not installed: you stopped it.", file=sys.stderr)
        return 1
    return 0


def check_bundle(bundle: Path) -> dict[str, Any]:
    """See that every file is there, unchanged, and that there is no wheel too many; return what the bundle is for."""
    again = (
        "What to do: unpack the zip file again, all of it. If that does not help, ask for the zip file again, and compare its "
        "checksum."
    )
    try:
        lines = (bundle / "SHA256SUMS").read_text("utf-8").splitlines()
    except OSError:
        raise Refused(f"the file SHA256SUMS is missing beside install.py.\n{again}") from None
    sums = {name: expected for expected, _, name in (line.partition("  ") for line in lines)}
    print(f"Checking {len(sums)} files ...", flush=True)
    wrong = []
    for name, expected in sums.items():
        path = bundle / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif digest(path) != expected:
            wrong.append(f"{name} was changed")
    present = {f"wheels/{path.name}" for path in (bundle / "wheels").glob("*")}
    wrong += [f"{name} does not belong to it" for name in sorted(present - set(sums))]
    if wrong:
        shown = [*wrong[:10], *([f"and {len(wrong) - 10} more"] if len(wrong) > 10 else [])]
        raise Refused("the bundle is not as it was made:\n  " + "\n  ".join(shown) + f"\n{again}")
    return json.loads((bundle / "bundle.json").read_text("utf-8"))


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_machine(about: dict[str, Any]) -> None:
    """See that the bundle is for this Python and this system."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if python != about["python"] or sys.implementation.name != "cpython":
        raise Refused(
            f"this is {platform.python_implementation()} {python} ({sys.executable}), and the bundle is for Python "
            f"{about['python']}.\nWhat to do: start install.cmd or install.sh with a Python {about['python']} (set the "
            "variable PYTHON to its full name), or ask for a bundle for the Python that you have."
        )
    here = this_platform()
    if here != about["platform"]:
        fix = "install the 64-bit Python." if here == "win32" else "ask for a bundle for this computer."
        raise Refused(
            f"the bundle is for {SYSTEMS.get(about['platform'], about['platform'])}, and this Python is for "
            f"{SYSTEMS.get(here, here)}.\nWhat to do: {fix}"
        )
    libc, version = platform.libc_ver()
    if here.startswith("linux") and (libc != "glibc" or numbers(version) < (2, 28)):
        raise Refused(
            f"this Linux has the C library {libc or '(unknown)'} {version}, and torch, which lindley computes with, needs "
            "glibc 2.28 or newer.\nWhat to do: use a newer Linux (RHEL 8, Debian 10, Ubuntu 20.04, or newer)."
        )
    if here.startswith("macosx") and numbers(platform.mac_ver()[0]) < (14,):
        raise Refused(
            f"this is macOS {platform.mac_ver()[0]}, and torch, which lindley computes with, needs macOS 14 or newer.\nWhat to "
            "do: use a newer macOS."
        )


def this_platform() -> str:
    """The platform of this Python, in the words of the bundle."""
    system = sysconfig.get_platform().replace(".", "_").replace("-", "_")
    return f"macosx_{platform.machine()}" if system.startswith("macosx") else system


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, to compare it."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def choose_folder(about: dict[str, Any], given: str | None) -> Path:
    """The folder to install into: new, or empty; with room for it."""
    folder = Path(given).expanduser() if given else Path.home() / f"lindley-{about['version']}"
    folder = Path(os.path.abspath(folder))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(
            f"{folder} is there already, and is not an empty folder.\nWhat to do: choose another one, with --folder. Or remove "
            "it, if it is an old lindley."
        )
    longest = len(str(folder / "Lib" / "site-packages")) + 1 + about["longest_name"]
    if WINDOWS and longest > WINDOWS_PATH and not long_names():
        raise Refused(
            f"the name of the folder is too long for Windows: files in {folder} would have names of {longest} letters, and "
            f"{WINDOWS_PATH} are allowed.\nWhat to do: choose a folder with a shorter name, such as --folder C:\\lindley."
        )
    above = next(path for path in [folder, *folder.parents] if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise Refused(f"you may not write into {above}.\nWhat to do: choose another folder, with --folder.")
    needed, free = about["installed_bytes"] * COMPILED, shutil.disk_usage(above).free
    if free < needed:
        raise Refused(
            f"{above} has {free / 1e9:.1f} GB free, and lindley needs {needed / 1e9:.1f} GB.\nWhat to do: make room, or choose "
            "a folder on another disk, with --folder."
        )
    return folder


def long_names() -> bool:
    """Whether this Windows allows long file names."""
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Control\FileSystem") as key:
            return winreg.QueryValueEx(key, "LongPathsEnabled")[0] == 1
    except OSError:
        return False


def install(about: dict[str, Any], folder: Path) -> None:
    """Make the environment, install into it, try it, and put it into the menu."""
    made = [path for path in [folder, *folder.parents] if not path.exists()]
    binaries = folder / ("Scripts" if WINDOWS else "bin")
    python = binaries / ("python.exe" if WINDOWS else "python")
    command = binaries / ("lindley.exe" if WINDOWS else "lindley")
    try:
        print(f"Installing lindley {about['version']} into {folder}. This takes a few minutes ...", flush=True)
        run([sys.executable, "-m", "venv", "--without-pip", folder], "Python could not make an environment there.")
        (pip,) = (HERE / "wheels").glob("pip-*.whl")
        bundled = ["--no-index", "--find-links", HERE / "wheels", "--constraint", HERE / "constraints.txt"]
        alone = ["--isolated", "--no-cache-dir", "--disable-pip-version-check", "--only-binary=:all:", "--quiet"]
        command_line = [python, "-E", "-s", pip / "pip", "install", *alone, *bundled, about["requirement"], "pip"]
        run(command_line, "pip could not install it.")
        print("Trying it ...", flush=True)
        try_it(about, python)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        for path in made[1:]:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        raise
    print(f"\nlindley {about['version']} is installed in {folder}")
    if about["app"]:
        print(f"To start it: {menu_entry(about, folder, command)}")
    print(f"For its commands, in a terminal: {quoted(command)} --help")


def try_it(about: dict[str, Any], python: Path) -> None:
    """See that lindley starts and computes."""
    wrong = "It was installed, but does not start."
    if WINDOWS:
        wrong += (
            " The usual cause is that the Microsoft Visual C++ Redistributable 2015-2022 (x64), which torch needs, is not on"
            " this computer: ask whoever looks after it. Another is a rule that programs below the home folder may not run."
        )
    program = "import torch, lindley; assert torch.ones(2).sum() == 2; print(lindley.__version__)"
    answer = run([python, "-E", "-s", "-c", program], wrong).strip()
    if answer != about["version"]:
        raise Refused(f"it says that it is version {answer}, and should be {about['version']}.")


def run(command: list[Any], wrong: str, more: dict[str, str] | None = None) -> str:
    """Run a program with no setting of the user's that could lead pip elsewhere, and return what it prints."""
    environment = {name: text for name, text in os.environ.items() if not name.upper().startswith(("PIP_", "PYTHON"))}
    environment.update(more or {}, PIP_CONFIG_FILE=os.devnull, PYTHONUTF8="1")
    done = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=environment,
        check=False,
    )
    if done.returncode:
        said = done.stdout.strip() or f"(nothing, and exit status {done.returncode})"
        raise Refused(f"{wrong} What was said:\n\n{said}\n")
    return done.stdout


def quoted(path: Path) -> str:
    """A path as one types it in a terminal."""
    return f'"{path}"' if WINDOWS else shlex.quote(str(path))


def menu_entry(about: dict[str, Any], folder: Path, command: Path) -> str:
    """Make the entry of the start menu, and say how the app is started. No entry is no failure."""
    make = start_menu if WINDOWS else command_file if sys.platform == "darwin" else desktop_file
    try:
        return make(about, command)
    except (OSError, Refused) as reason:
        print(f"There is no entry in the menu: {reason}")
    return double_click(folder) if WINDOWS else f"{quoted(command)} app"


def double_click(folder: Path) -> str:
    """A script that starts the app, where PowerShell is not allowed to make a shortcut; it finds lindley beside itself."""
    script = folder / "lindley app.cmd"
    script.write_text('@"%~dp0Scripts\\lindley.exe" app\n', "ascii", newline="\r\n")
    return f'double click "{script}"'


SHORTCUT = """
$ErrorActionPreference = 'Stop'
$file = Join-Path ([Environment]::GetFolderPath('Programs')) ($env:LINDLEY_ENTRY + '.lnk')
$link = (New-Object -ComObject WScript.Shell).CreateShortcut($file)
$link.TargetPath = $env:LINDLEY_COMMAND
$link.Arguments = 'app'
$link.WorkingDirectory = $env:USERPROFILE
$link.Description = 'Forensic likelihood ratios'
$link.Save()
if (-not (Test-Path -LiteralPath $file)) { throw 'the shortcut was not written' }
"""
"""For PowerShell. Paths travel as variables, so that no letter of one is taken for a command."""


def start_menu(about: dict[str, Any], command: Path) -> str:
    """A shortcut in the user's own start menu."""
    entry = f"lindley {about['version']}"
    powershell = Path(
        os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "WindowsPowerShell", "v1.0", "powershell.exe"
    )
    run(
        [powershell, "-NoProfile", "-NonInteractive", "-Command", SHORTCUT],
        "PowerShell could not make it.",
        {"LINDLEY_ENTRY": entry, "LINDLEY_COMMAND": str(command)},
    )
    return f"Start menu, '{entry}'. Closing the black window ends it."


def desktop_file(about: dict[str, Any], command: Path) -> str:
    """An entry for the menus of Linux desktops."""
    folder = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "applications"
    folder.mkdir(parents=True, exist_ok=True)
    # Quoted as the specification of Exec wants it, and then as any value of the file: a backslash is doubled.
    inside = "".join(f"\\{letter}" if letter in '"`$\\' else letter for letter in str(command)).replace("%", "%%")
    lines = [
        "[Desktop Entry]",
        "Type=Application",
        f"Name=lindley {about['version']}",
        "Comment=Forensic likelihood ratios",
        "Exec=" + f'"{inside}" app'.replace("\\", "\\\\"),
        "Terminal=true",
        "Categories=Science;",
    ]
    (folder / f"lindley-{about['version']}.desktop").write_text("\n".join(lines) + "\n", "utf-8")
    return f"the menu of programs, 'lindley {about['version']}'; or {quoted(command)} app"


def command_file(about: dict[str, Any], command: Path) -> str:
    """A file that starts the app when it is double clicked in Finder."""
    path = Path.home() / "Applications" / f"lindley {about['version']}.command"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexec {shlex.quote(str(command))} app\n", "utf-8")
    path.chmod(0o755)
    return f"double click '{path}'"


if __name__ == "__main__":
    sys.exit(main())
