"""Is this model one whose records are independent given its latents? If not: which line says no?"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import Distribution, biject_to
from numpyro.distributions.constraints import Constraint

from noisewise._validate import NoisewiseError


class ModelError(NoisewiseError):
    """The model cannot be fitted record by record; the message says why and what to do."""


@dataclass(frozen=True)
class Site:
    """A latent: its name, shapes and support."""

    name: str
    shape: tuple[int, ...]
    unconstrained_shape: tuple[int, ...]
    support: Constraint = field(compare=False, repr=False)

    @property
    def size(self) -> int:
        """Number of unconstrained coordinates."""
        return int(np.prod(self.unconstrained_shape))

    def labels(self) -> list[str]:
        """A name per unconstrained coordinate, as in ``w[3]``."""
        if not self.unconstrained_shape:
            return [self.name]
        places = itertools.product(*(range(n) for n in self.unconstrained_shape))
        return [f"{self.name}[{','.join(map(str, place))}]" for place in places]


@dataclass(frozen=True)
class Layout:
    """What the model samples, what it observes, and from which arguments."""

    latents: tuple[Site, ...]
    observed: tuple[str, ...]
    observed_arguments: tuple[tuple[str, str], ...]
    """(argument, site) pairs: arguments that are handed straight to ``obs=``."""
    signature: tuple[tuple[str, tuple[int, ...], str], ...]

    @property
    def places(self) -> dict[str, slice]:
        """Where every latent stands in the flat vector of unconstrained coordinates."""
        ends = itertools.accumulate(site.size for site in self.latents)
        pairs = zip(self.latents, ends, strict=True)
        return {site.name: slice(end - site.size, end) for site, end in pairs}


def inspect_model(model: Callable[..., Any], rows: dict[str, Any]) -> Layout:
    """Trace the model on simulated rows and find its latents and observed sites.

    ``rows`` must hold at least four simulated records; no record of the data is needed.
    """
    rows = {name: jnp.asarray(column) for name, column in rows.items()}
    few, more = _first(rows, 3), _first(rows, 4)
    sites, other = _trace(model, few, 0), _trace(model, more, 1)
    plate = _data_plate(sites, other)
    observed = _check_observed(sites, plate)
    latents = _check_latents(sites, other, plate)
    arguments = tuple(
        (name, site)
        for site in observed
        for name, column in few.items()
        if sites[site]["value"] is column
    )
    shapes = tuple((n, tuple(c.shape[1:]), str(c.dtype)) for n, c in sorted(rows.items()))
    layout = Layout(latents, observed, arguments, shapes)
    _check_independence(model, layout, _drawn_anew(model, layout, few), sites)
    return layout


def _drawn_anew(model: Callable[..., Any], layout: Layout, rows: dict[str, Any]) -> dict[str, Any]:
    """The rows with observed arguments from the model itself: surely within its support."""
    drawn = _trace(handlers.uncondition(model), rows, 0)
    values = {name: drawn[site]["value"] for name, site in layout.observed_arguments}
    return {**rows, **{n: jnp.asarray(v).astype(rows[n].dtype) for n, v in values.items()}}


def _first(rows: dict[str, Any], count: int) -> dict[str, Any]:
    return {name: column[:count] for name, column in rows.items()}


def _trace(model: Callable[..., Any], rows: dict[str, Any], seed: int) -> dict[str, Any]:
    try:
        return handlers.trace(handlers.seed(model, jax.random.PRNGKey(seed))).get_trace(**rows)
    except Exception as error:  # whatever the user's code raises
        text = " ".join(str(error).split())[:300]
        raise ModelError(
            f"the model failed on a few simulated rows with {type(error).__name__}: {text}"
        ) from error


def _data_plate(sites: dict[str, Any], other: dict[str, Any]) -> str:
    """The one plate whose size follows the number of rows."""
    plates = {n: s for n, s in sites.items() if s["type"] == "plate"}
    for name, site in plates.items():
        size, subsample = site["args"]
        if subsample is not None and subsample != size:
            raise ModelError(
                f"plate '{name}' subsamples by itself: drop subsample_size, noisewise draws "
                "Poisson batches and accounts for them"
            )
    following = [n for n, s in plates.items() if n in other and s["args"][0] != other[n]["args"][0]]
    if len(following) > 1:
        raise ModelError(
            f"found {len(following)} plates over records ({', '.join(following)}), expected one: "
            "put every observed site into a single plate"
        )
    if not following:
        raise ModelError(
            "found no plate over records: put the observed sites into "
            "numpyro.plate('records', X.shape[0]), sized by the data that is passed in"
        )
    return following[0]


def _in_plate(site: dict[str, Any], plate: str) -> bool:
    return any(frame.name == plate for frame in site["cond_indep_stack"])


def _check_observed(sites: dict[str, Any], plate: str) -> tuple[str, ...]:
    names = [n for n, s in sites.items() if s["type"] == "sample" and s["is_observed"]]
    if not names:
        raise ModelError(
            "the model observes nothing: pass the data with obs=, and name the target column"
        )
    for name in names:
        if not _in_plate(sites[name], plate):
            raise ModelError(
                f"observed site '{name}' is outside plate '{plate}': move it in, so that it has "
                "one value per record"
            )
    return tuple(names)


def _check_latents(sites: dict[str, Any], other: dict[str, Any], plate: str) -> tuple[Site, ...]:
    latents = []
    for name, site in sites.items():
        if site["type"] == "param":
            raise ModelError(f"numpyro.param('{name}') has no prior: use numpyro.sample")
        if site["type"] != "sample" or site["is_observed"]:
            continue
        if _in_plate(site, plate):
            raise ModelError(
                f"latent '{name}' is inside plate '{plate}', one per record: records must be "
                "independent given the latents; integrate it out"
            )
        function: Distribution = site["fn"]
        if function.is_discrete:
            raise ModelError(
                f"latent '{name}' is discrete: sum it out, for example with a MixtureSameFamily"
            )
        if jnp.shape(site["value"]) != jnp.shape(other[name]["value"]):
            raise ModelError(
                f"latent '{name}' grows with the number of rows: records must be independent "
                "given the latents"
            )
        support = function.support
        free, elsewhere = _there_and_back(support, other[name]["fn"].support, site["value"])
        if not np.allclose(elsewhere, site["value"], atol=1e-5, equal_nan=True):
            raise ModelError(
                f"the support of latent '{name}' depends on other latents: rescale it to a fixed "
                "support"
            )
        latents.append(Site(name, jnp.shape(site["value"]), jnp.shape(free), support))
    if not latents:
        raise ModelError("the model has no latent to infer: sample at least one without obs=")
    return tuple(latents)


def _there_and_back(support: Constraint, other: Constraint, value: Any) -> tuple[Any, Any]:
    """The value freed of one support, and bound to another: the same value if they are equal."""

    @jax.jit  # one compilation instead of one for every operation
    def both(value: Any) -> tuple[Any, Any]:
        free = biject_to(support).inv(value)
        return free, biject_to(other)(free)

    return both(value)


def _check_independence(
    model: Callable[..., Any], layout: Layout, rows: dict[str, Any], sites: dict[str, Any]
) -> None:
    """Together and one by one, the simulated records must give the same likelihood and prior."""
    latents = {site.name: sites[site.name]["value"] for site in layout.latents}
    fixed = handlers.substitute(model, data=latents)

    @jax.jit  # one compilation instead of one for every operation
    def compiled(these: dict[str, Any]) -> tuple[Any, Any]:
        traced = _trace(fixed, these, 0)
        names = tuple(latents)
        return log_probability(traced, layout.observed), log_probability(traced, names)

    def scores(these: dict[str, Any]) -> tuple[float, float]:
        observed, prior = compiled(these)
        return float(observed), float(prior)

    together, prior = scores(rows)
    singles = [scores({n: c[i : i + 1] for n, c in rows.items()}) for i in range(3)]
    tolerance = 1e-3 * (1 + abs(together) + sum(abs(score) for score, _ in singles))
    if not abs(together - sum(score for score, _ in singles)) <= tolerance:
        raise ModelError(
            "the likelihood of three simulated records is not the sum of their own: the model "
            "mixes records (a mean over rows, a sum inside obs=, or a plate of fixed size?)"
        )
    if any(not abs(single - prior) <= 1e-3 * (1 + abs(prior)) for _, single in singles):
        raise ModelError("the prior depends on the data: use fixed numbers in the priors")


def log_probability(sites: dict[str, Any], names: tuple[str, ...]) -> jax.Array:
    """Of the named sites of a trace together."""
    total = jnp.zeros(())
    for name in names:
        site = sites[name]
        value = jnp.sum(site["fn"].log_prob(site["value"]))
        total += value if site["scale"] is None else value * site["scale"]
    return total
