"""One posterior draw in, one simulated table out, inside everything that the schema declares."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Rows, Schema
from noisewise.models import RowView, Target

_GROUP_VALUES, _WIDEST_GROUP = 2**20, 32
_EVENT = "(event)"
"""What a survival model generates beside the time."""


class Drawn(NamedTuple):
    """The columns of one table in the form of `Table.rows`, and what was moved to bounds."""

    columns: dict[str, np.ndarray]
    moved: dict[str, float]
    """Share of a generated column's values that lay outside what the schema allows."""


@dataclass(frozen=True, eq=False)
class Generator:
    """A model whose records can be drawn, given its latents and rows for its covariates.

    What the model generates is kept inside the declaration: reals and counts are moved to the
    nearer bound, counts and binary columns rounded first, categories are codes. Covariates are
    whole rows of the public sample in ``view.sample``, drawn with replacement.
    """

    target: Target
    view: RowView

    @cached_property
    def generated(self) -> dict[str, str]:
        """The column behind each number that the model generates, by argument: ``y`` of a survival
        model has two."""
        found = {name: self.view.source(name) for name in sorted(self.target.generated)}
        return found if self.view.event is None else found | {_EVENT: self.view.event}

    @cached_property
    def covariates(self) -> list[str]:
        """Columns that the model takes and does not generate, in the schema's order."""
        return self.view.covariates(self.target.generated)

    @cached_property
    def schema(self) -> Schema:
        """The tables' columns, generated ones and covariates, in the order of the fit's schema."""
        kept = {*self.generated.values(), *self.covariates}
        return Schema(tuple(column for column in self.view.schema if column.name in kept))

    def unconstrained(self, draws: dict[str, np.ndarray]) -> np.ndarray:
        """Draws by latent as one array, draws x coordinates, refused if one is not a number."""
        latents = {name: jnp.asarray(values, jnp.float32) for name, values in draws.items()}
        thetas = np.asarray(self.target.unconstrain(latents))
        # A probability that single precision rounds to 1 comes back infinite, and maps to 1 again.
        if np.isnan(thetas).any():
            raise NoisewiseError(
                "the result's draws are not all numbers: the fit has failed, and its posterior "
                "cannot generate anything"
            )
        return thetas

    def group(self, rows: int) -> int:
        """How many tables of so many rows are drawn side by side, so that memory stays bounded."""
        width = sum(len(column.entry_names) for column in self.schema)
        return int(np.clip(_GROUP_VALUES // (rows * width), 1, _WIDEST_GROUP))

    def draw(self, thetas: np.ndarray, rows: int, seed: int, numbers: range) -> list[Drawn]:
        """The tables of these numbers, one for each theta, side by side.

        A table follows from its theta, its number and the seed, up to the rounding of sums, which
        may depend on how many are drawn together.
        """
        seeds = [np.random.SeedSequence([seed, number]) for number in numbers]
        words = np.stack([each.generate_state(2) for each in seeds])
        arrays = [self._simulated(np.random.default_rng(each), rows) for each in seeds]
        tables = [self.view.encode(each) for each in arrays]
        simulated = {name: np.stack([table[name] for table in tables]) for name in tables[0]}
        found = jax.device_get(_simulate(self.target, words, thetas, simulated))
        if self.view.event is not None:
            found |= {"y": found["y"][..., 0], _EVENT: found["y"][..., 1]}
        return [
            self._settled(columns, {name: values[place] for name, values in found.items()})
            for place, columns in enumerate(arrays)
        ]

    def _settled(self, columns: dict[str, np.ndarray], drawn: dict[str, np.ndarray]) -> Drawn:
        """One table, with what the model generated in its place."""
        columns, moved = dict(columns), {}
        for argument, name in self.generated.items():
            columns[name], moved[name] = _settled(self.schema[name], drawn[argument])
        return Drawn({column.name: columns[column.name] for column in self.schema}, moved)

    def _simulated(self, rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
        """Covariates from the public sample; in place of generated columns, values of their type
        that the model does not look at."""
        generated = set(self.generated.values())
        arrays = {
            column.name: (column.complete if column.name in generated else column).simulate(
                rng, rows
            )
            for column in self.schema
        }
        if self.view.sample is not None:
            picked = rng.integers(len(next(iter(self.view.sample.values()))), size=rows)
            known = {name: self.view.sample[name] for name in arrays if name in self.view.sample}
            arrays |= {name: values[picked] for name, values in known.items()}
        return arrays


@partial(jax.jit, static_argnums=0)
def _simulate(target: Target, words: Array, thetas: Array, rows: Rows) -> Rows:
    """What the model generates, for every theta and its own rows."""

    def one(word: Array, theta: Array, table: Rows) -> Rows:
        key = jax.random.fold_in(jax.random.PRNGKey(word[0]), word[1])
        drawn = target.simulate(key, theta, table)
        return {name: drawn[name] for name in target.generated}

    return jax.vmap(one)(words, thetas, rows)


def _settled(column: Column, drawn: np.ndarray) -> tuple[np.ndarray, float]:
    """Values in the declared type and range, and the share that had to be moved."""
    values = np.asarray(drawn, np.float64)
    if not np.isfinite(values).all():
        raise NoisewiseError(
            f"the model generated values of column '{column.name}' that are not finite: a "
            "posterior draw is beyond what single precision holds"
        )
    whole = values if column.kind == "real" else np.rint(values)
    low, high = column.bounds or (0, len(column.categories or ("no", "yes")) - 1)
    inside = np.clip(whole, low, high)
    moved = float(np.mean(inside != whole))
    if column.kind == "category" and moved:
        raise NoisewiseError(
            f"the model generates more categories of column '{column.name}' than the "
            f"{high + 1:g} that are declared"
        )
    types = {"real": np.float64, "count": np.int64, "binary": np.int8, "category": np.int32}
    return inside.astype(types[column.kind]), moved
