"""EP and ADF, a batch of records at a time: references for models too large for one by one.

The sites of a batch are found side by side, each at its own cavity, and join the posterior
together. With batches of one EP is `sequential.ep`, and where likelihoods are Gaussian any batches
give the exact posterior. Unlike that, it learns a site's extras and refines its prior as it goes.
Nothing here is private.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import integer_at_least
from noisewise.data import Rows, record_count
from noisewise.dpsep.algorithm import SepFit
from noisewise.dpsep.site import Gaussian, Natural, Site


class _Walk(NamedTuple):
    mean: Array
    total: Array
    """Precision of all sites together."""
    extra: Array
    prior: Natural
    sites: Natural | None
    """Every record's, where they are kept (EP)."""


def adf_in_batches(
    site: Site, rows: Rows, initial: np.ndarray | Array, key: Array, *, epochs: int, batch: int
) -> SepFit:
    """Assumed density filtering, PBP's way: sites are forgotten once they have joined, so that
    every further pass counts the records once more.

    Args:
        site: The model.
        rows: Simulated or public records.
        initial: Mean to begin with.
        key: Of the records' order.
        epochs: Passes over the records.
        batch: Records whose sites are found side by side.
    """
    return ep_in_batches(site, rows, initial, key, epochs=epochs, batch=batch, keep=False)


def ep_in_batches(
    site: Site,
    rows: Rows,
    initial: np.ndarray | Array,
    key: Array,
    *,
    epochs: int,
    batch: int,
    keep: bool = True,
) -> SepFit:
    """Expectation propagation by passes over all records, each in a random order; what does not
    fill a batch waits for the next pass.

    The first pass goes one by one: next to the prior alone, several sites side by side would each
    move the mean all the way, and correlated weights would overshoot. The initial mean counts as
    the prior's to begin with, which breaks the symmetry of hidden units, and fades to the true one
    over that pass.

    Args:
        site: The model.
        rows: Simulated or public records.
        initial: Mean to begin with.
        key: Of the records' order.
        epochs: Passes over the records.
        batch: Records whose sites are found side by side.
        keep: Every record's site is kept, rows x 2 x dim numbers and more; if not, it is ADF.
    """
    rows = {name: jnp.asarray(column) for name, column in rows.items()}
    count = record_count(rows)
    integer_at_least("epochs", epochs, 1)
    size = min(integer_at_least("batch", batch, 1), count)
    family, mean = site.family, jnp.asarray(initial, jnp.float32)
    prior = site.prior(mean, jnp.zeros(family.dim))
    prior = prior._replace(eta=prior.eta + family.apply(prior.precision, mean))
    walk = _Walk(
        mean=mean,
        total=jnp.zeros(family.packed),
        extra=site.first_extra(),
        prior=prior,
        sites=None,
    )

    def first(walk: _Walk, inputs: tuple[Array, Array]) -> tuple[_Walk, Natural | None]:
        number, left = inputs
        walk, found = _step(site, rows, walk, number[None], left * mean)
        return walk, Natural(*(part[0] for part in found)) if keep else None

    def later(walk: _Walk, key: Array) -> tuple[_Walk, None]:
        order = jax.random.permutation(key, count)[: count - count % size].reshape(-1, size)
        return jax.lax.scan(
            lambda walk, some: (_step(site, rows, walk, some, jnp.zeros_like(mean))[0], None),
            walk,
            order,
        )

    key_first, *keys = jax.random.split(key, epochs)
    order = jax.random.permutation(key_first, count)
    walk, found = jax.lax.scan(first, walk, (order, 1 - jnp.arange(1, count + 1) / count))
    if found is not None:
        walk = walk._replace(sites=Natural(*(part[jnp.argsort(order)] for part in found)))
    if keys:
        walk, _ = jax.lax.scan(later, walk, jnp.stack(keys))
    last = _posterior(site, walk)
    still = jnp.zeros_like(last.covariance)
    return SepFit(
        mean=last.mean,
        precision=last.precision,
        covariance=last.covariance,
        extra=walk.extra,
        noise_covariance=still,
    )


def _posterior(site: Site, walk: _Walk) -> Gaussian:
    """As in `algorithm.read`: never less certain than the prior in any direction."""
    family = site.family
    least = family.least_eigenvalue(walk.prior.precision)
    precision = family.floored(walk.prior.precision + walk.total, least)
    return Gaussian(walk.mean, precision, family.inverse(precision))


def _step(site: Site, rows: Rows, walk: _Walk, some: Array, push: Array) -> tuple[_Walk, Natural]:
    """One batch: its sites out, found anew at their cavities, and in again; also the new ones.

    ``push`` is added to the prior's mean.
    """
    family = site.family
    count = record_count(rows)
    posterior = _posterior(site, walk)
    old = Natural(jnp.zeros((len(some), family.dim)), jnp.zeros((len(some), family.packed)))
    if walk.sites is not None:
        old = Natural(walk.sites.eta[some], walk.sites.precision[some])
    least = family.least_eigenvalue(walk.prior.precision)

    def record(old: Natural, row: Rows) -> tuple[Natural, Array]:
        precision = family.floored(posterior.precision - old.precision, least)
        # (Lambda - Lambda_i) m_i = Lambda m - eta_i, solved for how far m_i is from m.
        off = family.apply(old.precision, posterior.mean) - old.eta
        mean = posterior.mean + family.solve(precision, off)
        cavity = Gaussian(mean, precision, family.inverse(precision))
        found = site.updates(cavity, walk.extra, count, {n: c[None] for n, c in row.items()})
        eta = (found.gradient + family.apply(found.precision, mean))[0]
        fine = jnp.all(jnp.isfinite(eta)) & jnp.all(jnp.isfinite(found.precision))
        new = Natural(
            jnp.where(fine, eta, old.eta), jnp.where(fine, found.precision[0], old.precision)
        )
        return new, jnp.where(jnp.isfinite(found.extra[0]), found.extra[0], walk.extra)

    new, extras = jax.vmap(record)(old, {name: column[some] for name, column in rows.items()})
    prior = site.prior(walk.mean, family.diagonal(posterior.covariance))
    prior = prior._replace(eta=prior.eta + family.apply(prior.precision, push))
    eta = jnp.sum(new.eta - old.eta, axis=0) + prior.eta - walk.prior.eta
    gained = jnp.sum(new.precision - old.precision, axis=0)
    change = gained + prior.precision - walk.prior.precision
    moved = walk._replace(
        total=walk.total + gained,
        extra=walk.extra + jnp.sum(extras - walk.extra, axis=0) / count,
        prior=prior,
    )
    if walk.sites is not None:
        kept = zip(walk.sites, new, strict=True)
        moved = moved._replace(sites=Natural(*(every.at[some].set(part) for every, part in kept)))
    step = eta - family.apply(change, walk.mean)
    precision = _posterior(site, moved).precision
    return moved._replace(mean=walk.mean + family.solve(precision, step)), new
