"""Tables for the data-sharing study: UK Biobank is closed, so a public one and a simulated one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Schema
from noisewise.models import Mixture, Rows, RowView, Target, bind, build_target, mixture

__all__ = ["ISRAEL_FILE", "SharingTable", "read_israel", "simulate_table"]

COMPONENTS = 16
_ROWS = 58_261
_LEVELS = {"age": 6, "sex": 2, "ethnicity": 6, "deprivation": 5, "education": 5, "centre": 8}
_BASE_RATE = 0.03
ISRAEL_FILE = "corona_tested_individuals_ver_006.english.csv.gz"
_LAST_DAY = "2020-03-31"
_INDICATIONS = ("Other", "Abroad", "Contact with confirmed")
_YES = ("cough", "fever", "sore_throat", "shortness_of_breath", "head_ache")


class SharingTable(NamedTuple):
    """A table, its schema and its target."""

    schema: Schema
    target: str
    codes: Rows
    """Columns as codes."""

    def model(self) -> Mixture:
        """Eqs. (24) and (25): K = 16 components, a Poisson regression of the indicator."""
        return mixture(COMPONENTS, "poisson").of(self.schema, self.target)

    def view(self) -> RowView:
        """How columns become the model's arguments."""
        return bind(self.model(), self.schema, self.target)

    def rows(self) -> Rows:
        """The model's arguments."""
        return self.view().rows(self.codes)

    def built(self) -> Target:
        """The model, ready to be fitted."""
        return build_target(self.model(), self.view().simulate(np.random.default_rng(0), 4))


def simulate_table(seed: int = 0, rows: int = _ROWS) -> SharingTable:
    """A table of the paper's size, drawn from the model itself at one draw from its prior.

    Columns are named after the UK Biobank ones; the numbers of their levels are ours. The
    intercept is set so that about three in a hundred are infected, and effects are halved, for the
    prior's own would make rates above one.
    """
    columns = [
        Column(name=name, kind="category", categories=tuple(f"{name} {i}" for i in range(levels)))
        for name, levels in _LEVELS.items()
    ]
    schema = Schema((*columns, Column(name="infected", kind="binary")), rows=rows)
    empty = SharingTable(schema, "infected", {})
    target = empty.built()
    key_truth, key_rows = jax.random.split(jax.random.PRNGKey(seed))
    latents = target.constrain(target.sample_prior(key_truth, 1)[0])
    effects = 0.5 * np.array(latents["coefficients"])
    effects[0] = np.log(_BASE_RATE)
    truth = target.unconstrain({**latents, "coefficients": jnp.asarray(effects)})
    made_up = empty.view().simulate(np.random.default_rng(seed), rows)
    drawn = {
        name: np.array(column) for name, column in target.simulate(key_rows, truth, made_up).items()
    }
    drawn["infected"] = np.minimum(drawn["infected"], 1)
    return SharingTable(schema, "infected", drawn)


def read_israel(folder: Path) -> SharingTable:
    """The Israeli tests up to the end of March 2020 whose features and result are all known."""
    import pandas

    path = folder / ISRAEL_FILE
    if not path.is_file():
        raise NoisewiseError(f"{folder} has no {ISRAEL_FILE}: pass the folder that holds it")
    table = pandas.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[table["corona_result"] == "other", "corona_result"] = "None"
    features = [*_YES, "age_60_and_above", "gender", "test_indication"]
    known = (table[[*features, "corona_result"]] != "None").all(axis=1)
    kept = table[known & (table["test_date"] <= _LAST_DAY)]
    codes = {name: (kept[name] == "1").to_numpy(np.int32) for name in _YES}
    codes["age_60_and_above"] = (kept["age_60_and_above"] == "Yes").to_numpy(np.int32)
    codes["gender"] = (kept["gender"] == "male").to_numpy(np.int32)
    codes["test_indication"] = kept["test_indication"].map(_INDICATIONS.index).to_numpy(np.int32)
    codes["positive"] = (kept["corona_result"] == "positive").to_numpy(np.int32)
    binary = [*_YES, "age_60_and_above"]
    columns = (
        *(Column(name=name, kind="binary") for name in binary),
        Column(name="gender", kind="category", categories=("female", "male")),
        Column(name="test_indication", kind="category", categories=_INDICATIONS),
        Column(name="positive", kind="binary"),
    )
    return SharingTable(Schema(columns, rows=len(kept)), "positive", codes)
