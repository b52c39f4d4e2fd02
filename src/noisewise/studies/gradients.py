"""Fig. 1: noisy gradients of one fit of M1 against its iterates, and the line that models them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noisewise.dpvi import assemble, run_secure
from noisewise.mechanism import Budget, Mechanism
from noisewise.models import build_target
from noisewise.posterior import FitContext, infer
from noisewise.studies.catalogue import Column, Study
from noisewise.studies.experiments import AUTHORS_NOISE, DELTA, EXPERIMENTS, ROWS

__all__ = ["GradientsResult", "run_gradients"]

_RATE = 4.0
"""The truth of the made-up table: the prior's mean."""
_COORDINATE = 0


@dataclass(frozen=True, eq=False)
class GradientsResult:
    """Iterates and gradients of the mean, and the fitted line kappa A (phi - phi*)."""

    study: Study
    parameters: np.ndarray
    gradients: np.ndarray
    optimum: float
    optimum_sd: float
    slope: float
    """kappa A."""
    about: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; the trace itself is in the figure."""
        return {
            "study": self.study.name,
            "optimum": self.optimum,
            "optimum_sd": self.optimum_sd,
            "slope": self.slope,
            "least_squares_slope": self.least_squares_slope,
            "about": self.about,
        }

    @property
    def least_squares_slope(self) -> float:
        """Of gradients on iterates, without a prior: the line should agree with it."""
        return float(np.polyfit(self.parameters, self.gradients, 1)[0])

    def to_markdown(self) -> str:
        """One line: where the line crosses zero, and how steep it is."""
        return (
            f"### {self.study.title}\n\nOptimum {self.optimum:.3f} ± {self.optimum_sd:.3f} in the "
            f"unconstrained space, slope κA = {self.slope:.0f} (least squares "
            f"{self.least_squares_slope:.0f}), ε = {self.about['epsilon']:g}."
        )

    def save(self, folder: Path) -> list[Path]:
        """``figure1.json``, ``figure1.md`` and ``figure1.png`` in the folder."""
        from noisewise.studies.figures import draw_gradients

        folder.mkdir(parents=True, exist_ok=True)
        data, text, picture = (folder / f"{self.study.name}.{end}" for end in ("json", "md", "png"))
        data.write_text(json.dumps(self.to_dict(), indent=1) + "\n")
        text.write_text(self.to_markdown() + "\n")
        draw_gradients(self, picture)
        return [data, text, picture]


def run_gradients(study: Study, column: Column, draws: int, seed: int) -> GradientsResult:
    """One fit of a made-up table at the authors' settings, every step kept."""
    assert column.experiment is not None  # Fig. 1 is of a simulated model
    experiment = EXPERIMENTS[column.experiment]
    rng = np.random.default_rng(seed)
    rows = {"x": rng.exponential(1 / _RATE, ROWS).astype(np.float32)}
    target = build_target(experiment.model, {"x": rows["x"][:4]})
    settings = experiment.authors_settings()
    noise = AUTHORS_NOISE.get(column.epsilon)
    mechanism = Mechanism(
        clip_norm=settings.clip_norm,
        sampling_rate=settings.sampling_rate,
        steps=settings.steps,
        noise_multiplier=noise,
    )
    if noise is None:
        mechanism = mechanism.calibrate(Budget(epsilon=column.epsilon, delta=DELTA))
    ready = assemble(settings, target, mechanism, ROWS, ROWS)
    trace = run_secure(
        ready.program,
        ready.setting,
        target.prepare(rows, ready.frame),
        ROWS,
        ready.initial,
        ready.schedule,
        insecure_seed=seed,
        keep_steps=True,
    )
    outcome = infer("exact", trace, FitContext.of(ready, settings), draws, rng)
    assert trace.full is not None  # it was asked for
    first = int(settings.burn_in * settings.steps)
    about = {"epsilon": column.epsilon, "draws": draws, "seed": seed, "true_rate": _RATE}
    return GradientsResult(
        study,
        np.asarray(trace.full.parameters, float)[first:, _COORDINATE],
        np.asarray(trace.full.gradients, float)[first:, _COORDINATE],
        float(outcome.draws[:, _COORDINATE].mean()),
        float(outcome.draws[:, _COORDINATE].std()),
        float(settings.sampling_rate * np.atleast_1d(outcome.curvature)[_COORDINATE]),
        about,
    )
