"""Groups of simulated fits: run here or elsewhere, kept on disk as they finish."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._files import check_writable, read_arrays, read_json, whole_file
from noisewise._validate import NoisewiseError
from noisewise.coverage.given_covariates import given_covariates_simulator
from noisewise.dpsep import SepSettings, sep_design
from noisewise.dpvi import Settings
from noisewise.mechanism import Budget, Release
from noisewise.models import BoundModel, RowView
from noisewise.models.fingerprint import model_digest
from noisewise.models.ready_made import capabilities_of
from noisewise.planning import Plan
from noisewise.trials import (
    SimulatedFits,
    Simulator,
    sep_simulator,
    simulator,
    stressed_columns,
)

_FIELDS = SimulatedFits._fields
_RUN = "run.json"
_STALE = 3600.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """Everything that decides a fit's outcome, ready to be sent to another process."""

    model: Callable[..., Any]
    view: RowView
    share_noise: float
    settings: Settings | SepSettings
    plan: Plan | None
    """Made anew for stressed tables, as a fit makes it anew for the covariates it buys."""
    stress: str | None
    """One of `trials.STRESSES`; covariates are then bought. None is as the schema declares."""
    covariate_share: float | None
    rows: int
    budget: Budget
    others: tuple[Release, ...]
    posterior: str | None
    draws: int
    seed: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def fingerprint(self) -> str:
        """Changes with anything that changes the fits, but not with how they are grouped."""
        sample, encoder = self.view.sample or {}, self.view.encoder
        said = {
            "model": model_digest(self.model),
            "schema": self.view.schema.fingerprint(),
            "arguments": self.view.arguments,
            "encoding": None if encoder is None else [self.view.targets, *encoder.describe()],
            "sample": [(n, hashlib.sha256(a.tobytes()).hexdigest()) for n, a in sample.items()],
            "settings": self.settings.to_dict(),
            "share_noise": self.share_noise,
            "stress": None if self.stress is None else [self.stress, self.covariate_share],
            "rows": self.rows,
            "budget": repr(self.budget),
            "posterior": self.posterior,
            "draws": self.draws,
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]

    def simulator(self) -> Simulator:
        """The design, ready to be tried in this process."""
        known = _READY.get(self.token)
        if known is None:
            known = self._simulator()
            _READY.clear()  # one run at a time
            _READY[self.token] = known
        return known

    def _simulator(self) -> Simulator:
        capabilities = capabilities_of(self.model)
        bound = BoundModel(self.model, self.view, capabilities, self.share_noise)
        settings, posterior = self.settings, self.posterior
        if self.stress is not None:
            rng = np.random.default_rng([self.seed, 29])
            return given_covariates_simulator(
                bound,
                stressed_columns(self.view.schema, self.stress, rng, self.rows),
                self.budget,
                seed=self.seed,
                plan=self.plan,
                share=self.covariate_share,
                posterior=posterior,
            )
        if isinstance(settings, SepSettings):
            design = sep_design(bound, settings=settings)
            return sep_simulator(bound, design, self.rows, self.budget, self.others)
        return simulator(bound, settings, self.rows, self.budget, self.others, posterior=posterior)


_READY: dict[str, Simulator] = {}
"""This process's simulator, by its run's token: groups arrive with copies of the same `Spec`."""


def run_group(spec: Spec, numbers: Sequence[int]) -> tuple[list[int], SimulatedFits]:
    """The fits of these numbers; the same wherever and in whatever company they run."""
    return list(numbers), spec.simulator().run(numbers, draws=spec.draws, seed=spec.seed)


class Groups:
    """Finished fits by number, in memory and, if there is a folder, on disk.

    A run that was killed finds its finished groups again and goes on with the rest.
    """

    def __init__(self, spec: Spec, folder: Path | None) -> None:
        self._folder = folder
        self._parts: list[tuple[list[int], SimulatedFits]] = []
        if folder is not None:
            self._open(folder, spec.fingerprint())

    def _open(self, folder: Path, fingerprint: str) -> None:
        head = folder / _RUN
        check_writable(head)
        if head.exists():
            if read_json(head, "run").get("fingerprint") != fingerprint:
                raise NoisewiseError(
                    f"{folder} holds another run's groups: choose a new folder, or the same model, "
                    "schema, budget, plan, seed and number of draws to go on with it"
                )
        elif folder.is_dir() and any(folder.iterdir()):
            raise NoisewiseError(f"{folder} is not empty: choose a new folder for this run")
        else:
            with whole_file(head) as scratch:
                scratch.write_text(json.dumps({"fingerprint": fingerprint}))
        for path in sorted(folder.glob("group-*.npz")):
            self._parts.append(_read_group(path))
        for left in folder.glob(".group-*"):  # by a run that was killed while it wrote
            if time.time() - left.stat().st_mtime > _STALE:
                left.unlink(missing_ok=True)

    def done(self) -> set[int]:
        """Numbers of the fits that are there."""
        return {number for numbers, _ in self._parts for number in numbers}

    def add(self, numbers: list[int], fits: SimulatedFits) -> None:
        """Keep a finished group; on disk it appears whole or not at all."""
        self._parts.append((numbers, fits))
        if self._folder is None:
            return
        with (
            whole_file(self._folder / f"group-{numbers[0]:07d}.npz") as scratch,
            scratch.open("wb") as file,
        ):
            np.savez(file, numbers=np.array(numbers), **fits._asdict())

    def collect(self, count: int) -> SimulatedFits:
        """The first ``count`` fits in order of their numbers."""
        every = np.concatenate([part for part, _ in self._parts])
        # Two runs in one folder may both have made a fit: it counts once.
        numbers, order = np.unique(every, return_index=True)
        order = order[numbers < count]
        columns = zip(*(fits for _, fits in self._parts), strict=True)
        return SimulatedFits(*(np.concatenate(column)[order] for column in columns))


def _read_group(path: Path) -> tuple[list[int], SimulatedFits]:
    """A finished group from its file, if that is what it is."""
    found = read_arrays(path)
    numbers = found.pop("numbers", np.empty(0))
    whole = numbers.dtype.kind == "i" and numbers.ndim == 1 and len(numbers) and min(numbers) >= 0
    if set(found) != set(_FIELDS) or not whole:
        raise NoisewiseError(f"{path} holds no group of fits: delete it, and they are done again")
    if any(
        array.shape[:1] != numbers.shape or array.dtype.kind not in "fU" for array in found.values()
    ):
        raise NoisewiseError(f"{path} is damaged: delete it, and its fits are done again")
    return numbers.tolist(), SimulatedFits(**found)


def split(numbers: Sequence[int], size: int) -> Iterator[list[int]]:
    """Groups of at most ``size``."""
    for first in range(0, len(numbers), size):
        yield list(numbers[first : first + size])
