"""The audit: attack every mechanism, with real randomness, and say what was found."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from noisewise._hosts import Hosts
from noisewise._validate import NoisewiseError, Progress, integer_at_least, shown
from noisewise.audit.attacked import Attacked, Setup, algorithms
from noisewise.audit.bounds import lower_bounds
from noisewise.audit.canaries import Game, Played, needed_steps, play
from noisewise.audit.low_bits import LowBits, in_single_precision, read_low_bits
from noisewise.audit.neighbours import Neighbours, compare_neighbours
from noisewise.audit.purchases import attack_counts, attack_sums
from noisewise.audit.result import Attack, Audit
from noisewise.engine import Devices
from noisewise.mechanism import Budget, calibrate, refuse_double_precision
from noisewise.mechanism.budget import ADJACENCIES
from noisewise.mechanism.certificate import software_versions

FALSE_ALARM = 1e-5
BOUGHT_SUMS, BOUGHT_COUNTS = "bought sums", "bought number of rows"
_GAMES = ((1.0, 1), (0.5, 8))
"""Sampling rate and steps: everybody once, where the accounting is exact; and by coins."""
_SIZES, _MORE_SIZES = (31, 819), (1, 31, 819, 4095)
_SUM_UNIT = np.float64(2.0**-20)
"""`release_sum`'s grid at sensitivity one."""


def audit(
    *,
    budget: Budget | None = None,
    mechanisms: Sequence[str] | None = None,
    trials: int = 300_000,
    progress: Progress | None = None,
    devices: int | str | None = None,
) -> Audit:
    """Attack noisewise's own mechanism, with the build and on the machine at hand.

    Nothing is read: all records are simulated. Randomness is real, so no two audits are alike; a
    correct build is convicted once in 100,000.

    Args:
        budget: What mechanisms are calibrated for, and held to; epsilon 1 at delta 1e-6 by default.
            Both adjacencies are attacked, whichever it names.
        mechanisms: Their names or how these begin, such as ``"DPVI"``, ``"DP-SEP, probit"``,
            ``"DP-EM"`` or ``"bought"``; all by default.
        trials: With a canary, and about as many without, of every attack. At epsilon 1, 300,000
            show at least 0.8 of it.
        progress: Called with parts done and their number.
        devices: How many devices of this host share the records, as `fit` takes it.
    """
    begun = time.monotonic()
    integer_at_least("trials", trials, 1000)
    refuse_double_precision()
    budget = Budget(epsilon=1.0, delta=1e-6) if budget is None else budget
    chosen = _chosen(mechanisms)
    alpha = FALSE_ALARM / sum(len(ADJACENCIES) * len(_GAMES) + 1 for _ in chosen)
    findings = _Findings(budget, trials, alpha, Devices.chosen(devices, Hosts()))
    for number, part in enumerate(chosen):
        if progress is not None:
            progress(number, len(chosen))
        part.attack(findings)
    if progress is not None:
        progress(len(chosen), len(chosen))
    return Audit(
        budget=budget,
        attacks=tuple(findings.attacks),
        low_bits=tuple(findings.low_bits),
        neighbours=tuple(findings.neighbours),
        false_alarm=FALSE_ALARM,
        about={
            **software_versions(),
            "device": jax.devices()[0].device_kind,
            **({} if findings.devices is None else {"devices": findings.devices.words}),
            "machine": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "seconds": round(time.monotonic() - begun, 1),
        },
    )


class _Part(NamedTuple):
    name: str
    attack: Callable[[_Findings], None]


def _chosen(wanted: Sequence[str] | None) -> list[_Part]:
    every = [
        _Part(one.name, partial(_Findings.attack_algorithm, attacked=one)) for one in algorithms()
    ]
    every += [
        _Part(BOUGHT_SUMS, _Findings.attack_sums),
        _Part(BOUGHT_COUNTS, _Findings.attack_counts),
    ]
    if wanted is None:
        return every
    for name in wanted:
        if not any(part.name.startswith(name) for part in every):
            names = "; ".join(part.name for part in every)
            raise NoisewiseError(f"no mechanism begins with {shown(name)}: choose among {names}")
    return [part for part in every if part.name.startswith(tuple(wanted))]


@dataclass(frozen=True)
class _Findings:
    """What was found so far."""

    budget: Budget
    trials: int
    alpha: float
    """Of one statistical statement: an attack by canaries, or one on low bits."""
    devices: Devices | None = None
    attacks: list[Attack] = field(default_factory=list)
    low_bits: list[LowBits] = field(default_factory=list)
    neighbours: list[Neighbours] = field(default_factory=list)

    def _budgets(self) -> list[Budget]:
        return [replace(self.budget, adjacency=adjacency) for adjacency in ADJACENCIES]

    def attack_algorithm(self, attacked: Attacked) -> None:
        """Canaries, everybody once and by coins; their low bits; sums of neighbours."""
        released = attacked.released
        for rate, steps in _GAMES:
            for budget in self._budgets():
                noise = calibrate(budget, rate, steps)
                game = Game(noise, rate, steps, budget.adjacency == "replace-one")
                total = needed_steps(game, released, self.trials)
                run = attacked.assemble(Setup(total, rate, noise, released))
                played = play(run, game, self.devices)
                self._judge(attacked.name, budget, game, played)
                if (rate, budget.adjacency) == (1.0, "add-remove"):
                    unit = in_single_precision(run.numbers.grid)
                    self._read(attacked.name, played, unit)
        sizes = _MORE_SIZES if attacked.name == "DPVI, means_only" else _SIZES
        self.neighbours.append(compare_neighbours(attacked, sizes, self.devices))

    def attack_sums(self) -> None:
        """Sums over all rows, each a release of its own."""
        for budget in self._budgets():
            game, played = attack_sums(budget, self.trials)
            self._judge(BOUGHT_SUMS, budget, game, played)
        self._read(BOUGHT_SUMS, played, _SUM_UNIT)

    def attack_counts(self) -> None:
        """The number of rows; it is public under replace-one. Slower, so there are fewer trials."""
        budget = self._budgets()[0]
        game, played = attack_counts(budget, max(1000, self.trials // 2))
        self._judge(BOUGHT_COUNTS, budget, game, played)

    def _judge(self, name: str, budget: Budget, game: Game, played: Played) -> None:
        found = lower_bounds(played.absent, played.present, game.scale, budget.delta, self.alpha)
        self.attacks.append(
            Attack(
                name=name,
                adjacency=budget.adjacency,
                sampling_rate=game.sampling_rate,
                steps=game.steps,
                noise_multiplier=game.noise_multiplier,
                trials=len(played.present),
                bounds=found,
            )
        )

    def _read(self, name: str, played: Played, unit: Any) -> None:
        found = read_low_bits(name, played.silence, played.speech, unit, self.alpha)
        self.low_bits.append(found)
