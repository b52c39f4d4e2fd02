"""Rows with given marginals and pair moments: the least assuming distribution that has them.

    p(x) ~ exp(sum_j a_j(x_j) + sum_(j<k) f_j(x_j)' L_jk f_k(x_k))

is the independent columns' distribution tilted towards the moments of the features f. Weighted
independent rows would leave a handful of rows with all the weight where columns are tied closely, so
rows are drawn instead: many Markov chains at once, one Gibbs step a column, while a and L move
until the chains' marginals and moments are as wanted (stochastic approximation; the problem is
concave). Noise in a moment is slack: with noise sd s, and a pair of columns whose moments differ from
independence by tau beyond their noise, L is shrunk by s^2/tau^2, the posterior mode under
L ~ N(0, tau^2 / V). A pair that noise explains is left independent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.covariates.pairs import Features, PairMoments

__all__ = ["Dependence", "fit_dependence", "independent_states"]

_CHAINS = 4096
_ROUNDS = 200
_SPEEDS = (0.4, 0.05)
_MARGINAL_SPEED = 0.5
_EMPTY = 1e-9
_MOST_DOUBT = 1.0


class Dependence(NamedTuple):
    """The fitted distribution."""

    features: Features
    fields: tuple[np.ndarray, ...]
    """a: log weight of each state of each column; minus infinity where nobody is."""
    couplings: np.ndarray
    """L, over all features; symmetric, with empty diagonal blocks."""

    def sweep(self, rng: np.random.Generator, states: np.ndarray) -> list[np.ndarray]:
        """One Gibbs step for every column, in place; returns the columns' mean conditional shares,
        which know the marginals better than the states do."""
        features = self.features.of(states)
        couplings = self.couplings.astype(np.float32)
        found = []
        for j, block in enumerate(self.features.blocks):
            pull = features @ couplings[:, block]
            table = self.features.tables[j].astype(np.float32)
            logits = pull @ table.T + self.fields[j].astype(np.float32)
            chances = np.exp(logits - logits.max(1, keepdims=True))
            chances /= chances.sum(1, keepdims=True)
            ends = np.cumsum(chances, axis=1)
            ranks = ends < rng.random((len(states), 1), dtype=np.float32) * ends[:, -1:]
            states[:, j] = ranks.sum(1)
            features[:, block] = table[states[:, j]]
            found.append(chances.mean(0, dtype=float))
        return found


def independent_states(
    shares: tuple[np.ndarray, ...], rng: np.random.Generator, n: int
) -> np.ndarray:
    """Rows of states (n x columns), columns independent."""
    return np.stack([rng.choice(len(s), size=n, p=s) for s in shares], axis=1)


def fit_dependence(
    shares: tuple[np.ndarray, ...],
    pairs: PairMoments,
    rng: np.random.Generator,
    doubt: np.random.Generator | None = None,
    rounds: int = _ROUNDS,
) -> Dependence:
    """Fields and couplings for these shares and pair moments; with ``doubt``, another draw of the
    couplings that the noise allows."""
    features = pairs.features
    basis, powers = _principal(features, shares)
    states = independent_states(shares, rng, _CHAINS)
    slack = _slack(pairs, _moments(features, states), basis, powers)
    scale = 1 / (powers + slack)
    shift = np.zeros_like(powers)
    if doubt is not None:
        shift = _shift(doubt, powers, slack, pairs.noise_sd)
    with np.errstate(divide="ignore"):
        fields = [np.log(share) for share in shares]
    there = [share > 0 for share in shares]
    inside = np.zeros_like(powers)
    for round_ in range(rounds):
        couplings = basis @ (inside + shift) @ basis.T
        model = Dependence(features, tuple(fields), couplings)
        found = model.sweep(rng, states)
        for field, share, now, here in zip(fields, shares, found, there, strict=True):
            field[here] += _MARGINAL_SPEED * np.log(
                (share[here] + _EMPTY) / (now[here] + _EMPTY)
            ).clip(-1, 1)
        if doubt is None or round_ < rounds // 2:
            error = basis.T @ (pairs.moments - _moments(features, states)) @ basis
            done = round_ / rounds
            speed = _SPEEDS[0] * (_SPEEDS[1] / _SPEEDS[0]) ** done
            step = np.where(np.isfinite(slack), error - _finite(slack) * inside, 0.0) * scale
            inside = inside + speed * step
    return Dependence(features, tuple(fields), basis @ (inside + shift) @ basis.T)


def _finite(slack: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(slack), slack, 0.0)


def _moments(features: Features, states: np.ndarray) -> np.ndarray:
    """Mean clipped products of simulated rows; diagonal blocks are empty."""
    values = features.of(states)
    found = (values * features.weights(values)[:, None]).T @ values / len(values)
    for block in features.blocks:
        found[block, block] = 0.0
    return found.astype(float)


def _principal(
    features: Features, shares: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Within each column, axes along which features are uncorrelated; and the variance of each
    product of two of them if columns were independent, zero within a column."""
    size = features.blocks[-1].stop
    basis, spread, owner = np.zeros((size, size)), np.zeros(size), np.zeros(size, int)
    for j, (block, table, share) in enumerate(
        zip(features.blocks, features.tables, shares, strict=True)
    ):
        off = table - share @ table
        spread[block], basis[block, block] = np.linalg.eigh((off * share[:, None]).T @ off)
        owner[block] = j
    spread = np.where(spread > 1e-8, spread, 0.0)
    return basis, np.outer(spread, spread) * (owner[:, None] != owner)


def _slack(
    pairs: PairMoments, independent: np.ndarray, basis: np.ndarray, powers: np.ndarray
) -> np.ndarray:
    """s^2/tau^2 for every product, tau^2 from each pair of columns' own moments; infinite where
    they are no further from independence than noise."""
    off = np.where(powers > 0, basis.T @ (pairs.moments - independent) @ basis, 0.0)
    slack = np.full_like(powers, np.inf)
    blocks = pairs.features.blocks
    # What the independent rows themselves leave to chance is noise as well.
    noise = pairs.noise_sd**2 + powers / _CHAINS
    for one in blocks:
        for other in blocks:
            power = powers[one, other]
            count = (power > 0).sum()
            if not count:
                continue
            excess = (off[one, other] ** 2).sum() - noise[one, other][power > 0].sum()
            if excess > 0:
                tau2 = excess / power.sum()
                slack[one, other] = np.where(power > 0, pairs.noise_sd**2 / tau2, np.inf)
    return slack


def _shift(
    rng: np.random.Generator, powers: np.ndarray, slack: np.ndarray, noise_sd: float
) -> np.ndarray:
    """A draw of what noise leaves open of the couplings: variance s^2 / (V (V + slack))."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.where(np.isfinite(slack), noise_sd / np.sqrt(powers * (powers + slack)), 0.0)
    draw = np.triu(np.minimum(np.nan_to_num(sd, posinf=0.0), _MOST_DOUBT), 1)
    draw = draw * rng.standard_normal(draw.shape)
    return draw + draw.T
