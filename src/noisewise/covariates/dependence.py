"""Rows with given marginals and pair moments: the least assuming distribution that has them.

    p(x) ~ exp(sum_j a_j(x_j) + sum_(j<k) f_j(x_j)' L_jk f_k(x_k))

is the independent columns' distribution tilted towards the moments of the features f. Weighted
independent rows would leave a handful with all the weight where columns are tied closely, so rows
are drawn instead: many Markov chains at once, one Gibbs step a column, while a keeps them at the
marginals and L moves until their moments are as wanted (stochastic approximation; the problem is
concave). Noise in a moment is slack: with noise sd s, and moments of a pair of columns that differ
from independence by tau beyond their noise, L is shrunk by s^2/tau^2, the posterior mode under
L ~ N(0, tau^2 / V). Two columns that look independent still get a coupling, of the size that all
pairs have on average: it takes one to keep them so when both go with a third.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.covariates.pairs import Features, PairMoments

_CHAINS = 4096
_ROUNDS = 200
_SPEEDS = (0.4, 0.05)
_MATCHINGS = 2
_EMPTY = 1e-12
_MOST_DOUBT = 1.0
_WIDEST = 4.0
"""Largest prior variance of a coupling: e to the fourth is two sds of an odds ratio."""
_LONGEST = 1.0
_STANDS_OUT = 4.0
"""Noise sds; of a thousand products, one in sixteen tables by chance."""


class Dependence(NamedTuple):
    """The fitted distribution."""

    features: Features
    shares: tuple[np.ndarray, ...]
    couplings: np.ndarray
    """L, over all features; symmetric, with empty diagonal blocks."""
    doubt: np.ndarray
    """Sd of what noise leaves open of L along ``basis``."""
    basis: np.ndarray
    chains: np.ndarray
    """States of the chains when the fit ended (chains x columns)."""

    def perturbed(self, rng: np.random.Generator, shares: tuple[np.ndarray, ...]) -> Dependence:
        """Another draw of the couplings that the noise allows, for other shares."""
        draw = np.triu(self.doubt * rng.standard_normal(self.doubt.shape), 1)
        couplings = self.couplings + self.basis @ (draw + draw.T) @ self.basis.T
        return self._replace(shares=shares, couplings=couplings)

    def sweep(self, rng: np.random.Generator, states: np.ndarray, fields: list[np.ndarray]) -> None:
        """One Gibbs step for every column of all chains, in place.

        Before a column is drawn, its fields are moved to where the chains together have its shares:
        they never stray from the marginals, however strong the couplings become.
        """
        centres = np.concatenate(
            [share @ table for share, table in zip(self.shares, self.features.tables, strict=True)]
        )
        off = self.features.of(states) - centres.astype(np.float32)
        couplings = self.couplings.astype(np.float32)
        # Chains go along the last axis, where numpy's sums over a few states are quick.
        off = np.ascontiguousarray(off.T)
        for j, (block, share) in enumerate(zip(self.features.blocks, self.shares, strict=True)):
            table = (self.features.tables[j] - centres[block]).astype(np.float32)
            logits = (table @ couplings[:, block].T) @ off
            pull = np.exp(logits - logits.max(0))
            ends = _matched(pull, fields[j], share)
            for state in range(1, len(ends)):  # ten times as quick as numpy's cumsum
                ends[state] += ends[state - 1]
            ranks = ends < rng.random(len(states), dtype=np.float32) * ends[-1]
            states[:, j] = ranks.sum(0, dtype=np.uint16)
            off[block] = np.take(table.T, states[:, j], axis=1)

    def start(self) -> list[np.ndarray]:
        """Weights of the states for the first sweep."""
        return [share.astype(np.float32) for share in self.shares]


def _matched(pull: np.ndarray, field: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Conditional shares (states x chains) whose mean is ``share``; moves ``field`` in place."""
    for _ in range(_MATCHINGS):
        chances = pull * field[:, None]
        now = chances @ (1 / (chances.sum(0) + _EMPTY)) / chances.shape[1]
        field *= np.where(share > 0, (share + _EMPTY) / (now + _EMPTY), 0.0).astype(np.float32)
        field /= field.max()
    return pull * field[:, None]


def independent_states(
    shares: tuple[np.ndarray, ...], rng: np.random.Generator, n: int
) -> np.ndarray:
    """Rows of states (n x columns), columns independent."""
    return np.stack([rng.choice(len(s), size=n, p=s) for s in shares], axis=1)


def fit_dependence(
    shares: tuple[np.ndarray, ...],
    pairs: PairMoments,
    rng: np.random.Generator,
    rounds: int = _ROUNDS,
) -> Dependence:
    """Couplings for these shares and pair moments."""
    features = pairs.features
    basis, powers = _principal(features, shares)
    states = independent_states(shares, rng, _CHAINS)
    slack = _slack(pairs, _moments(features, states), basis, powers)
    used = np.isfinite(slack)
    slack = np.where(used, slack, 0.0)
    total = np.where(used, powers + slack, 1.0)
    open_ = np.where(used, pairs.noise_sd / np.sqrt(np.where(used, powers, 1.0) * total), 0.0)
    inside = np.zeros_like(powers)
    model = Dependence(
        features=features,
        shares=shares,
        couplings=inside,
        doubt=np.minimum(open_, _MOST_DOUBT),
        basis=basis,
        chains=states,
    )
    fields = model.start()
    for number in range(rounds):
        model.sweep(rng, states, fields)
        error = basis.T @ (pairs.moments - _moments(features, states)) @ basis
        speed = _SPEEDS[0] * (_SPEEDS[1] / _SPEEDS[0]) ** (number / rounds)
        step = np.where(used, error - slack * inside, 0.0) / total
        inside += speed * np.clip(step, -_LONGEST, _LONGEST)
        model = model._replace(couplings=basis @ inside @ basis.T)
    return model


def _moments(features: Features, states: np.ndarray) -> np.ndarray:
    """Mean clipped products of simulated rows; diagonal blocks are empty."""
    values = features.of(states)
    found = (values * features.weights(values)[:, None]).T @ values / len(values)
    for block in features.blocks:
        found[block, block] = 0.0
    return found.astype(float)


def _principal(features: Features, shares: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
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
    """s^2/tau^2 for every product, tau^2 from each pair of columns' own moments, or from all of
    them together where that is more; infinite where there is nothing to couple."""
    off = np.where(powers > 0, basis.T @ (pairs.moments - independent) @ basis, 0.0)
    slack = np.full_like(powers, np.inf)
    blocks = pairs.features.blocks
    # What the independent rows themselves leave to chance is noise as well.
    noise = pairs.noise_sd**2 + powers / _CHAINS
    typical = max((off**2 - noise)[powers > 0].sum(), 0.0) / max(powers.sum(), 1e-30)
    for one in blocks:
        for other in blocks:
            power = powers[one, other]
            count = (power > 0).sum()
            if not count:
                continue
            here, chance = off[one, other] ** 2, noise[one, other]
            excess = max((here - chance)[power > 0].sum(), 0.0) / power.sum()
            # A tie that stands out, like two levels of the same people, is judged on its own.
            own = np.where(here > _STANDS_OUT**2 * chance, here - chance, 0.0)
            tau2 = np.maximum(max(excess, typical), own / np.maximum(power, 1e-30))
            # Among rare levels tau^2 / V would allow couplings of any size.
            tau2 = np.minimum(tau2, _WIDEST * power)
            seen = tau2 > 0
            shrinking = pairs.noise_sd**2 / np.where(seen, tau2, 1.0)
            slack[one, other] = np.where(seen, shrinking, np.inf)
    return slack
