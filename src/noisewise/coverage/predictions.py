"""Predictions for new records: do probabilities come true as often as they say?"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import Rows
from noisewise.evaluation import PredictiveCalibration, predictive_calibration
from noisewise.models import RowView, Target
from noisewise.trials import SimulatedFits

_DRAWS = 100


def predict_new_records(
    target: Target, view: RowView, fits: SimulatedFits, rows: int, seed: int
) -> PredictiveCalibration:
    """Draw ``rows`` new records a fit from its truth and compare with the posterior's prediction.

    For models with one observed argument of yes or no; the posterior predictive probability is the
    mean over draws of the likelihood of a yes.
    """
    target = target.rows  # predictions are for single records, whoever they are about
    outcome = check_yes_or_no(target, view)
    key = jax.random.PRNGKey(seed)
    probabilities, outcomes = [], []
    for k, (truth, draws) in enumerate(zip(fits.truth, fits.draws, strict=True)):
        if not np.isfinite(draws).all():
            continue
        simulated = view.simulate_rows(np.random.default_rng([seed, k, 1]), rows)
        records = target.simulate(jax.random.fold_in(key, k), jnp.asarray(truth), simulated)
        found = np.asarray(records[outcome])
        some = jnp.asarray(draws[:: max(1, len(draws) // _DRAWS)])
        probabilities.append(np.asarray(_probability_of_yes(target, outcome, some, records)))
        outcomes.append(found)
    if not outcomes:
        raise NoisewiseError("every simulated fit failed: there is no prediction to check")
    return predictive_calibration(np.concatenate(probabilities), np.concatenate(outcomes))


def check_yes_or_no(target: Target, view: RowView) -> str:
    """The model's one observed argument; refused where it takes other values than 0 and 1."""
    observed = [argument for argument, _ in target.layout.observed_arguments]
    if len(observed) != 1:
        raise NoisewiseError("test_rows needs a model with one observed argument: leave it at 0")
    key = jax.random.PRNGKey(0)
    target = target.rows
    simulated = view.simulate_rows(np.random.default_rng(0), 200)
    records = target.simulate(key, target.sample_prior(key, 1)[0], simulated)
    if not np.isin(np.asarray(records[observed[0]]), (0, 1)).all():
        raise NoisewiseError(
            f"test_rows needs yes-or-no outcomes, the model's {observed[0]} are not: leave it at 0"
        )
    return observed[0]


@partial(jax.jit, static_argnums=(0, 1))
def _probability_of_yes(target: Target, outcome: str, draws: Array, records: Rows) -> Array:
    yes = {**records, outcome: jnp.ones_like(records[outcome])}

    def one(theta: Array) -> Array:
        return jnp.exp(jax.vmap(target.log_likelihood, (None, 0))(theta, yes))

    return jax.vmap(one)(draws).mean(0)
