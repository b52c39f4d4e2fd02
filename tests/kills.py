"""Kill -9 at random moments: ``python tests/kills.py 100 fit plan coverage synthesize``.

A kill is one process that began or went on with a command and was killed somewhere on its way,
from its first moment to its last. After each one the files are looked at: outputs are not there or
whole, and parts of a checkpoint that were there before are there still, bit for bit. Then the
command is given again, with ``--resume`` where a fit's checkpoint is. What is done in the end must
be as if nothing had been killed: one entry in the ledger, certified, and the same bits where a seed
decides them. Processes are forks of one that has imported everything and computed nothing: else
most kills would fall into the seconds in which Python starts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import noisewise as nw
import noisewise.coverage
import noisewise.fitting
import noisewise.report
import noisewise.synthetic
from noisewise.cli import app
from noisewise.engine import checkpoints
from people import make_frame, make_schema

ROWS = 3000
COMMON = ("--target", "visited", "--epsilon", "1", "--features", "age")
PLAN = ("plan", "people.toml", "--rows", str(ROWS), "--steps", "300", *COMMON)
COMMANDS: dict[str, tuple[str, ...]] = {
    "fit": (
        *("fit", "people.csv", "--schema", "people.toml", "--plan", "given.toml", *COMMON),
        *("--covariate-share", "0", "--ledger", "people.db", "-o", "out"),
    ),
    "plan": (*PLAN, "--fits", "4", "--recalibrate", "8", "-o", "out.toml"),
    "coverage": (
        *("coverage", "people.toml", "--rows", str(ROWS), "--simulations", "40", *COMMON),
        *("--plan", "given.toml", "--folder", "groups", "-o", "out.html"),
    ),
    "synthesize": ("synthesize", "result", "--copies", "40", "--seed", "5", "-o", "out"),
}


def command(folder: Path, words: tuple[str, ...]) -> int:
    """The process id of a fork that runs this command there."""
    child = os.fork()
    if child:
        return child
    code = 9
    try:
        os.chdir(folder)
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        checkpoints.PARTS = 100
        sys.argv = ["noisewise", *words]
        app()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def finished(folder: Path, words: tuple[str, ...], seconds: float | None) -> int | None:
    """Its exit code; None if it was killed after so many seconds."""
    child, start = command(folder, words), time.monotonic()
    while seconds is None or time.monotonic() - start < seconds:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def make_inputs(folder: Path) -> None:
    """In a process of its own: nothing is compiled in the one that forks."""
    import pandas as pd

    schema = make_schema()
    pd.DataFrame(make_frame()).to_csv(folder / "people.csv", index=False)
    (folder / "people.toml").write_text(schema.to_toml())
    nw.Ledger.create(folder / "people.db", nw.Budget(epsilon=1.0, delta=1e-6))
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    about = {"schema": schema, "rows": ROWS, "budget": budget, "target": "visited"}
    nw.plan("logistic", **about, features=["age"], steps=300, fits=0).save(folder / "given.toml")
    columns = tuple(schema[name] for name in ("sex", "visits"))
    cells = {name: make_frame()[name] for name in ("sex", "visits")}
    table = nw.Table(cells, nw.Schema(columns))
    nw.fit("mixture", table, target="visits", budget=budget, steps=100).save(folder / "result")


def copy_of(inputs: Path, name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=inputs.parent))
    return Path(shutil.copytree(inputs, folder, dirs_exist_ok=True))


def digests(folder: Path, pattern: str) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob(pattern)
    }


class Watch:
    """What may never happen to a folder between two kills."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.kept = name, folder, {}

    def look(self) -> None:
        """After a kill: whole or not there, and nothing that was kept is lost or changed."""
        pattern = {"fit": "out.checkpoint/part-*", "coverage": "groups/group-*"}.get(self.name)
        there = digests(self.folder, pattern) if pattern else {}
        done = self.name == "fit" and (self.folder / "out").exists()
        assert done or self.kept.items() <= there.items(), "what was kept was changed or lost"
        self.kept = there
        if self.name == "fit" and done:
            assert nw.Result.load(self.folder / "out").verify().holds
        if self.name == "plan" and (self.folder / "out.toml").exists():
            nw.Plan.load(self.folder / "out.toml")
        if self.name == "synthesize" and (self.folder / "out").exists():
            assert len(nw.SyntheticTables.load(self.folder / "out")) == 40

    def words(self) -> tuple[str, ...] | None:
        """What a person would type next; None where there is nothing left to do."""
        words = COMMANDS[self.name]
        if self.name == "fit" and (self.folder / "out").exists():
            return None
        if self.name == "synthesize" and (self.folder / "out").exists():
            return None
        if (self.folder / "out.checkpoint").exists():
            return (*words, "--resume")
        return words


def check_fit(folder: Path, _: Path) -> None:
    """One fit was spent, and nothing of it twice."""
    result = nw.Result.load(folder / "out")
    (entry,) = nw.Ledger(folder / "people.db").account().entries
    assert entry.releases == result.privacy.releases
    assert entry.certificate == result.privacy
    assert result.verify().holds and result.trace["ends"][-1] == 300


def check_plan(folder: Path, whole: Path) -> None:
    assert (folder / "out.toml").read_bytes() == (whole / "out.toml").read_bytes()


def check_coverage(folder: Path, whole: Path) -> None:
    """The same fits, whatever groups they were done in."""
    assert (folder / "out.html").read_text().startswith("<!")
    fits = [every_fit(place / "groups") for place in (folder, whole)]
    assert all(np.array_equal(fits[0][n], fits[1][n], equal_nan=n != "status") for n in fits[0])


def every_fit(folder: Path) -> dict[str, np.ndarray]:
    groups = [dict(np.load(path)) for path in sorted(folder.glob("group-*.npz"))]
    whole = {name: np.concatenate([group[name] for group in groups]) for name in groups[0]}
    assert sorted(whole["numbers"]) == list(range(40))
    return {name: values[np.argsort(whole["numbers"])] for name, values in whole.items()}


def check_synthesize(folder: Path, whole: Path) -> None:
    found, wanted = (digests(place / "out", "table-*") for place in (folder, whole))
    assert len(found) == 40 and found == wanted


CHECKS: dict[str, Callable[[Path, Path], None]] = {
    "fit": check_fit,
    "plan": check_plan,
    "coverage": check_coverage,
    "synthesize": check_synthesize,
}


def kill_often(name: str, kills: int, inputs: Path, rng: np.random.Generator) -> str:
    """So many kills of one command; in words what came of it."""
    whole = copy_of(inputs, name)
    for _ in range(2):  # the first one compiles what the others find in the cache
        shutil.rmtree(whole)
        whole, start = copy_of(inputs, name), time.monotonic()
        code = finished(whole, COMMANDS[name], None)
        assert code == 0, (whole / "log.txt").read_text()
    seconds = time.monotonic() - start
    done = resumed = 0
    while done < kills:
        folder = copy_of(inputs, name)
        watch, mine = Watch(name, folder), 0
        while (words := watch.words()) is not None:
            # A third are let through, so that there are ends to be looked at.
            patience = rng.uniform(0, seconds) if rng.random() < 0.67 and done < kills else None
            resumed += "--resume" in words
            code = finished(folder, words, patience)
            if code is None:
                done, mine = done + 1, mine + 1
            else:
                assert code == 0, (folder / "log.txt").read_text()
            watch.look()
            if code == 0:
                break
        CHECKS[name](folder, whole)
        shutil.rmtree(folder)
    return (
        f"{name}: {done} kills within {seconds:.1f} s, {resumed} runs with --resume, all as if none"
    )


def main(kills: int, names: list[str], seed: int = 0) -> None:
    """All of it, in a folder that is gone afterwards."""
    warnings.filterwarnings("ignore", message=r".*os\.fork\(\).*")
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{place}/jax"
        import jax

        jax.config.update("jax_compilation_cache_dir", f"{place}/jax")
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        inputs = Path(place) / "inputs"
        inputs.mkdir()
        child = os.fork()
        if not child:
            make_inputs(inputs)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for name in names or list(COMMANDS):
            words = kill_often(name, kills, inputs, np.random.default_rng(seed))
            sys.stdout.write(f"{words}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
