"""NA-DPVI Fig. 1: noisy gradients of one fit of M1 against its iterates, and the line that models
them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisewise.posterior import FitContext, infer
from noisewise.studies.core.figures import new_figure, place_legend
from noisewise.studies.core.study import Options, Outcome, Part, Study, StudyResult
from noisewise.studies.na_dpvi.experiments import AUTHORS_NOISE, DELTA, EXPERIMENTS, ROWS
from noisewise.trials import fit_with_steps, noise_multipliers, target_for

_RATE = 4.0
"""The truth of the simulated table: the prior's mean."""
_COORDINATE = 0
_DOTS = 2000
_BINS = 8


class _Line(NamedTuple):
    """Iterates and gradients of the mean, and the fitted line kappa A (phi - phi*)."""

    parameters: np.ndarray
    gradients: np.ndarray
    optimum: float
    optimum_sd: float
    slope: float
    """kappa A."""

    @property
    def least_squares_slope(self) -> float:
        """Of gradients on iterates, without a prior: the line should agree with it."""
        return float(np.polyfit(self.parameters, self.gradients, 1)[0])


def run_fit(part: Part, options: Options, prepared: Any) -> _Line:
    """One fit of a simulated table at the authors' settings, every step kept."""
    (column,) = options.columns[:1]
    experiment = EXPERIMENTS[column.model]
    rng = np.random.default_rng(options.seed)
    rows = {"x": rng.exponential(1 / _RATE, ROWS).astype(np.float32)}
    settings = experiment.authors_settings()
    noise = AUTHORS_NOISE.get(column.epsilon)
    if noise is None:
        wanted = [(column.epsilon, settings.steps)]
        (noise,) = noise_multipliers(settings.sampling_rate, wanted, DELTA).values()
    target = target_for(experiment.model, rows)
    trace, run = fit_with_steps(target, rows, settings, noise, options.seed)
    outcome = infer("exact", trace, FitContext.of(run, settings), options.draws, rng)
    assert trace.full is not None  # it was asked for
    first = int(settings.burn_in * settings.steps)
    return _Line(
        parameters=np.asarray(trace.full.parameters, float)[first:, _COORDINATE],
        gradients=np.asarray(trace.full.gradients, float)[first:, _COORDINATE],
        optimum=float(outcome.draws[:, _COORDINATE].mean()),
        optimum_sd=float(outcome.draws[:, _COORDINATE].std()),
        slope=float(settings.sampling_rate * np.atleast_1d(outcome.curvature)[_COORDINATE]),
    )


@dataclass(frozen=True, kw_only=True)
class Gradients(Study):
    """A study of a single fit."""

    def result(
        self, options: Options, outcomes: dict[Part, Outcome], about: dict[str, Any]
    ) -> GradientsResult:
        """The fit's line."""
        (outcome,) = outcomes.values()
        chosen = {"epsilon": options.epsilons[0], **options.named("draws", "seed")}
        return GradientsResult(self, {**chosen, "true_rate": _RATE}, outcome.found)


@dataclass(frozen=True, eq=False)
class GradientsResult(StudyResult):
    """The line that was found, with what the run was."""

    line: _Line

    def figures(self) -> dict[str, Any]:
        """The line; the trace itself is in the figure."""
        names = ("optimum", "optimum_sd", "slope", "least_squares_slope")
        return {name: getattr(self.line, name) for name in names}

    def sections(self) -> list[str]:
        """One line: where the line crosses zero, and how steep it is."""
        line = self.line
        return [
            f"Optimum {line.optimum:.3f} ± {line.optimum_sd:.3f} in the unconstrained space, slope "
            f"κA = {line.slope:.0f} (least squares {line.least_squares_slope:.0f}), "
            f"ε = {self.about['epsilon']:g}."
        ]

    def draw(self, path: Path) -> None:
        """A thinned cloud of noisy gradients over the iterates, and the line; beside it means of
        bins, for in the cloud a slope so much smaller than the noise can hardly be seen."""
        line = self.line
        figure = new_figure(10, 4.2)
        cloud, means = figure.subplots(1, 2, sharex=True)
        step = max(1, len(line.parameters) // _DOTS)
        dots = (line.parameters[::step], line.gradients[::step])
        cloud.plot(*dots, ".", color="#56b4e9", ms=3, alpha=0.6, label="noisy gradients")
        bins = np.array_split(np.argsort(line.parameters), _BINS)
        centres = [line.parameters[chosen].mean() for chosen in bins]
        heights = [line.gradients[chosen].mean() for chosen in bins]
        errors = [2 * line.gradients[chosen].std() / len(chosen) ** 0.5 for chosen in bins]
        look = {"fmt": "o", "color": "#0072b2", "label": "means of bins, ± 2 s.e."}
        means.errorbar(centres, heights, errors, **look)
        ends = np.array([line.parameters.min(), line.parameters.max()])
        handles: dict[str, Any] = {}
        for axes in (cloud, means):
            modelled = line.slope * (ends - line.optimum)
            axes.plot(ends, modelled, color="black", lw=2, label="κA (φ − φ*)")
            axes.axvline(line.optimum, color="#d55e00", lw=1.5, label="φ*, posterior mean")
            axes.set_xlabel("φ, mean of the guide")
            drawn, names = axes.get_legend_handles_labels()
            handles |= dict(zip(names, drawn, strict=True))
        cloud.set_ylabel("released gradient")
        place_legend(figure, handles, columns=4)
        figure.savefig(path, dpi=110)
