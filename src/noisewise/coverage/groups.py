"""Groups of simulated fits: run here or elsewhere, kept on disk as they finish."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.dpsep import SepSettings, sep_design
from noisewise.dpvi import Settings
from noisewise.mechanism import Budget, Release
from noisewise.models import BoundModel, RowView
from noisewise.models.ready_made import capabilities_of
from noisewise.trials import SimulatedFits, Simulator, sep_simulator, simulator

_FIELDS = SimulatedFits._fields
_RUN = "run.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """Everything that decides a fit's outcome, ready to be sent to another process."""

    model: Callable[..., Any]
    view: RowView
    share_noise: float
    settings: Settings | SepSettings
    rows: int
    budget: Budget
    others: tuple[Release, ...]
    posterior: str | None
    draws: int
    seed: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def fingerprint(self) -> str:
        """Changes with anything that changes the fits, but not with how they are grouped."""
        import cloudpickle

        sample, encoder = self.view.sample or {}, self.view.encoder
        said = {
            "model": hashlib.sha256(cloudpickle.dumps(self.model)).hexdigest(),
            "schema": self.view.schema.fingerprint(),
            "arguments": self.view.arguments,
            "encoding": None if encoder is None else [encoder.target, *encoder.describe()],
            "sample": [(n, hashlib.sha256(a.tobytes()).hexdigest()) for n, a in sample.items()],
            "settings": self.settings.to_dict(),
            "share_noise": self.share_noise,
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
        folder.mkdir(parents=True, exist_ok=True)
        head = folder / _RUN
        if head.exists():
            if json.loads(head.read_text()).get("fingerprint") != fingerprint:
                raise NoisewiseError(
                    f"{folder} holds another run's groups: choose a new folder, or the same model, "
                    "schema, budget, plan, seed and number of draws to go on with it"
                )
        elif any(folder.iterdir()):
            raise NoisewiseError(f"{folder} is not empty: choose a new folder for this run")
        else:
            head.write_text(json.dumps({"fingerprint": fingerprint}))
        for path in sorted(folder.glob("group-*.npz")):
            with np.load(path, allow_pickle=False) as found:
                fits = SimulatedFits(*(found[name] for name in _FIELDS))
                self._parts.append((found["numbers"].tolist(), fits))

    def done(self) -> set[int]:
        """Numbers of the fits that are there."""
        return {number for numbers, _ in self._parts for number in numbers}

    def add(self, numbers: list[int], fits: SimulatedFits) -> None:
        """Keep a finished group; on disk it appears whole or not at all."""
        self._parts.append((numbers, fits))
        if self._folder is None:
            return
        scratch = self._folder / f".part-{numbers[0]}.npz"
        np.savez(scratch, numbers=np.array(numbers), **fits._asdict())
        scratch.replace(self._folder / f"group-{numbers[0]:07d}.npz")

    def collect(self, count: int) -> SimulatedFits:
        """The first ``count`` fits in order of their numbers."""
        numbers = np.concatenate([part for part, _ in self._parts])
        order = np.argsort(numbers, kind="stable")
        order = order[numbers[order] < count]
        columns = zip(*(fits for _, fits in self._parts), strict=True)
        return SimulatedFits(*(np.concatenate(column)[order] for column in columns))


def split(numbers: Sequence[int], size: int) -> Iterator[list[int]]:
    """Groups of at most ``size``."""
    for first in range(0, len(numbers), size):
        yield list(numbers[first : first + size])
