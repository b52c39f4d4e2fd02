"""Noise-aware DPVI: Tables 1 to 3 and Fig. 1, with what the paper printed."""

from typing import Any

from noisewise.evaluation import LEVELS
from noisewise.studies.core.adult import ADULT_FILES
from noisewise.studies.core.study import Column, Printed
from noisewise.studies.core.table import Axes, Table, table_parts
from noisewise.studies.na_dpvi import calibration, coverage
from noisewise.studies.na_dpvi.experiments import EXPERIMENTS
from noisewise.studies.na_dpvi.gradients import Gradients, run_fit


def _column(epsilon: float, model: str, **paper: Printed) -> Column:
    named = {name.replace("_", "-"): figure for name, figure in paper.items()}
    # One printed row for what computes the same posterior: exact and NUTS, and both Gibbs samplers.
    same = {"exact": "nuts", "plain-gibbs": "bernstein-sheldon"}
    more = {ours: named[theirs] for ours, theirs in same.items() if theirs in named}
    found = EXPERIMENTS.get(model)
    return Column(
        epsilon=epsilon,
        model=model,
        name=found.name if found else "UCI Adult",
        coordinates=found.labels if found else (),
        paper={**more, **named},
    )


_COVERAGE: dict[str, Any] = {
    "run": coverage.run_cells,
    "parts": table_parts,
    "levels": LEVELS,
    "axes": Axes("credible level", "coverage", "coverage error"),
    "chance": True,
    "methods": ("exact", "laplace", "naive", "bernstein-sheldon", "dpvim", "planned"),
    "more_methods": ("nuts", "plain-gibbs"),
    "fits": 500,
}

STUDIES = (
    Table(
        name="table1",
        title="Table 1 and Fig. 2: coverage of three exponential families",
        columns=tuple(
            _column(0.1, model, nuts=nuts, bernstein_sheldon=rival, naive=naive, dpvim=dpvim)
            for model, (nuts, rival, naive, dpvim) in {
                "gamma-exponential": (
                    *((0.023, 0.008), (0.034, 0.011), (0.232, 0.003), (0.038, 0.005)),
                ),
                "beta-bernoulli": (
                    *((0.016, 0.006), (0.018, 0.006), (0.273, 0.007), (0.044, 0.004)),
                ),
                "dirichlet-categorical": (
                    *((0.020, 0.004), (0.017, 0.007), (0.355, 0.009), (0.251, 0.011)),
                ),
            }.items()
        ),
        **_COVERAGE,
    ),
    Table(
        name="table2",
        title="Table 2 and Fig. 3: coverage of a 10-D linear regression",
        columns=tuple(
            _column(
                epsilon,
                "regression",
                nuts=nuts,
                laplace=laplace,
                naive=naive,
                bernstein_sheldon=rival,
                dpvim=(0.584, 0.0),
            )
            for epsilon, nuts, laplace, naive, rival in (
                (0.1, (0.036, 0.011), (0.078, 0.011), (0.512, 0.003), (0.301, 0.001)),
                (0.3, (0.035, 0.011), (0.098, 0.006), (0.307, 0.003), (0.299, 0.001)),
                (1.0, (0.027, 0.009), (0.060, 0.007), (0.360, 0.003), (0.323, 0.003)),
            )
        ),
        **_COVERAGE,
    ),
    Table(
        name="table3",
        title="Table 3 and Fig. 4: calibration of a logistic regression on UCI Adult",
        run=calibration.run_cells,
        parts=table_parts,
        levels=calibration.GRID,
        axes=Axes("predicted probability", "share of positives", "calibration error"),
        needs_data=ADULT_FILES,
        columns=tuple(
            _column(epsilon, "adult", nuts=nuts, laplace=laplace, naive=naive, dpvim=dpvim)
            for epsilon, nuts, laplace, naive, dpvim in (
                (0.1, (0.061, 0.031), (0.084, 0.043), (0.120, 0.065), (0.101, 0.052)),
                (0.3, (0.026, 0.005), (0.044, 0.011), (0.067, 0.024), (0.065, 0.025)),
                (1.0, (0.024, 0.007), (0.046, 0.014), (0.054, 0.017), (0.038, 0.014)),
            )
        ),
        methods=("exact", "laplace", "naive", "dpvim", "planned"),
        more_methods=("nuts",),
        fits=20,
    ),
    Gradients(
        name="figure1",
        title="Fig. 1: the linear model of the gradients on M1",
        run=run_fit,
        columns=(_column(1.0, "gamma-exponential"),),
        methods=("exact",),
        fits=1,
        least_fits=1,
    ),
)
