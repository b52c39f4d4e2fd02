"""Fits of tables with given covariates, which they know only as far as they buy their shape.

Tables that are simulated from a schema have just the covariates that it suggests, and say nothing
of a fit's purchase. Here covariates are given (real ones, or stressed ones), their shape is bought
with seeded noise as a fit buys it, settings are made from it, and only outcomes are simulated.
"""

from dataclasses import replace

from noisewise.covariates import know_covariates
from noisewise.data import Rows, Table, laid_out, lay_out
from noisewise.mechanism import Budget, count_cost
from noisewise.models import BoundModel
from noisewise.planning import Plan, guess_settings
from noisewise.posterior import sizes_cost, variability_cost, variability_mechanism
from noisewise.trials import Simulator
from noisewise.trials.designs import dpvi_trial


def given_covariates_simulator(
    bound: BoundModel,
    arrays: Rows,
    budget: Budget,
    *,
    seed: int,
    plan: Plan | None = None,
    share: float | None = None,
    posterior: str | None = None,
    steps: int | None = None,
) -> Simulator:
    """DPVI of tables with these covariates; their outcomes are simulated anew for each.

    Args:
        bound: The model; with a public sample nothing is bought.
        arrays: The covariates, and any outcome, as a table's columns; with whose each row is,
            where the schema declares a unit.
        budget: What every fit spends.
        seed: Of the purchase.
        plan: Made anew for the covariates as they turn out to be; None makes a quick one.
        share: Part of the budget that buys the shape; None is the default.
        posterior: How traces are read; None is the default.
        steps: Of a fit without a plan; None is the usual number.
    """
    schema = bound.view.schema
    table = Table.from_arrays(arrays, schema, allow_constant=True)
    rows = table.rows.true_count
    known = know_covariates(bound, table, rows, budget, share=share, insecure_seed=seed)
    first = known.bounds[0]
    if plan is None:
        settings = guess_settings(first, rows, budget, steps)
    else:
        settings = plan.redesigned(first, rows)
    others = (
        *known.releases,
        *sizes_cost(bound, budget, share),
        *variability_cost(bound, budget),
        *count_cost(schema.public_count, budget),
    )
    mechanism = settings.mechanism().calibrate(budget, others)
    variability = variability_mechanism(bound, settings.clip_norm, budget)
    trial = dpvi_trial(first, settings, mechanism, rows, posterior, variability)
    encoded = bound.view.encode(arrays)
    if schema.unit is not None:
        encoded = laid_out(encoded, lay_out(arrays[schema.unit.column], schema.unit, None))
    return Simulator(
        bound, replace(trial, covariates=known.bounds), rows, covariates=lambda rng, n: encoded
    )
