"""Installs lindley from the folder that holds this file: without a network, without administrator rights.

install.cmd (Windows) and install.sh (Linux, macOS) look for the right Python and start this. It checks that the bundle is whole and
unchanged and that this computer is the right one, makes an environment in a folder of its own, lets the pip of the bundle
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

HERE = Path(__file__).resolve().parent
WINDOWS_PATH = 259
"""The longest file name on Windows, where long ones are not switched on."""


class Refused(Exception):
    """Why lindley is not installed, and what to do."""


def main(given=None):
    """Install, and return 0 if that went well."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(prog="install", description="Install lindley from this folder, without a network.")
    parser.add_argument("--folder", help="where to install it (a new folder); default: lindley-VERSION in your home folder")
    parser.add_argument("--check", action="store_true", help="only look whether it would go well")
    options = parser.parse_args(given)
    try:
        about = check_bundle(HERE)
        check_machine(about)
        folder = choose_folder(about, options.folder)
        if options.check:
            print("The bundle is whole, and fits this computer. It would be installed into %s" % folder)
            return 0
        install(about, folder)
    except Refused as reason:
        print("\nlindley is not installed: %s" % reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nlindley is not installed: you stopped it.", file=sys.stderr)
        return 1
    return 0


def check_bundle(bundle):
    """See that every file is there, unchanged, and that there is no wheel too many; return what the bundle is for."""
    again = "What to do: unpack the zip file again, all of it. If that does not help, ask for the zip file again, and compare its checksum."
    try:
        lines = (bundle / "SHA256SUMS").read_text("utf-8").splitlines()
    except OSError:
        raise Refused("the file SHA256SUMS is missing beside install.py. %s" % again) from None
    sums = dict(reversed(line.split("  ", 1)) for line in lines)
    print("Checking %d files ..." % len(sums), flush=True)
    wrong = []
    for name, expected in sums.items():
        path = bundle / name
        if not path.is_file():
            wrong.append("%s is missing" % name)
        elif digest(path) != expected:
            wrong.append("%s was changed" % name)
    present = {"wheels/" + path.name for path in (bundle / "wheels").glob("*")}
    wrong += ["%s does not belong to it" % name for name in sorted(present - set(sums))]
    if wrong:
        shown = wrong[:10] + (["and %d more" % (len(wrong) - 10)] if len(wrong) > 10 else [])
        raise Refused("the bundle is not as it was made:\n  %s\n%s" % ("\n  ".join(shown), again))
    return json.loads((bundle / "bundle.json").read_text("utf-8"))


def digest(path):
    """The SHA-256 of a file."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            state.update(block)
    return state.hexdigest()


def check_machine(about):
    """See that the bundle is for this Python and this system."""
    python = "%d.%d" % sys.version_info[:2]
    if python != about["python"] or sys.implementation.name != "cpython":
        raise Refused(
            "this is %s %s (%s), and the bundle is for Python %s.\nWhat to do: start install.cmd or install.sh with a Python %s "
            "(set the variable PYTHON to its full name), or ask for a bundle for the Python that you have."
            % (platform.python_implementation(), python, sys.executable, about["python"], about["python"])
        )
    here = this_platform()
    if here != about["platform"]:
        names = {"win_amd64": "Windows (64 bit)", "linux_x86_64": "Linux (Intel or AMD, 64 bit)", "macosx_arm64": "macOS (Apple silicon)"}
        more = ""
        if here == "win32":
            more = " This Python is the 32-bit one: install the 64-bit one."
        raise Refused(
            "the bundle is for %s, and this Python is for %s.%s\nWhat to do: ask for a bundle for this computer."
            % (names.get(about["platform"], about["platform"]), names.get(here, here), more)
        )
    libc, version = platform.libc_ver()
    if here.startswith("linux") and (libc != "glibc" or numbers(version) < (2, 28)):
        raise Refused(
            "this Linux has the C library %s %s, and torch, which lindley computes with, needs glibc 2.28 or newer.\n"
            "What to do: use a newer Linux (RHEL 8, Debian 10, Ubuntu 20.04, or newer)." % (libc or "(unknown)", version)
        )
    if here.startswith("macosx") and numbers(platform.mac_ver()[0]) < (14,):
        raise Refused(
            "this is macOS %s, and torch, which lindley computes with, needs macOS 14 or newer.\nWhat to do: use a newer Mac."
            % platform.mac_ver()[0]
        )


def this_platform():
    """The platform of this Python, in the words of the bundle."""
    system = sysconfig.get_platform().replace(".", "_").replace("-", "_")
    if system.startswith("macosx"):
        return "macosx_" + platform.machine()
    return system


def numbers(version):
    """A version as numbers, to compare it."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def choose_folder(about, given):
    """The folder to install into: new, or empty; with room for it."""
    folder = Path(given).expanduser() if given else Path.home() / ("lindley-" + about["version"])
    folder = Path(os.path.abspath(str(folder)))
    other = "What to do: choose another folder, with --folder."
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused("%s is there already, and is not an empty folder.\n%s Or remove it, if it is an old lindley." % (folder, other))
    longest = len(str(folder)) + len(os.sep.join(["", "Lib", "site-packages", ""])) + about["longest_name"]
    if os.name == "nt" and longest > WINDOWS_PATH and not long_names():
        raise Refused(
            "the name of the folder is too long for Windows: files in %s would have names of %d characters, and %d are allowed."
            "\nWhat to do: choose a folder with a shorter name, such as --folder C:\\lindley or --folder D:\\lindley."
            % (folder, longest, WINDOWS_PATH)
        )
    above = next(path for path in [folder, *folder.parents] if path.exists())
    needed = about["installed_bytes"] * 1.3  # what Python compiles comes on top
    free = shutil.disk_usage(str(above)).free
    if free < needed:
        raise Refused(
            "%s has %.1f GB free, and lindley needs %.1f GB.\nWhat to do: make room, or choose a folder on another disk with "
            "--folder." % (above, free / 1e9, needed / 1e9)
        )
    if not os.access(str(above), os.W_OK):
        raise Refused("you may not write into %s.\n%s" % (above, other))
    return folder


def long_names():
    """Whether this Windows allows long file names."""
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Control\FileSystem") as key:
            return winreg.QueryValueEx(key, "LongPathsEnabled")[0] == 1
    except OSError:
        return False


def install(about, folder):
    """Make the environment, install into it, try it, and put it into the menu."""
    made = [path for path in [folder, *folder.parents] if not path.exists()]
    try:
        print("Installing lindley %s into %s ..." % (about["version"], folder), flush=True)
        run([sys.executable, "-m", "venv", "--without-pip", str(folder)], "The folder could not be made an environment of Python.")
        binaries = folder / ("Scripts" if os.name == "nt" else "bin")
        python = binaries / ("python.exe" if os.name == "nt" else "python")
        (pip,) = (HERE / "wheels").glob("pip-*.whl")
        print("This takes a few minutes ...", flush=True)
        run(
            [str(python), "-E", "-s", str(pip / "pip"), "install", "--quiet", "--isolated", "--no-index", "--no-cache-dir"]
            + ["--disable-pip-version-check", "--only-binary=:all:", "--find-links", str(HERE / "wheels")]
            + ["--constraint", str(HERE / "constraints.txt"), about["requirement"], "pip"],
            "pip could not install it.",
        )
        print("Trying it ...", flush=True)
        try_it(about, python)
    except BaseException:
        if made:
            print("Removing what was installed ...", flush=True)
            shutil.rmtree(str(folder), ignore_errors=True)
            for path in made[1:]:
                if path.is_dir() and not any(path.iterdir()):
                    path.rmdir()
        raise
    command = binaries / ("lindley.exe" if os.name == "nt" else "lindley")
    print("\nlindley %s is installed in %s" % (about["version"], folder))
    if about["app"]:
        print("To start it: %s" % menu_entry(about, folder, command))
    print("For its commands, in a terminal: %s --help" % quoted(command))


def try_it(about, python):
    """See that lindley starts and computes."""
    wrong = "It was installed, but does not start."
    if os.name == "nt":
        wrong += (
            " The usual cause is that the Microsoft Visual C++ Redistributable 2015-2022 (x64), which torch needs, is not on this"
            " computer: ask whoever looks after it. Another is a rule that programs below the home folder may not run."
        )
    program = "import torch, lindley; assert torch.ones(2).sum() == 2; print(lindley.__version__)"
    answer = run([str(python), "-E", "-s", "-c", program], wrong).strip()
    if answer != about["version"]:
        raise Refused("it says that it is version %s, and should be %s." % (answer, about["version"]))


def run(command, wrong):
    """Run a program with no setting of the user's that could lead pip elsewhere, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith(("PIP_", "PYTHON"))}
    environment.update(PIP_CONFIG_FILE=os.devnull, PYTHONUTF8="1")
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", env=environment
    )
    if done.returncode:
        said = done.stdout.strip() or "(nothing, and exit status %d)" % done.returncode
        raise Refused("%s What was said:\n\n%s\n" % (wrong, said))
    return done.stdout


def quoted(path):
    """A path as one types it in a terminal."""
    return '"%s"' % path if os.name == "nt" else shlex.quote(str(path))


def menu_entry(about, folder, command):
    """Make the entry of the start menu, and say how the app is started. No entry is no failure."""
    try:
        if os.name == "nt":
            return start_menu(about, command)
        if sys.platform == "darwin":
            return command_file(about, command)
        return desktop_file(about, command)
    except (OSError, Refused) as reason:
        print("There is no entry in the menu: %s" % str(reason).strip())
    if os.name == "nt":
        script = folder / "lindley app.cmd"
        script.write_text('@"%~dp0Scripts\\lindley.exe" app\n', "ascii", newline="\r\n")
        return 'double click "%s"' % script
    return "%s app" % quoted(command)


SHORTCUT = """
$ErrorActionPreference = 'Stop'
$file = Join-Path ([Environment]::GetFolderPath('Programs')) ($env:LINDLEY_NAME + '.lnk')
$link = (New-Object -ComObject WScript.Shell).CreateShortcut($file)
$link.TargetPath = $env:LINDLEY_COMMAND
$link.Arguments = 'app'
$link.WorkingDirectory = $env:USERPROFILE
$link.Description = 'Forensic likelihood ratios'
$link.Save()
if (-not (Test-Path -LiteralPath $file)) { throw 'the shortcut was not written' }
"""


def start_menu(about, command):
    """A shortcut in the user's own start menu. Names travel as variables, so that no character of a path is taken for PowerShell."""
    name = "lindley " + about["version"]
    os.environ.update(LINDLEY_NAME=name, LINDLEY_COMMAND=str(command))
    powershell = Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32/WindowsPowerShell/v1.0/powershell.exe"
    run([str(powershell), "-NoProfile", "-NonInteractive", "-Command", SHORTCUT], "PowerShell could not make it.")
    return "Start menu, '%s'. Closing the black window ends it." % name


def desktop_file(about, command):
    """An entry for the menus of Linux desktops."""
    folder = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "applications"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("lindley-%s.desktop" % about["version"])
    # Quoted as the specification of Exec wants it, and then as any value of the file: a backslash is doubled.
    inside = "".join("\\" + letter if letter in '"`$\\' else letter for letter in str(command)).replace("%", "%%")
    lines = [
        "[Desktop Entry]",
        "Type=Application",
        "Name=lindley " + about["version"],
        "Comment=Forensic likelihood ratios",
        "Exec=" + ('"%s" app' % inside).replace("\\", "\\\\"),
        "Terminal=true",
        "Categories=Science;",
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return "the menu of programs, 'lindley %s'; or %s app" % (about["version"], quoted(command))


def command_file(about, command):
    """A file that starts the app when it is double clicked in Finder."""
    path = Path.home() / "Applications" / ("lindley %s.command" % about["version"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexec %s app\n" % shlex.quote(str(command)), "utf-8")
    path.chmod(0o755)
    return "double click '%s'" % path


if __name__ == "__main__":
    sys.exit(main())
