"""Tables of DPVIm's data-sharing study, what an analyst finds in them, and their gradient norms.

UK Biobank is closed: a public table stands in for it, or one that is simulated. Both may be looked
at, so norms are not noised.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Rows, Schema
from noisewise.dpvi import Constants, Point, Settings
from noisewise.dpvi.assemble import build_rule
from noisewise.models import Mixture, RowView, Target, bind, identity_frame, mixture
from noisewise.studies.core.lines import Line
from noisewise.studies.dpvim.common import Cells
from noisewise.synthetic.combining import pool
from noisewise.synthetic.generator import Generator
from noisewise.trials import target_for

COMPONENTS = 16
_ROWS = 58_261
_LEVELS = {"age": 6, "sex": 2, "ethnicity": 6, "deprivation": 5, "education": 5, "centre": 8}
_BASE_RATE = 0.03
ISRAEL_FILE = "corona_tested_individuals_ver_006.english.csv.gz"
_LAST_DAY = "2020-03-31"
_INDICATIONS = ("Other", "Abroad", "Contact with confirmed")
_YES = ("cough", "fever", "sore_throat", "shortness_of_breath", "head_ache")
NORM_RULES = ("vanilla", "natural", "preconditioned")
_NORM_ROWS = 5000
_NORM_BINS = np.linspace(-5, 3, 49)
_TOGETHER = 10
"""Tables drawn at once: a matter of memory."""


class SharingTable(NamedTuple):
    """A table, its schema and its target."""

    schema: Schema
    target: str
    codes: Rows
    """Columns as codes."""

    def model(self) -> Mixture:
        """DPVIm eqs. 24 and 25: K = 16 components, a Poisson regression of the indicator."""
        return mixture(COMPONENTS, "poisson").of(self.schema, self.target)

    def view(self) -> RowView:
        """How columns become the model's arguments."""
        return bind(self.model(), self.schema, self.target)

    def rows(self) -> Rows:
        """The model's arguments."""
        return self.view().encode(self.codes)

    def bound(self) -> Target:
        """The model, ready to be fitted."""
        return target_for(self.model(), self.view().simulate(np.random.default_rng(0), 4))


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
    target = empty.bound()
    key_truth, key_rows = jax.random.split(jax.random.PRNGKey(seed))
    latents = target.constrain(target.sample_prior(key_truth, 1)[0])
    effects = 0.5 * np.array(latents["coefficients"])
    effects[0] = np.log(_BASE_RATE)
    truth = target.unconstrain({**latents, "coefficients": jnp.asarray(effects)})
    covariates = empty.view().simulate(np.random.default_rng(seed), rows)
    simulated = target.simulate(key_rows, truth, covariates)
    drawn = {name: np.array(column) for name, column in simulated.items()}
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


def regression_cells(model: Mixture, columns: Rows) -> Cells:
    """The table as the regression of its target sees it, rows alike put together."""
    assert model.target is not None
    codes = [np.asarray(columns[each.name]) for each in model.features]
    # One number for every combination: sorting those is ten times as fast as sorting rows.
    alike = np.ravel_multi_index(codes, [int(column.max()) + 1 for column in codes])
    _, first, place, rows = np.unique(
        alike, return_index=True, return_inverse=True, return_counts=True
    )
    design = np.asarray(model.design_matrix([column[first] for column in codes]), float)
    total = np.bincount(place, weights=np.asarray(columns[model.target], float))
    return Cells(design, rows.astype(float), total)


def poisson_coefficients(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and their variances by statsmodels, from cells: the same as from rows."""
    import statsmodels.api as sm

    family, offset = sm.families.Poisson(), np.log(cells.rows)
    fitted = sm.GLM(cells.total, cells.design, family=family, offset=offset).fit()
    return np.asarray(fitted.params), np.asarray(fitted.bse) ** 2


def downstream_rmse(
    generator: Generator, thetas: np.ndarray, rows: int, original: np.ndarray, seed: int
) -> float:
    """Error of what an analyst finds in synthetic tables, pooled by Rubin's rules (DPVIm App. I),
    against the coefficients of the original table. One table is drawn for each theta."""
    model = generator.target.model
    assert isinstance(model, Mixture)
    found = []
    for first in range(0, len(thetas), _TOGETHER):
        some = np.asarray(thetas[first : first + _TOGETHER], np.float32)
        drawn = generator.draw(some, rows, seed, range(first, first + len(some)))
        found += [poisson_coefficients(regression_cells(model, each.columns)) for each in drawn]
    estimates, variances = (np.stack(part) for part in zip(*found, strict=True))
    return float(np.sqrt(np.mean((pool(estimates, variances).estimate - original) ** 2)))


def norm_lines(target: Target, rows: Rows, settings: Settings, start: np.ndarray) -> list[Line]:
    """DPVIm Fig. L.1: histograms of log10 norms of records' gradients, of means and of scales.

    For rules that release both; none for the others. Gradients are those that are clipped, of the
    first rows, for one guide draw, where the guide starts.
    """
    if settings.rule not in NORM_RULES:
        return []
    rule = build_rule(settings, target)
    free = np.full(target.dim, settings.initial_free_scale)
    parameters = jnp.asarray(np.concatenate([start, free]), jnp.float32)
    ones = jnp.ones(rule.parameters), jnp.ones(target.dim)
    constants = Constants(identity_frame(target.dim), *ones)
    noise = jnp.asarray(np.random.default_rng(0).standard_normal((1, target.dim)), jnp.float32)
    some = {name: column[:_NORM_ROWS] for name, column in rows.items()}
    batch = target.prepare(some, constants.frame)
    gradients = np.asarray(rule.record_gradients(Point(constants, parameters, noise), batch))
    middles = tuple(((_NORM_BINS[1:] + _NORM_BINS[:-1]) / 2).tolist())
    lines = []
    for name, part in zip(("means", "scales"), np.split(gradients, 2, axis=1), strict=True):
        norms = np.log10(np.maximum(np.linalg.norm(part, axis=1), 1e-30))
        counts, _ = np.histogram(np.clip(norms, _NORM_BINS[0], _NORM_BINS[-1]), _NORM_BINS)
        panel = f"norms {settings.rule}"
        lines.append(Line(panel=panel, name=name, x=middles, values=counts[:, None] / len(norms)))
    return lines
