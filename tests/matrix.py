"""`make matrix`: builds the wheel and tries it where users will install it.

Python 3.11, 3.12 and 3.13, each in an environment with nothing else, with the newest dependencies
that pip finds; and 3.11 with the lowest that pyproject.toml allows. Each runs `tests/smoke.py`.
Prints what was installed, for docs/releasing.md; ends with 1 if any failed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TOLD = ("jax", "numpyro", "numpy", "scipy", "dp-accounting", "pandas", "pyarrow", "matplotlib")


class Place(NamedTuple):
    """One environment: a Python, and which end of the allowed dependencies."""

    python: str
    lowest: bool


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pythons", default="3.11,3.12,3.13", help="which ones, by commas")
    asked = parser.parse_args()
    pythons = asked.pythons.split(",")
    places = [Place(python=python, lowest=False) for python in pythons]
    places.append(Place(python=pythons[0], lowest=True))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build(Path(scratch))
        for place in places:
            rows.append(attempt(place, wheel, Path(scratch)))
            print(rows[-1], flush=True)
    print("\n| Python | dependencies | " + " | ".join(TOLD) + " | minutes | outcome |")
    print("| --- " * (len(TOLD) + 4) + "|")
    print("\n".join(rows))
    sys.exit(any("fine" not in row for row in rows))


def build(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(scratch)]
    subprocess.run([*command, str(ROOT)], check=True)
    return next(scratch.glob("noisewise-*.whl"))


def attempt(place: Place, wheel: Path, scratch: Path) -> str:
    """One line of the table: what was installed, and whether the smoke test passed."""
    begun = time.monotonic()
    home = scratch / f"{place.python}-{place.lowest}"
    subprocess.run([interpreter(place.python), "-m", "venv", str(home)], check=True)
    python = str(home / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    if place.lowest:
        bounds = scratch / "lowest.txt"
        bounds.write_text("\n".join(lowest()))
        install += ["-c", str(bounds)]
    outcome, versions = "not installed", [""] * len(TOLD)
    if subprocess.run(install, check=False).returncode == 0:
        versions = [version(python, name) for name in TOLD]
        smoke = shutil.copy(ROOT / "tests" / "smoke.py", scratch)
        done = subprocess.run([python, "-I", smoke], cwd=scratch, check=False)
        outcome = "fine" if done.returncode == 0 else "failed"
    minutes = f"{(time.monotonic() - begun) / 60:.1f}"
    end = "lowest" if place.lowest else "newest"
    return "| " + " | ".join([place.python, end, *versions, minutes, outcome]) + " |"


def interpreter(version: str) -> str:
    """Where that Python is: on the path, or among pyenv's."""
    found = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    path = str(found[-1]) if found else shutil.which(f"python{version}")
    if path is None:
        sys.exit(f"Python {version} is not installed: install it, or name others by --pythons")
    return path


def lowest() -> list[str]:
    """Each dependency at the least version that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = (re.match(r"([\w.-]+)[^>]*>=([\w.]+)", line) for line in project["dependencies"])
    return [f"{match[1]}=={match[2]}" for match in found if match]


def version(python: str, name: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({name!r}))"
    return subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
