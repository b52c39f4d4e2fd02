"""The DP-SEP paper's regressions with a Bayesian neural network (DP-SEP sec. 6.2, Tables 3 to
5): every method on every table of a folder, over given splits."""

from __future__ import annotations

from typing import NamedTuple

from noisewise._validate import NoisewiseError
from noisewise.dpsep import network_phases, phase_mechanisms
from noisewise.mechanism import Budget
from noisewise.studies.claims import lies_beyond, reaches
from noisewise.studies.network_fits import PRIVATE, Scores, fit_splits
from noisewise.studies.regression_tables import (
    RegressionTable,
    Split,
    private_split,
    read_tables,
    standardised_split,
)
from noisewise.studies.rules import (
    Claim,
    Comparison,
    Line,
    Options,
    Panel,
    Part,
    Place,
    Printed,
    label,
)

__all__ = ["SEP_REGRESSION", "Prepared", "measured", "prepare", "split_scores"]

_DELTA = 1e-5
_GOALS: dict[Place, float] = {"kin8nm": 0.13, "naval": 0.0065, "wine": 0.65}
_RMSE: dict[str, dict[Place, Printed]] = {
    "vi": {"naval": (0.005, 0.0005), "kin8nm": (0.099, 0.0009), "wine": (0.646, 0.0081)},
    "ep": {"naval": (0.003, 0.0002), "kin8nm": (0.088, 0.0044), "wine": (0.614, 0.0382)},
    "sep": {"naval": (0.002, 0.0001), "kin8nm": (0.089, 0.0042), "wine": (0.623, 0.0436)},
    "clipped-sep": {"naval": (0.002, 0.0002), "kin8nm": (0.078, 0.0033), "wine": (0.627, 0.0411)},
    "dp-sep": {"naval": (0.002, 0.0003), "kin8nm": (0.078, 0.0022), "wine": (0.627, 0.0362)},
    "dp-vi": {"naval": (0.010, 0.0016), "kin8nm": (0.098, 0.0085), "wine": (0.734, 0.0510)},
    "point": {"naval": (0.001, 0.0001), "kin8nm": (0.091, 0.0015), "wine": (0.645, 0.0098)},
}
"""Tables 3 and 5: means and sds over ten runs."""
_LOG_LIKELIHOOD: dict[str, dict[Place, Printed]] = {
    "vi": {"naval": (3.734, 0.116), "kin8nm": (0.897, 0.010), "wine": (-0.980, 0.013)},
    "ep": {"naval": (4.164, 0.0556), "kin8nm": (1.007, 0.0486), "wine": (-0.926, 0.0487)},
    "sep": {"naval": (4.609, 0.0531), "kin8nm": (0.999, 0.0479), "wine": (-0.936, 0.0643)},
    "clipped-sep": {"naval": (4.710, 0.0746), "kin8nm": (1.121, 0.0332), "wine": (-0.938, 0.0581)},
    "dp-sep": {"naval": (4.686, 0.1053), "kin8nm": (1.125, 0.0212), "wine": (-0.938, 0.0486)},
    "dp-vi": {"naval": (3.253, 0.1248), "kin8nm": (0.928, 0.0446), "wine": (-1.213, 0.0831)},
}
"""Table 4."""


class Prepared(NamedTuple):
    """Tables, and noise multipliers by epsilon."""

    tables: dict[str, RegressionTable]
    noise: dict[float, float]


def prepare(options: Options) -> Prepared:
    """Read every table, and search for the noise that goes with the scaling's releases."""
    assert options.folder is not None  # the runner checks it
    tables = read_tables(options.folder)
    for table in tables.values():
        if len(table.train) < options.fits:
            raise NoisewiseError(
                f"table {table.name} has {len(table.train)} splits, {options.fits} were asked for: "
                f"--fits {len(table.train)} at most"
            )
    some = next(iter(tables.values()))
    noise = {}
    for epsilon in options.epsilons:
        budget = Budget(epsilon=epsilon, delta=_DELTA)
        # What is bought for the scaling, and the schedule, are the same for every table.
        bought = private_split(some, 0, budget, options.seed).releases
        phases = network_phases(some.X.shape[1], epochs=options.epochs)
        noise[epsilon] = phase_mechanisms(phases, budget, bought)[0].multiplier
    return Prepared(tables, noise)


def split_scores(
    method: str,
    table: RegressionTable,
    epsilon: float,
    options: Options,
    prepared: Prepared,
    factors: tuple[float, ...] = (1.0,),
) -> list[Scores]:
    """A method on the first splits of a table, as many as were asked for."""
    budget = Budget(epsilon=epsilon, delta=_DELTA)
    splits: list[Split] = [
        private_split(table, number, budget, options.seed + number)
        if method in PRIVATE
        else standardised_split(table, number)
        for number in range(options.fits)
    ]
    noise = prepared.noise[epsilon]
    return fit_splits(method, splits, options.epochs, budget, noise, options.seed, factors)


def _parts(options: Options) -> list[Part]:
    assert options.folder is not None  # the runner checks it
    tables = read_tables(options.folder)
    return [Part(method, table) for table in tables for method in options.rules]


def _run(part: Part, options: Options, prepared: Prepared) -> list[Line]:
    table = prepared.tables[part.variant]
    epsilons = options.epsilons if part.rule in PRIVATE else options.epsilons[:1]
    lines = []
    for epsilon in epsilons:
        (scores,) = split_scores(part.rule, table, epsilon, options, prepared)
        # The paper's budget needs no mention.
        named = part.rule not in PRIVATE or epsilon == 1
        name = part.rule if named else f"{part.rule}, ε = {epsilon:g}"
        lines += measured(name, table.name, scores)
    return lines


def measured(name: str, place: Place, scores: Scores) -> list[Line]:
    """Lines of both panels."""
    return [
        Line("rmse", name, (place,), scores.rmse[None]),
        Line("log-likelihood", name, (place,), scores.log_likelihood[None]),
    ]


SEP_REGRESSION = Comparison(
    panels=(
        Panel("rmse", "Tables 3 and 5: test RMSE", "table", "RMSE", log_y=True, paper=_RMSE),
        Panel(
            "log-likelihood",
            "Table 4: test log-likelihood",
            "table",
            "log-likelihood",
            paper=_LOG_LIKELIHOOD,
        ),
    ),
    parts=_parts,
    prepare=prepare,
    run=_run,
    claims=(
        *(
            Claim(
                f"goal: DP-SEP's RMSE on {place} is at most {goal:g} at ε = 1",
                reaches("rmse", "dp-sep", {place: goal}),
            )
            for place, goal in _GOALS.items()
        ),
        Claim(
            "goal: DP-SEP's RMSE is below private linear regression's on every table",
            lies_beyond("rmse", "dp-sep", ("private-line",)),
        ),
        Claim(
            "paper: DP-SEP's RMSE is below DP-VI's on every table",
            lies_beyond("rmse", "dp-sep", ("dp-vi",)),
        ),
        Claim(
            "paper: DP-SEP's log-likelihood is above DP-VI's on every table",
            lies_beyond("log-likelihood", "dp-sep", ("dp-vi",), larger=True),
        ),
        *(
            Claim(
                f"paper: {label(method)}'s RMSE is below VI's on every table",
                lies_beyond("rmse", method, ("vi",)),
            )
            for method in ("ep", "sep", "clipped-sep")
        ),
    ),
    notes=(
        "δ = 1e-5; 50 hidden units, in private networks at most one for every 100 rows times ε; "
        "figures in brackets are the paper's, means and sds over ten runs of their own splits.",
        "Private methods see inputs and target scaled by declared bounds, then by second moments "
        "bought from the same budget; non-private ones are standardised by their "
        "training rows, as in the paper.",
        "Settings of private methods were chosen on made-up regressions, the same for every table.",
        "Clipped SEP has DP-SEP's clip norms and no noise.",
    ),
    repeats="splits",
    least_fits=1,
    needs_data="a folder of regression tables (data.txt, index_train.txt, ...)",
)
