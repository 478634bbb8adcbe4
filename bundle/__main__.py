"""Make a bundle, or try one: python -m bundle [--platform …] [--python …] [--prove]. See `bundle`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bundle.collect import build_own, collect, read_pins
from bundle.pack import fill, name_of, write_zip
from bundle.proof import install_and_work, resolve
from bundle.target import PYTHONS, SYSTEMS, Problem, Target, this_machine

ROOT = Path(__file__).parents[1]
EXTRAS = ["app", "signing"]
"""The extras of lindley that a laboratory gets. The entry of the start menu is made where app is among them."""


def main(given: list[str] | None = None) -> int:
    """Make the bundle, and return 0 if it stands."""
    platform, python = this_machine()
    parser = argparse.ArgumentParser(
        prog="python -m bundle", description="Make what is carried to a machine without a network."
    )
    parser.add_argument("--platform", default=platform, help=f"{', '.join(SYSTEMS)}; default: {platform}, this machine")
    parser.add_argument(
        "--python", default=python, help=f"{' or '.join(PYTHONS)}; default: {python}, the one that runs this"
    )
    parser.add_argument(
        "--extras", default=",".join(EXTRAS), help="extras of lindley, with commas; default: %(default)s"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder to write to; default: dist")
    parser.add_argument(
        "--prove", action="store_true", help="then install it without a network, and evaluate a case (on Linux)"
    )
    options = parser.parse_args(given)
    try:
        target = Target(options.platform, options.python)
        extras = sorted(filter(None, options.extras.split(",")))
        archive = make(target, extras, options.out)
        if options.prove:
            if (options.platform, options.python) != (platform, python):
                print(f"It is not installed: that can be tried on {target.platform} with Python {target.python} only.")
            else:
                print("Without a network:", install_and_work(archive))
    except Problem as problem:
        print(f"No bundle: {problem}", file=sys.stderr)
        return 1
    return 0


def make(target: Target, extras: list[str], out: Path) -> Path:
    """Make the folder and the zip file, and return the latter. They replace older ones only once they are whole."""
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".making-") as making:
        wheelhouse = Path(making) / "wheels"
        wheelhouse.mkdir()
        own = build_own(ROOT, wheelhouse, ROOT / "constraints.txt")
        print(f"{name_of(own, target)}: fetching wheels …", flush=True)
        wheels = list(collect(own, extras, wheelhouse, target, read_pins(ROOT / "constraints.txt")).values())
        folder = Path(making) / name_of(own, target)
        folder.mkdir()
        wheelhouse.rename(folder / "wheels")
        wheels = [type(wheel).read(folder / "wheels" / wheel.path.name) for wheel in wheels]
        without = fill(folder, own, wheels, extras, target)
        found = resolve(folder, target)
        archive = folder.with_name(folder.name + ".zip")
        checksum = write_zip(folder, archive)
        for made in (folder, archive, archive.with_name(archive.name + ".sha256")):
            place = out / made.name
            if place.is_dir():
                shutil.rmtree(place)
            made.replace(place)
    archive = out / archive.name
    print(f"pip finds all {found} packages in it without an index.")
    if without:
        print(f"No licence text is in the wheels of {', '.join(without)}: licences/INDEX.txt says so.")
    print(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB, made in {time.monotonic() - began:.0f} s")
    print(f"SHA-256 {checksum}")
    return archive


if __name__ == "__main__":
    sys.exit(main())
