"""What a coverage run found: arrays, and what can be read from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._pages import Shown, write_page_about
from noisewise.evaluation import (
    PredictiveCalibration,
    Scores,
    Verdict,
    coverage_rmse,
    draw_references,
    judge,
    marginal_shares,
    rmse_floor,
    sbc_ranks,
    score,
    tarp_shares,
)
from noisewise.trials import SimulatedFits


@dataclass(frozen=True, eq=False)
class Coverage(Shown):
    """K simulated fits beside their truths, in the model's unconstrained space."""

    truth: np.ndarray
    """Fits x coordinates."""
    draws: np.ndarray
    """Fits x draws x coordinates: the noise-aware posteriors."""
    noise_unaware_mean: np.ndarray
    noise_unaware_sd: np.ndarray
    """Of the posteriors that ignore the noise."""
    status: np.ndarray
    labels: tuple[str, ...]
    single_release_sd: np.ndarray
    """What one optimal Gaussian release of the same budget would allow."""
    about: dict[str, Any] = field(default_factory=dict)
    """Model, rows, budget, seed, settings: what was run."""
    predictive: PredictiveCalibration | None = None
    """Calibration of predictions for new records, where they are yes or no."""
    stressed: dict[str, Coverage] = field(default_factory=dict)
    """The same for tables that are unlike what the schema suggests, by what is unlike."""

    @classmethod
    def of(
        cls,
        fits: SimulatedFits,
        labels: tuple[str, ...],
        single_release_sd: np.ndarray,
        about: dict[str, Any],
    ) -> Coverage:
        """From simulated fits.

        Args:
            fits: Draws and truths of every simulated table.
            labels: Names of the parameters.
            single_release_sd: Error of the best single Gaussian release of the same budget, by
                parameter.
            about: Settings of the run, for the page.
        """
        return cls(
            truth=fits.truth,
            draws=fits.draws,
            noise_unaware_mean=fits.noise_unaware_mean,
            noise_unaware_sd=fits.noise_unaware_sd,
            status=fits.status,
            labels=labels,
            single_release_sd=single_release_sd,
            about=about,
        )

    def stress_table(self) -> dict[str, dict[str, str]]:
        """A line for each kind of table: as declared, and stressed."""
        found = {}
        for name, one in ({"as the schema declares": self} | self.stressed).items():
            low, high = np.quantile(one.draws, (0.025, 0.975), axis=1)
            inside = np.mean((low <= one.truth) & (one.truth <= high), axis=0)
            z_sd = one.scores.z_sd
            found[name] = {
                "hold": f"{inside.mean():.3f}",
                "worst": f"{inside.min():.2f}",
                "z sd": f"{z_sd.min():.2f} to {z_sd.max():.2f}",
                "not ok": str(int((one.status != "OK").sum())),
                "fits": str(len(one.truth)),
            }
        return found

    @cached_property
    def scores(self) -> Scores:
        """z-scores, errors and reported sds."""
        return score(self.truth, self.draws)

    @cached_property
    def noise_unaware_z_sd(self) -> np.ndarray:
        """Sd of z-scores where the noise is ignored: how many times too narrow intervals are."""
        with np.errstate(all="ignore"):
            return np.nanstd((self.noise_unaware_mean - self.truth) / self.noise_unaware_sd, axis=0)

    def _references(self, count: int = 1) -> np.ndarray:
        """TARP's reference points around the last iterates, which depend on the data."""
        rng = np.random.default_rng([self.about.get("seed", 0), count])
        centre = np.nan_to_num(self.noise_unaware_mean)
        return draw_references(centre, np.nan_to_num(self.draws.std(1), nan=1.0), rng)

    @cached_property
    def shares(self) -> np.ndarray:
        """TARP over all coordinates together, one number a fit."""
        return tarp_shares(self.truth, self.draws, self._references())

    @cached_property
    def marginal(self) -> np.ndarray:
        """TARP coordinate by coordinate."""
        return marginal_shares(self.truth, self.draws, self._references(2))

    @cached_property
    def ranks(self) -> np.ndarray:
        """Simulation-based calibration's ranks of the truths among the draws."""
        return sbc_ranks(self.truth, self.draws)

    @property
    def rmse(self) -> float:
        """Root mean square distance of the joint coverage curve from the diagonal."""
        return float(coverage_rmse(self.shares))

    @property
    def floor(self) -> float:
        """What a perfect posterior would show of it with as many simulations."""
        return rmse_floor(len(self.truth))

    @cached_property
    def verdict(self) -> Verdict:
        """The answer in words."""
        return judge(self.scores, self.shares, self.labels, baseline=self.single_release_sd)

    def table(self) -> list[dict[str, Any]]:
        """One row a coordinate: what to print."""
        scores, marginal = self.scores, np.atleast_1d(coverage_rmse(self.marginal))
        return [
            {
                "parameter": name,
                "z_mean": float(scores.z_mean[i]),
                "z_sd": float(scores.z_sd[i]),
                "coverage_rmse": float(marginal[i]),
                "error": float(scores.error[i]),
                "reported_sd": float(scores.reported[i]),
                "single_release_sd": float(self.single_release_sd[i]),
                "noise_unaware_z_sd": float(self.noise_unaware_z_sd[i]),
            }
            for i, name in enumerate(self.labels)
        ]

    def report(self, path: str | Path) -> Path:
        """Write one HTML page with the figures.

        Args:
            path: Of the page.
        """
        return write_page_about(self, path)
