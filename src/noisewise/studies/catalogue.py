"""The studies: what each runs, and what the paper printed for it. A study is a config."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from noisewise._validate import NoisewiseError

__all__ = ["STUDIES", "Column", "Study"]

Figure = tuple[float, float]
"""A mean and the sd printed with it."""


@dataclass(frozen=True)
class Column:
    """One column of a table: a model at a budget."""

    epsilon: float
    experiment: str | None = None
    """A key of `EXPERIMENTS`; None is the Adult table."""
    paper: dict[str, Figure] = field(default_factory=dict)
    """What the paper printed, by method."""


@dataclass(frozen=True)
class Study:
    """A table (or figure) of the NA-DPVI, the DPVIm or the DP-SEP paper."""

    name: str
    title: str
    kind: str
    """``coverage`` of simulated tables, ``calibration`` on test rows, ``gradients`` (Fig. 1), or
    ``comparison``: gradient rules or other methods, by the comparison of the same name."""
    columns: tuple[Column, ...]
    methods: tuple[str, ...]
    """Those that are run unless others are asked for; gradient rules, where those are compared."""
    more_methods: tuple[str, ...]
    """Those that are run when they are asked for, because they are slow or for comparison."""
    fits: int
    """The paper's number of fits a column."""
    epochs: int | None = None
    """A comparison's length of a fit, the paper's where it has one: each epoch draws every record
    once on average."""

    def at(self, epsilons: tuple[float, ...]) -> Study:
        """The same study at other budgets; the paper's figures stay where they apply."""
        if not epsilons:
            return self
        models = tuple(dict.fromkeys(column.experiment for column in self.columns))
        known = {(column.experiment, column.epsilon): column for column in self.columns}
        columns = tuple(
            known.get((model, epsilon), Column(epsilon, model))
            for model in models
            for epsilon in epsilons
        )
        return replace(self, columns=columns)

    def with_methods(self, methods: tuple[str, ...]) -> Study:
        """The same study with these methods only."""
        if not methods:
            return self
        known = (*self.methods, *self.more_methods)
        for name in methods:
            if name not in known:
                raise NoisewiseError(
                    f"study {self.name} has no method '{name}': choose from {', '.join(known)}"
                )
        return replace(self, methods=methods)


def _column(epsilon: float, experiment: str | None, **paper: Figure) -> Column:
    named = {name.replace("_", "-"): figure for name, figure in paper.items()}
    # One printed row for what computes the same posterior: exact and NUTS, and both Gibbs samplers.
    more = {"exact": named["nuts"]}
    if "bernstein-sheldon" in named:
        more["plain-gibbs"] = named["bernstein-sheldon"]
    return Column(epsilon, experiment, {**more, **named})


_COVERAGE = ("exact", "laplace", "naive", "bernstein-sheldon", "dpvim", "planned")

STUDIES = {
    study.name: study
    for study in (
        Study(
            name="table1",
            title="Table 1 and Fig. 2: coverage of three exponential families",
            kind="coverage",
            columns=(
                _column(
                    0.1,
                    "gamma-exponential",
                    nuts=(0.023, 0.008),
                    bernstein_sheldon=(0.034, 0.011),
                    naive=(0.232, 0.003),
                    dpvim=(0.038, 0.005),
                ),
                _column(
                    0.1,
                    "beta-bernoulli",
                    nuts=(0.016, 0.006),
                    bernstein_sheldon=(0.018, 0.006),
                    naive=(0.273, 0.007),
                    dpvim=(0.044, 0.004),
                ),
                _column(
                    0.1,
                    "dirichlet-categorical",
                    nuts=(0.020, 0.004),
                    bernstein_sheldon=(0.017, 0.007),
                    naive=(0.355, 0.009),
                    dpvim=(0.251, 0.011),
                ),
            ),
            methods=_COVERAGE,
            more_methods=("nuts", "plain-gibbs"),
            fits=500,
        ),
        Study(
            name="table2",
            title="Table 2 and Fig. 3: coverage of a 10-D linear regression",
            kind="coverage",
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
            methods=_COVERAGE,
            more_methods=("nuts", "plain-gibbs"),
            fits=500,
        ),
        Study(
            name="table3",
            title="Table 3 and Fig. 4: calibration of a logistic regression on UCI Adult",
            kind="calibration",
            columns=tuple(
                _column(epsilon, None, nuts=nuts, laplace=laplace, naive=naive, dpvim=dpvim)
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
        Study(
            name="figure1",
            title="Fig. 1: the linear model of the gradients on M1",
            kind="gradients",
            columns=(Column(1.0, "gamma-exponential"),),
            methods=(),
            more_methods=(),
            fits=1,
        ),
        Study(
            name="adult",
            title="DPVIm, Fig. 5: gradient rules for a logistic regression on UCI Adult",
            kind="comparison",
            columns=tuple(Column(epsilon) for epsilon in (1.0, 2.0, 4.0, 10.0)),
            methods=("vanilla", "preconditioned", "natural", "aligned", "aligned_natural"),
            more_methods=(),
            fits=50,
            epochs=4000,
        ),
        Study(
            name="data-sharing",
            title="DPVIm, Figs. 1 to 3: gradient rules for a generative model, and its tables",
            kind="comparison",
            columns=tuple(Column(epsilon) for epsilon in (1.0, 2.0, 4.0, 10.0)),
            methods=("vanilla", "preconditioned", "natural", "aligned", "aligned_natural"),
            more_methods=(),
            fits=10,
            epochs=1000,
        ),
        Study(
            name="full-rank",
            title="DPVIm, Fig. 6: full-rank guides for a linear regression",
            kind="comparison",
            columns=(Column(1.0),),
            methods=("vanilla", "aligned"),
            more_methods=("preconditioned",),
            fits=50,
            epochs=1000,
        ),
        Study(
            name="sep-mixture",
            title="DP-SEP, Table 1 and Fig. 1: a mixture of Gaussians",
            kind="comparison",
            columns=tuple(Column(epsilon) for epsilon in (1.0, 5.0, 50.0)),
            methods=("ep", "sep", "clipped-sep", "dp-sep", "dp-em", "literal"),
            more_methods=(),
            fits=10,
            epochs=100,
        ),
        Study(
            name="sep-regression",
            title="DP-SEP, Tables 3 to 5: regressions with a Bayesian neural network",
            kind="comparison",
            columns=(Column(1.0),),
            methods=(
                "vi",
                "ep",
                "sep",
                "clipped-sep",
                "adf",
                "dp-sep",
                "dp-vi",
                "point",
                "line",
                "private-line",
            ),
            more_methods=(),
            fits=20,
            epochs=100,
        ),
        Study(
            name="sep-clipping",
            title="DP-SEP, Tables 8 and 9: clip norms",
            kind="comparison",
            columns=(Column(1.0),),
            methods=("clipped-sep", "dp-sep"),
            more_methods=(),
            fits=5,
            epochs=100,
        ),
    )
}
