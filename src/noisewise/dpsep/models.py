"""Ready-made regressions as DP-SEP fits them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import Rows
from noisewise.dpsep.glm import GlmSite, LogisticSite, ProbitSite, RegressionSite
from noisewise.dpsep.phases import Phase
from noisewise.dpsep.presets import glm_phases
from noisewise.dpsep.settings import SepSettings
from noisewise.models import BoundModel, Glm

_SIMULATED = 2000


@dataclass(frozen=True)
class SepRegression:
    """A regression's site, and the way to its coordinates and back.

    Targets of a linear model are shifted and scaled so that the coefficients' prior is standard
    normal.
    """

    site: GlmSite
    centre: float = 0.0
    scale: float = 1.0

    def rows(self, rows: Rows) -> Rows:
        """Records as the site takes them."""
        if not self.site.extras:
            return rows
        return rows | {"y": ((rows["y"] - self.centre) / self.scale).astype(np.float32)}

    def latents(self, theta: np.ndarray, noise_sds: np.ndarray) -> dict[str, np.ndarray]:
        """The model's latents from draws of the site's coordinates and of the target's noise sd."""
        coefficients = theta * self.scale
        coefficients[:, 0] += self.centre
        noise = {"noise": noise_sds * self.scale} if self.site.extras else {}
        return {"coefficients": coefficients} | noise


class SepDesign(NamedTuple):
    """How DP-SEP will fit a regression: nothing of it from rows."""

    regression: SepRegression
    phases: tuple[Phase[GlmSite], ...]
    initial: np.ndarray
    covariates: np.ndarray
    """Simulated, records x columns: what the posterior imagines records to be like."""


def sep_design(
    bound: BoundModel, steps: int | None = None, settings: SepSettings | None = None
) -> SepDesign:
    """Bounds from simulated covariates, unless there are ``settings`` already.

    Args:
        bound: The regression; its capabilities name a site.
        steps: Of the fit; None is the usual number.
        settings: Those of a plan, with its bounds.
    """
    refuse_weights(bound)
    bound.require_rows("method='dp-sep'")
    simulated = bound.view.simulate(np.random.default_rng(0), _SIMULATED)["X"]
    width = simulated.shape[1]
    assert isinstance(bound.model, Glm)  # the models whose capabilities name a site
    regression = _regression(bound.model, width)
    more = {} if steps is None else {"steps": steps}
    phases = glm_phases(regression.site, simulated, **more)
    if settings is not None:
        phases = (Phase(phases[-1].site, settings),)
    return SepDesign(regression, phases, np.zeros(width), np.asarray(simulated, np.float32))


def refuse_weights(bound: BoundModel) -> None:
    """Sites are of records that count once.

    Args:
        bound: The model.
    """
    if bound.view.integrating:
        raise NoisewiseError(
            f"method='dp-sep' integrates no gaps out, as column '{bound.view.integrating[0]}' "
            "asks for: declare how = 'indicator', or use method='dpvi'"
        )
    weight = bound.view.schema.weight
    if weight is not None:
        raise NoisewiseError(
            f"method='dp-sep' takes no survey weights, which column '{weight.name}' holds: use "
            "method='dpvi'"
        )


def _regression(model: Glm, width: int) -> SepRegression:
    if model.family == "linear":
        site = RegressionSite(width, 1.0, model.noise_scale / model.prior_scale)
        (centre,) = np.atleast_1d(model.centre)
        return SepRegression(site, float(centre), model.prior_scale)
    kind = {"logistic": LogisticSite, "probit": ProbitSite}[model.family]
    return SepRegression(kind(width, model.prior_scale))
