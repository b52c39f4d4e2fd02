"""Run by tests in processes of their own, as devices and hosts are chosen before JAX starts.

`python sharing.py TASK ADDRESS INDEX/COUNT [ARGUMENTS]`: which of so many hosts this is; of one
host, nobody is joined. How many devices it has, `XLA_FLAGS` says. Prints what it found as JSON, on
the last line.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

import jax
import numpy as np

import noisewise as nw
from engine.algorithms import Case, Design, cases
from engine.watching import alone, secure, silent, watched
from noisewise._hosts import Hosts
from noisewise.data import PrivateRows
from noisewise.engine import Devices, Run, public_count, run_secure
from noisewise.mechanism import Grid, Mechanism, release_sum
from people import make_frame, make_schema

_ASKED = re.search(r"device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
DEVICES = int(_ASKED[1]) if _ASKED else 1
SEED = 5


def same(one: object, other: object) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def shared(run: Run, rows: dict, seed: int | None, number: int) -> tuple:
    """Every release, and the state at the end, on so many devices of every host."""
    hosts = Hosts.joined()
    private = PrivateRows(rows)
    if hosts.several:
        private = private.part(hosts.index, hosts.count)
    devices = Devices.chosen(number, hosts)
    found = run_secure(run, private, insecure_seed=seed, devices=devices)
    return jax.device_get((found.kept, found.state))


def identity(*names: str) -> dict:
    """Whether every release and the last state are those of one device."""
    found = {}
    for name in names:
        case = cases()[name]
        run = watched(case, moves=True)
        with mock.patch.object(Hosts, "joined", Hosts):  # this host alone
            one = run_secure(run, PrivateRows(case.rows), insecure_seed=SEED)
        at_once = shared(run, case.rows, SEED, DEVICES)
        found[name] = same((one.kept, jax.device_get(one.state)), at_once)
    return found


def noise(name: str) -> dict:
    """How many times the noise is in a release: as it is, and by mutants that add it everywhere or
    nowhere."""
    case = cases()[name]
    rows = silent(case.rows)
    once = secure(watched(case, moveless=True), rows, SEED).released
    grid = watched(case).numbers.grid
    found = {}
    for label, index in (("as it is", None), ("everywhere", 0), ("nowhere", 1)):
        broken = mock.patch("jax.lax.axis_index", lambda _, index=index: index)
        with broken if index is not None else nullcontext():
            released, _ = shared(watched(case, label=label, moveless=True), rows, SEED, DEVICES)
        steps = np.rint(np.asarray(released) * (grid.points / grid.clip_norm))
        found[label] = float((steps * once).sum() / (once * once).sum())
    return found


def one_host(name: str) -> dict:
    """`identity` and `noise`."""
    return {"identity": identity(name), "noise": noise(name)}


def sampling(name: str) -> dict:
    """Without a seed, and without noise: in how many steps a record of the first host is drawn, one
    of the last, and both; and the noise of silent records over its scale."""
    case = cases()[name]
    design = Design(steps=2000)
    loud = watched(case, design)
    mute = np.zeros_like(np.asarray(loud.numbers.noise_scale))
    quiet = replace(loud, numbers=loud.numbers._replace(noise_scale=mute))
    places = (0, 7)
    own = [secure_part(quiet, alone(case.rows, place)) for place in places]
    each = [released[released.any(axis=1)][0] for released in own]
    pair = alone(case.rows, places[0])
    for column, source in zip(pair.values(), case.rows.values(), strict=True):
        column[places[1]] = source[places[1]]
    together = secure_part(quiet, pair)
    drawn = [(together == one).all(axis=1) for one in (*each, each[0] + each[1])]
    noises = secure_part(loud, silent(case.rows)) / np.asarray(loud.numbers.noise_scale)
    return {
        "first": int((drawn[0] | drawn[2]).sum()),
        "last": int((drawn[1] | drawn[2]).sum()),
        "both": int(drawn[2].sum()),
        "others": int((together.any(axis=1) & ~np.any(drawn, axis=0)).sum()),
        "squares": float((noises**2).sum()),
        "numbers": noises.size,
    }


def secure_part(run: Run, rows: dict) -> np.ndarray:
    released, _ = shared(run, rows, None, DEVICES)
    grid = run.numbers.grid
    return np.rint(np.asarray(released) * (grid.points / grid.clip_norm)).astype(int)


def fit(folder: str, *words: str) -> dict:
    """A fit by `noisewise.fit`, whose draws go to a file; words change it, or this host's part."""
    place = Path(folder)
    hosts = Hosts.joined()
    options = {"steps": 301 if f"unlike {hosts.index}" in words else 300, "insecure_seed": 1}
    if "dp-sep" in words:
        options |= {"method": "dp-sep", "steps": 100}
    if "checkpoint" in words:
        options |= {"checkpoint": place / "kept", "resume": "resume" in words}
    if f"dies {hosts.index}" in words:

        def die(done: int, _: int) -> None:
            if done >= 150:
                os.kill(os.getpid(), signal.SIGKILL)

        options |= {"progress": die}
    frame = make_frame(seed=int(f"another {hosts.index}" in words))
    schema = make_schema()
    try:
        if "open" in words:
            table = nw.Table.open(place / "data", schema, cache=place / "cache", memory="1GiB")
        else:
            table = nw.Table(frame, schema)
        with table:
            result = nw.fit(
                "logistic",
                table,
                budget=nw.Budget(epsilon=1.0, delta=1e-6),
                target="visited",
                features=["age", "sex"],
                draws=200,
                devices=DEVICES,
                **options,
            )
    except nw.NoisewiseError as error:
        return {"refused": str(error)}
    assert result.privacy.verify().epsilon_recomputed <= 1
    np.savez(place / f"draws-{hosts.index}.npz", **result.draws)
    return {"sources": result.privacy.sources}


def audit(name: str) -> dict:
    """What an audit of a mechanism on all devices shows, as it is and with half of the noise."""
    found = {}
    for label in ("as it is", "with half the noise"):
        half = mock.patch.object(Mechanism, "noise_scale", halved)
        with half if label != "as it is" else nullcontext():
            seen = nw.audit(mechanisms=[name], trials=20_000, devices=DEVICES)
        found[label] = {"convicted": seen.convicted, "about": seen.about["devices"]}
        found[label] |= {"neighbours": all(one.holds for one in seen.neighbours)}
    return found


def halved(self: Mechanism, grid: Grid, dim: int) -> np.ndarray:
    return np.full(dim, 0.5 * self.multiplier * float(grid.points), np.float32)


def guards() -> dict:
    """What is refused where several hosts have joined, and no fit shares the table."""
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    table = nw.Table(make_frame(), make_schema())
    case: Case = cases()["dp-em"]
    actions = {
        "sum": lambda: release_sum(PrivateRows({"x": np.ones((9, 1))}), 1.0, budget, what="x"),
        "count": lambda: public_count(table, budget, None),
        "steps": lambda: run_secure(watched(case), PrivateRows(case.rows)),
    }
    found = {}
    for name, action in actions.items():
        try:
            action()
            found[name] = "released"
        except nw.NoisewiseError as error:
            found[name] = str(error)
    return found


if __name__ == "__main__":
    index, count = map(int, sys.argv[3].split("/"))
    if count > 1:
        nw.join_hosts(sys.argv[2], index, count)
    task = {t.__name__: t for t in (identity, one_host, sampling, fit, audit, guards)}[sys.argv[1]]
    print("\n" + json.dumps(task(*sys.argv[4:])), flush=True)
