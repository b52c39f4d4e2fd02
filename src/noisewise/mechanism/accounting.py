"""What a series of releases costs, and how much noise a budget asks for.

Privacy loss distributions by dp-accounting, pessimistically rounded, so every epsilon here is an
upper bound. The Gaussian central limit, ``mu = q sqrt(T (exp(1/s^2) - 1))``, brackets the search
and Renyi accounting cross-checks it; neither is ever the answer.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from scipy.optimize import brentq
from scipy.special import log_ndtr

from noisewise._validate import NoisewiseError, fraction, integer_at_least, positive
from noisewise.mechanism.budget import Budget

if TYPE_CHECKING:
    from dp_accounting import DpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

_RELATIVE_TOLERANCE = 2e-6
_SEARCH_LIMIT = 60
_FIRST_REACH = 0.1
"""The furthest, in the noise's logarithm, that a line is followed; then twice as far, and so on."""
_LITTLE_NOISE = 2.0
_COARSER = 8.0
_SURELY_LEFT = 0.9
LEAST_RATE = 2.0**-40
_LEAST_NOISE = 0.2


def check_sampling_rate(rate: float) -> None:
    """Refuse a rate that is none, or that no sampler can keep to.

    Args:
        rate: Every record's chance of being in a batch; 1 takes all of them.
    """
    if rate != 1.0 and not fraction("sampling_rate", rate) >= LEAST_RATE:
        raise NoisewiseError(f"sampling_rate must be at least 2**-40, got {rate:g}")


@dataclass(frozen=True, kw_only=True)
class Release:
    """A Gaussian release, possibly of a Poisson sample, some times over: a line of a certificate.

    Args:
        what: Its name, for people.
        noise_multiplier: Standard deviation of the noise over the most that one record can
            contribute.
        sampling_rate: Every record's chance of being in the sample.
        times: How often it was made.
    """

    what: str
    noise_multiplier: float
    sampling_rate: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)
        integer_at_least("times", self.times, 1)
        check_sampling_rate(self.sampling_rate)

    def event(self) -> DpEvent:
        """The release in dp-accounting's own terms."""
        import dp_accounting

        event: DpEvent = dp_accounting.GaussianDpEvent(self.noise_multiplier)
        if self.sampling_rate != 1.0:
            event = dp_accounting.PoissonSampledDpEvent(self.sampling_rate, event)
        return dp_accounting.SelfComposedDpEvent(event, self.times) if self.times > 1 else event


def compose(releases: tuple[Release, ...]) -> DpEvent:
    """All the releases as one dp-accounting event."""
    import dp_accounting

    return dp_accounting.ComposedDpEvent([release.event() for release in releases])


def merged(releases: Iterable[Release]) -> tuple[Release, ...]:
    """Fewer releases of the same cost: sampled ones with equal noise are counted together, and
    Gaussian ones of all records are exactly one with the sum of their precisions."""
    sampled: Counter[tuple[float, float]] = Counter()
    precision = 0.0
    for one in releases:
        if one.sampling_rate == 1.0:
            precision += one.times / one.noise_multiplier**2
        else:
            sampled[one.noise_multiplier, one.sampling_rate] += one.times
    found = [
        Release(what="sampled", noise_multiplier=noise, sampling_rate=rate, times=times)
        for (noise, rate), times in sorted(sampled.items())
    ]
    if precision:
        # A hair less noise than the sum says, so that rounding cannot make it more.
        noise = (precision * (1 + 1e-12)) ** -0.5
        found.append(Release(what="of all records", noise_multiplier=noise))
    return tuple(found)


def discretisation(epsilon: float) -> float:
    """Width of the privacy-loss grid: 1e-5, widened above epsilon 1 to keep arrays small."""
    return 1e-5 * max(1.0, epsilon)


def _relation(adjacency: str) -> NeighboringRelation:
    from dp_accounting import NeighboringRelation

    if adjacency == "replace-one":
        return NeighboringRelation.REPLACE_ONE
    return NeighboringRelation.ADD_OR_REMOVE_ONE


def epsilon_spent(
    releases: tuple[Release, ...],
    delta: float,
    adjacency: str,
    width: float = 1e-5,
    more: tuple[Release, ...] = (),
) -> float:
    """Epsilon at ``delta`` of all the releases together (an upper bound).

    The same in whatever order they are, so that a certificate finds what was found when its noise
    was calibrated.

    Args:
        releases: Made on the same data.
        delta: At which epsilon is wanted.
        adjacency: As `Budget` has it.
        width: Of the privacy-loss grid: see `discretisation`.
        more: Further releases, where many are tried beside the same ones.
    """
    if not more:
        more = tuple(one for one in releases if one.sampling_rate != 1.0)
        releases = tuple(one for one in releases if one.sampling_rate == 1.0)
    known, tried = (tuple(sorted(some, key=astuple)) for some in (releases, more))
    return _epsilon_of(known, tried, delta, adjacency, width)


@lru_cache(maxsize=256)
def _epsilon_of(
    known: tuple[Release, ...],
    tried: tuple[Release, ...],
    delta: float,
    adjacency: str,
    width: float,
) -> float:
    accountant = _accountant(known, adjacency, width)
    if tried:
        accountant = copy.deepcopy(accountant).compose(compose(tried))
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=2)
def _accountant(releases: tuple[Release, ...], adjacency: str, width: float) -> PLDAccountant:
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(_relation(adjacency), value_discretization_interval=width)
    return accountant.compose(compose(releases)) if releases else accountant


def epsilons_on_the_way(
    groups: Sequence[tuple[Release, ...]], delta: float, adjacency: str, width: float
) -> list[float]:
    """Epsilon after each group of releases, with those before it.

    Args:
        groups: In order.
        delta: At which epsilon is wanted.
        adjacency: As `Budget` has it.
        width: Of the privacy-loss grid: see `discretisation`.
    """
    accountant, found = copy.deepcopy(_accountant((), adjacency, width)), []
    for group in groups:
        accountant.compose(compose(merged(group)))
        found.append(float(accountant.get_epsilon(delta)))
    return found


def epsilon_by_renyi(releases: tuple[Release, ...], delta: float, adjacency: str) -> float | None:
    """`epsilon_spent` by Renyi accounting: looser, another code path; None where it has no theory.

    Args:
        releases: Made on the same data.
        delta: At which epsilon is wanted.
        adjacency: As `Budget` has it.
    """
    from dp_accounting import UnsupportedEventError
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(neighboring_relation=_relation(adjacency))
    try:
        accountant.compose(compose(releases))
    except UnsupportedEventError:
        return None
    return float(accountant.get_epsilon(delta))


def gaussian_limit(epsilon: float, delta: float) -> float:
    """The mu for which mu-Gaussian differential privacy is exactly (epsilon, delta).

    It is the signal-to-noise ratio that the whole budget allows one record.

    Args:
        epsilon: Of the budget.
        delta: Of the budget.
    """

    def excess(log_mu: float) -> float:
        spent = _gaussian_delta(math.exp(log_mu), epsilon)
        return math.log(max(spent, 1e-300)) - math.log(delta)

    return math.exp(brentq(excess, math.log(1e-8), math.log(1e4), xtol=1e-10))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of mu-Gaussian differential privacy at ``delta``: `gaussian_limit`'s inverse.

    Args:
        mu: Signal-to-noise ratio of one record; zero and below is no signal.
        delta: At which epsilon is wanted.

    >>> round(gaussian_epsilon(gaussian_limit(1.0, 1e-6), 1e-6), 6)
    1.0
    """
    if mu <= 0 or _gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    most = mu * (mu / 2 + 40)  # at which delta is below 1e-300
    return float(brentq(lambda epsilon: _gaussian_delta(mu, epsilon) - delta, 0.0, most))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of mu-Gaussian differential privacy at ``epsilon``."""
    found = math.exp(log_ndtr(-epsilon / mu + mu / 2))
    return found - math.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))


def sampled_limit(mu: float, sampling_rate: float, steps: int) -> float:
    """Noise multiplier at which ``steps`` sampled Gaussian releases amount to ``mu``.

    Args:
        mu: By `gaussian_limit`.
        sampling_rate: Of the Poisson samples.
        steps: Number of releases.
    """
    return 1 / math.sqrt(math.log1p(mu * mu / (sampling_rate * sampling_rate * steps)))


@lru_cache(maxsize=256)
def calibrate(
    budget: Budget, sampling_rate: float, steps: int, others: tuple[Release, ...] = ()
) -> float:
    """Least noise multiplier at which the steps and ``others`` together stay within the budget.

    Args:
        budget: For all of it.
        sampling_rate: Of the Poisson samples.
        steps: Number of sampled releases.
        others: What else the same data pay for.

    >>> round(calibrate(Budget(epsilon=1.0, delta=1e-5), 0.1, 10_000), 2)
    37.33
    """
    guess = sampled_limit(gaussian_limit(budget.epsilon, budget.delta), sampling_rate, steps)
    if not guess >= _LEAST_NOISE:
        # One record's privacy loss then spreads over more of the grid than memory holds.
        raise NoisewiseError(
            f"at sampling_rate={sampling_rate:g} hardly a record is drawn in {steps} steps, too "
            f"few to account for at epsilon={budget.epsilon:g}: raise the rate"
        )
    width = _search_width(budget.epsilon, steps, guess)
    if others and epsilon_spent(others, budget.delta, budget.adjacency, width) >= budget.epsilon:
        raise NoisewiseError(
            f"nothing of epsilon={budget.epsilon:g} is left for the fit after "
            f"{', '.join(release.what for release in others)}: raise epsilon or buy less"
        )

    def log_excess(width: float, noise_multiplier: float) -> float:
        steps_release = Release(
            what="gradients",
            noise_multiplier=noise_multiplier,
            sampling_rate=sampling_rate,
            times=steps,
        )
        spent = epsilon_spent(others, budget.delta, budget.adjacency, width, more=(steps_release,))
        return math.log(max(spent, 1e-12)) - math.log(budget.epsilon)

    guess *= 2.0 if budget.adjacency == "replace-one" else 1.0
    coarse, slope = _COARSER * width, -1.0
    # Looks at a coarse grid are cheap and bring the search near: its noise is a little too much.
    # Not where that grid would take the other releases for more than the budget.
    spent = epsilon_spent(others, budget.delta, budget.adjacency, coarse) if others else 0.0
    if spent < _SURELY_LEFT * budget.epsilon:
        guess, slope = _least_noise(partial(log_excess, coarse), guess, slope)
    return _least_noise(partial(log_excess, width), guess, slope).noise


def _search_width(epsilon: float, steps: int, noise_multiplier: float) -> float:
    """Width of the grid while searching: coarser where few steps have little noise.

    Such a step's loss spreads over millions of the usual grid's points, and every look takes a
    quarter of a minute. The grid's error is an overestimate and grows as steps times width squared;
    this width keeps it below a ten thousandth of epsilon, so the noise found is enough on any grid.
    """
    fine = discretisation(epsilon)
    if noise_multiplier > _LITTLE_NOISE:
        return fine
    return max(fine, min(1e-3, math.sqrt(5e-5 * epsilon / steps)))


class _Found(NamedTuple):
    noise: float
    slope: float
    """Of the logarithm of what is spent, over the logarithm of the noise."""


def _least_noise(log_excess: Callable[[float], float], guess: float, slope: float) -> _Found:
    """Where a decreasing function of the noise is zero or a hair below; the safe side of it.

    Epsilon falls at least as fast as one over the noise, so where less than the tolerance is left
    of the budget, the noise is too much by less than the tolerance. Every look takes a third of a
    second: so lines are followed a little past the root, and two looks do where the line is known.

    Args:
        log_excess: What is spent over the budget, as a logarithm.
        guess: Where to look first.
        slope: Of ``log_excess`` over the logarithm of the noise, to begin with.
    """
    place, reach = math.log(guess), _FIRST_REACH
    low = high = None
    stale = 0
    for _ in range(_SEARCH_LIMIT):
        excess = log_excess(math.exp(place))
        here = (place, excess)
        if excess > 0:
            slope, low, stale = _line(here, low or high, slope), here, min(stale, 0) - 1
        else:
            slope, high, stale = _line(here, high or low, slope), here, max(stale, 0) + 1
        if -_RELATIVE_TOLERANCE < excess <= 0:
            break
        if low is None or high is None:
            wanted = place - (excess + _RELATIVE_TOLERANCE / 2) / slope
            place = min(max(wanted, place - reach), place + reach)
            reach *= 2
            continue
        if high[0] - low[0] < _RELATIVE_TOLERANCE:
            break
        # The Illinois step: halve the weight of an end that has not moved twice running.
        over = low[1] / 2 if stale >= 2 else low[1]
        under = high[1] / 2 if stale <= -2 else high[1]
        place = low[0] + (high[0] - low[0]) * over / (over - under) + _RELATIVE_TOLERANCE / 3
        place = min(max(place, low[0] + 1e-7), high[0] - 1e-7)
    if high is None:
        raise NoisewiseError("no amount of noise was found that keeps the budget: raise epsilon")
    return _Found(math.exp(high[0]), slope)


def _line(here: tuple[float, float], before: tuple[float, float] | None, slope: float) -> float:
    """The slope through two looks; the one before where there is none to be had."""
    if before is None or abs(here[0] - before[0]) < 1e-9:
        return slope
    found = (here[1] - before[1]) / (here[0] - before[0])
    return found if found < -0.5 else slope
