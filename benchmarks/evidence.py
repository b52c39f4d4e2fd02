"""Everything that a page quotes, from one commit: ``make evidence`` and ``make evidence-small``.

    python -m benchmarks.evidence [--small] [--only NAME ...] [--data DIR] [--list]

Each step is one command of this repository. What it printed goes to `evidence/whole/NAME.txt` (or
`small/`), and beside it, as JSON, the command, commit, device, versions and time. Steps that were
done on the same code (the same trees of `src` and `benchmarks`, nothing uncommitted in either) are
not done again, so a run may be cut off and begun again. The site reads these files where it says
```{evidence}```: nothing is copied by hand.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.results import ROOT, environment

FOLDER = ROOT / "evidence"
CODE = ("src", "benchmarks")


class Step(NamedTuple):
    """One command, whole and small. `{data}` is the folder of real tables, `{out}` an empty one."""

    whole: str
    small: str


def _study(name: str, whole: str, small: str) -> Step:
    command = f"noisewise study {name} --output {{out}} "
    return Step(whole=command + whole, small=command + small)


_REAL = "benchmarks.real_covariates --data {data} "
_ALL_REAL = "--tables adult-six adult rand covid fair anes cells "
STEPS = {
    "coverage": Step(
        whole="benchmarks.coverage --simulations 4000",
        small="benchmarks.coverage --simulations 100 --only beta",
    ),
    "real-covariates": Step(
        whole=_REAL + _ALL_REAL + "--models logistic poisson linear student --epsilons 1 0.3 "
        "--covariates bought public --fits 500 --group 16",
        small=_REAL + "--tables rand --covariates bought public --fits 32 --group 16",
    ),
    "hierarchical": Step(
        whole="benchmarks.hierarchical --fits 500",
        small="benchmarks.hierarchical --priors halfnormal --forms centred --fits 32",
    ),
    "dp-sep-coverage": Step(
        whole="benchmarks.sep_coverage --fits 2000 --network-fits 64",
        small="benchmarks.sep_coverage --fits 64 --network-fits 0",
    ),
    "aligned": Step(
        whole="benchmarks.aligned_coverage --fits 2000",
        small="benchmarks.aligned_coverage --fits 40 --steps 1000",
    ),
    "mixture-shares": Step(
        whole="benchmarks.mixture_shares --before",
        small="benchmarks.mixture_shares --tables 5",
    ),
    "bought-spreads": Step(
        whole="benchmarks.bought_spreads --data {data}",
        small="benchmarks.bought_spreads --data {data} --epsilons 1",
    ),
    "families": Step(
        whole="benchmarks.families --simulations 1000 --steps 4000",
        small="benchmarks.families --simulations 16 --only poisson,weibull",
    ),
    "wrong-model": Step(
        whole="benchmarks.wrong_model --data {data} --models poisson logistic --fits 200 --real",
        small="benchmarks.wrong_model --data {data} --fits 4",
    ),
    "units": Step(
        whole="benchmarks.units --fits 1000",
        small="benchmarks.units --fits 20",
    ),
    "checks": Step(
        whole="benchmarks.checks --fits 1000",
        small="benchmarks.checks --fits 20",
    ),
    "many-rows": Step(
        whole="benchmarks.many_rows --folder {out} --rows 1000000 100000000",
        small="benchmarks.many_rows --folder {out} --rows 1000000",
    ),
    "warm-start": Step(
        whole="benchmarks.warm_start",
        small="benchmarks.warm_start --rounds 1",
    ),
    "figure1": _study("figure1", "", ""),
    "table1": _study("table1", "", "--fits 10"),
    "table2": _study("table2", "", "--fits 4"),
    "table3": _study("table3", "--data {data}/adult", "--fits 1 --data {data}/adult"),
    "adult": _study("adult", "--data {data}/adult", "--fits 1 --epochs 50 --data {data}/adult"),
    "full-rank": _study("full-rank", "", "--fits 2 --epochs 10"),
    "data-sharing": _study(
        "data-sharing",
        "--data {data}/israel-covid-tests",
        "--fits 2 --epochs 5 --parts starts",
    ),
    "sep-mixture": _study("sep-mixture", "", "--fits 2"),
    "sep-regression": _study(
        "sep-regression",
        "--data {data}",
        "--fits 1 --methods sep,dp-sep,line,private-line --data {data}",
    ),
    "sep-clipping": _study("sep-clipping", "--data {data}", "--fits 1 --data {data}"),
    "sampling": Step(whole="benchmarks.sampling", small="benchmarks.sampling"),
    "plan-time": Step(whole="benchmarks.plan_time", small="benchmarks.plan_time"),
    "speed": Step(whole="benchmarks", small="benchmarks --quick"),
}


def main() -> None:
    """Run what is not there yet, and say what failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__)
    parser.add_argument("--small", action="store_true", help="half an hour on two cores")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), metavar="NAME")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--list", action="store_true", help="say what is there, run nothing")
    given = parser.parse_args()
    folder = FOLDER / ("small" if given.small else "whole")
    folder.mkdir(parents=True, exist_ok=True)
    code = code_now()
    failed = []
    for name in given.only:
        done = is_done(folder, name, code)
        print(f"{name}: {'done' if done else 'to do'}", flush=True)
        if not done and not given.list and not run(name, given.small, given.data, folder, code):
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; their messages stand in {folder}")


def code_now() -> dict[str, Any]:
    """The commit, the trees of what figures depend on, and whether they are as committed."""
    return {
        "commit": _git("rev-parse", "--short=10", "HEAD"),
        "trees": [_git("rev-parse", f"HEAD:{part}") for part in CODE],
        "uncommitted": bool(_git("status", "--porcelain", "--", *CODE)),
    }


def is_done(folder: Path, name: str, code: dict[str, Any]) -> bool:
    """Whether this step ended well on the code as it is now."""
    path = folder / f"{name}.json"
    if code["uncommitted"] or not path.exists():
        return False
    kept = json.loads(path.read_text())
    return not kept["uncommitted"] and kept["trees"] == code["trees"] and kept["exit"] == 0


def run(name: str, small: bool, data: Path, folder: Path, code: dict[str, Any]) -> bool:
    """One step in a process of its own; its output, its figures and what made them are kept."""
    command = STEPS[name].small if small else STEPS[name].whole
    if "{data}" in command and not data.is_dir():
        print(f"SKIPPED {name}: no tables at {data}; name their folder by --data", flush=True)
        return True
    with tempfile.TemporaryDirectory() as out:
        words = shlex.split(command.format(data=data, out=out))
        module = ["noisewise", *words[1:]] if words[0] == "noisewise" else words
        before, begun = _processor_seconds(), time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", *module], cwd=ROOT, capture_output=True, text=True, check=False
        )
        seconds, processor = time.monotonic() - begun, _processor_seconds() - before
        for figure in Path(out).rglob("*.png"):
            shutil.copy(figure, folder / f"{name}-{figure.name}")
    text = done.stdout if done.returncode == 0 else done.stdout + done.stderr
    (folder / f"{name}.txt").write_text(text.replace(f"{data}", "DIR").replace(out, "OUT"))
    shown = command.format(data="DIR", out="OUT")
    made = code | {
        "command": shown if shown.startswith("noisewise") else f"python -m {shown}",
        "exit": done.returncode,
        "machine": environment(),
        "seconds": round(seconds),
        "processor_seconds": round(processor),
        "day": time.strftime("%Y-%m-%d"),
    }
    (folder / f"{name}.json").write_text(json.dumps(made, indent=2) + "\n")
    print(f"  {made['processor_seconds']} s of processor, exit {done.returncode}", flush=True)
    return done.returncode == 0


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
