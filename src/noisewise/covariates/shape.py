"""The covariates' shape: what was bought about their distribution, and rows that are like it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError, fraction, integer_at_least
from noisewise.covariates.bins import Bins, covariate_bins
from noisewise.covariates.budget import part_of
from noisewise.covariates.dependence import Dependence, fit_dependence, independent_states
from noisewise.covariates.marginals import (
    COUNTS,
    Marginals,
    marginals_sensitivity,
    release_marginals,
)
from noisewise.covariates.pairs import PAIRS, PairMoments, release_pairs
from noisewise.covariates.words import contradictions
from noisewise.data import Rows, Schema, Table, indicator_name
from noisewise.mechanism import Budget, Release, calibrate
from noisewise.models import RowView

SHARE = 0.1
"""Share of the budget (in squared signal-to-noise) that a covariate shape takes by default."""
PAIRS_SHARE = 0.5
"""The part of it that goes to pairs of columns."""
_MOST_WITH_PAIRS = 100
_POOL = 16_384
_SETTLE = 12


def covariate_columns(view: RowView, generated: frozenset[str]) -> tuple[str, ...]:
    """The table's columns that a model takes and does not generate, survey weights among them:
    those to buy the shape of; of outcomes that may be missing, where they are.

    Args:
        view: Which columns the model takes.
        generated: The model's arguments that it simulates itself.
    """
    needed: list[str] = []
    for name in view.arguments:
        if name in generated:
            continue
        if view.encoder is not None and name == "X":
            needed += view.encoder.features
        else:
            needed.append(view.source(name))
    weight = [] if view.schema.weight is None else [view.schema.weight.name]
    return tuple(dict.fromkeys([*needed, *weight, *map(indicator_name, view.silencing)]))


@dataclass(frozen=True, eq=False)
class CovariateShape:
    """Noisy marginals and pair moments of covariates: public, as they were bought.

    ``simulate`` gives rows that are like the real ones as far as the noise lets us know;
    ``perturbed`` another shape that would be as plausible.
    """

    schema: Schema
    bins: tuple[Bins, ...]
    rows: float
    """The public number of rows: of units it is their number times their mean size."""
    marginals: Marginals
    pairs: PairMoments | None
    seed: int = 0
    """Of the simulation, which is public: the same for everyone who has the shape."""
    doubted: CovariateShape | None = None
    """The most plausible shape, if this is another draw of what the noise leaves open."""

    @property
    def releases(self) -> tuple[Release, ...]:
        """The ledger's lines."""
        bought = (self.marginals.release,)
        return bought if self.pairs is None else (*bought, self.pairs.release)

    @cached_property
    def size_shares(self) -> np.ndarray | None:
        """Shares of units with 1, 2, ... rows; None where they are declared, or rows are units."""
        rng = None if self.doubted is None else np.random.default_rng([self.seed, 4])
        return self.marginals.size_shares(rng)

    @cached_property
    def shares(self) -> tuple[np.ndarray, ...]:
        """Share of every state of every column."""
        rng = None if self.doubted is None else np.random.default_rng([self.seed, 1])
        return self.marginals.shares(rng)

    @cached_property
    def dependence(self) -> Dependence | None:
        """How columns go together; None if that was not bought."""
        if self.pairs is None:
            return None
        if self.doubted is None or self.doubted.dependence is None:
            return fit_dependence(self.shares, self.pairs, np.random.default_rng(self.seed))
        rng = np.random.default_rng([self.seed, 2])
        return self.doubted.dependence.perturbed(rng, self.shares)

    @cached_property
    def states(self) -> np.ndarray:
        """A pool of simulated rows as states (rows x columns)."""
        rng = np.random.default_rng([self.seed, 3])
        if self.dependence is None:
            return independent_states(self.shares, rng, _POOL)
        # The fit's own chains are settled, and a perturbed shape is near the likeliest one.
        known = self.dependence.chains if self.doubted is None else self.doubted.states
        found = known[_places(rng, len(known), _POOL)]
        fields = self.dependence.start()
        for _ in range(_SETTLE):
            self.dependence.sweep(rng, found, fields)
        return found

    def simulate(self, rng: np.random.Generator, n: int) -> Rows:
        """Rows in the form of `Table.rows`, of the covariates alone."""
        integer_at_least("n", n, 1)
        if not self.bins:
            return {}
        picked = self.states[_places(rng, len(self.states), n)]
        found: Rows = {}
        parts: dict[str, list[np.ndarray]] = {}
        for j, column in enumerate(self.bins):
            parts.setdefault(column.column.name, []).append(column.draw(rng, picked[:, j]))
        for name, values in parts.items():
            column_ = self.schema[name]
            whole = np.stack(values, axis=1).reshape(n, *column_.shape)
            kinds = {"count": np.int64, "binary": np.int8, "category": np.int32}
            found[name] = whole.astype(kinds.get(column_.kind, float))
        return found

    def perturbed(self, rng: np.random.Generator) -> CovariateShape:
        """Another shape, as plausible as the noise makes it."""
        likeliest = self.doubted or self
        return replace(likeliest, seed=int(rng.integers(2**31)), doubted=likeliest)

    @property
    def share_noise(self) -> float:
        """Sd of the noise in a share of people; one, as if nothing were known, where it hides the
        spread of a column."""
        noise = self.marginals.noise_sd / self.rows
        hidden = (
            column.ordered and column.spread_is_hidden(share, noise)
            for column, share in zip(self.bins, self.shares, strict=True)
        )
        return 1.0 if any(hidden) else noise

    def describe(self) -> dict[str, str]:
        """What was bought and how noisy it is, for certificate and report."""
        noise = self.marginals.noise_sd
        found = {}
        if self.bins:
            found["covariates"] = (
                f"simulated like the data's: counts of {len(self.bins)} columns' values "
                f"were bought, each with noise of sd {noise:.3g} rows ({noise / self.rows:.2%})"
            )
        if self.marginals.sizes is not None:
            sd = noise / len(self.marginals.sizes)
            found["rows of a unit"] = (
                f"numbers of units with 1, 2, ... rows were bought, each with noise of sd {sd:.3g}"
            )
        if self.pairs is not None:
            found["pairs of covariates"] = (
                f"their mean products were bought, with noise of sd {self.pairs.noise_sd:.2g} "
                "for standardised columns"
            )
        return found

    def contradictions(self) -> tuple[str, ...]:
        """Sentences about columns that are not as the schema declares them."""
        return contradictions(self.bins, self.shares, self.marginals.noise_sd / self.rows)


def _places(rng: np.random.Generator, size: int, n: int) -> np.ndarray:
    """Rows of the pool: each as often as any other, as far as that is possible."""
    whole = np.tile(np.arange(size), n // size)
    return np.concatenate([whole, rng.permutation(size)[: n - len(whole)]])


def shape_cost(
    schema: Schema, columns: tuple[str, ...], budget: Budget, share: float = SHARE
) -> tuple[Release, ...]:
    """The releases of `buy_shape`: known before anything is bought.

    Args:
        schema: The table's.
        columns: From `covariate_columns`.
        budget: Of the whole fit.
        share: Of the budget, in squared signal-to-noise, for the shape.
    """
    parts = _parts(len(covariate_bins(schema, columns)), share)
    return tuple(
        Release(what=what, noise_multiplier=calibrate(part_of(budget, part), 1.0, 1))
        for what, part in parts.items()
    )


def shape_noise(schema: Schema, columns: tuple[str, ...], bought: tuple[Release, ...]) -> float:
    """Sd of the noise in a count of rows that `buy_shape` will have bought.

    Args:
        schema: The table's.
        columns: From `covariate_columns`.
        bought: From `shape_cost`.
    """
    sensitivity = marginals_sensitivity(len(covariate_bins(schema, columns)), schema.unit)
    return bought[0].noise_multiplier * sensitivity


def rows_of(schema: Schema, records: int, size_shares: np.ndarray | None = None) -> float:
    """About how many rows so many records have.

    Args:
        schema: The table's.
        records: Their public number: of rows, or of units.
        size_shares: Shares of units with 1, 2, ... rows; None is as declared.
    """
    if schema.unit is None:
        return records
    shares = schema.unit.shares if size_shares is None else size_shares
    return records * float(shares @ np.arange(1, schema.unit.max_rows + 1))


def _parts(columns: int, share: float) -> dict[str, float]:
    """Shares of the budget by release; a single column has no pairs, and of too many a record's
    products are so many that noise would leave nothing of them."""
    if not 2 <= columns <= _MOST_WITH_PAIRS:
        return {COUNTS: share}
    return {COUNTS: share * (1 - PAIRS_SHARE), PAIRS: share * PAIRS_SHARE}


def buy_shape(
    table: Table,
    columns: tuple[str, ...],
    public_count: int,
    budget: Budget,
    *,
    share: float = SHARE,
    insecure_seed: int | None = None,
    bought: dict[str, np.ndarray] | None = None,
) -> CovariateShape:
    """Buy the shape of some columns with a share of the budget.

    Args:
        table: The rows.
        columns: Covariates, by name.
        public_count: Number of records as everybody may know it: of rows, or of units.
        budget: The whole one.
        share: What is spent of it, in squared signal-to-noise.
        insecure_seed: Makes the noise repeatable, and therefore not private.
        bought: As `mechanism.release_sum` has it.
    """
    fraction("share", share)
    schema = table.schema
    if not columns and (schema.unit is None or schema.unit.sizes_known):
        raise NoisewiseError("the model takes no covariates: there is no shape to buy")
    bins = covariate_bins(schema, columns)
    parts = _parts(len(bins), share)
    first = part_of(budget, parts[COUNTS])
    how: Any = {"unit": schema.unit, "insecure_seed": insecure_seed, "bought": bought}
    marginals = release_marginals(table.rows, bins, first, **how)
    row_count = rows_of(schema, public_count, marginals.size_shares())
    moments = None
    if PAIRS in parts:
        second = part_of(budget, parts[PAIRS])
        moments = release_pairs(table.rows, bins, marginals, row_count, second, **how)
    return CovariateShape(schema, bins, row_count, marginals, moments)
