"""What was spent, on what, and how a stranger can check it."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from noisewise._pages import Shown
from noisewise._validate import NoisewiseError
from noisewise.data import ONE_ROW
from noisewise.mechanism.accounting import (
    Release,
    compose,
    discretisation,
    epsilon_by_renyi,
    epsilon_spent,
)
from noisewise.mechanism.budget import Budget
from noisewise.mechanism.counting import NUMBER_OF_ROWS, count_cost

if TYPE_CHECKING:
    from dp_accounting import DpEvent

NOISED_COUNT = "noised, paid from the budget"
"""Source of a number of rows that was bought."""
PROTECTS = "protects"
"""Source that says whose rows are protected together."""
KNOWN_SEED = "a known seed"
"""Source of randomness that protects nobody."""

# A certificate is re-computed on other machines; their floating point may differ in the last bits.
_ROUNDING = 1e-6


class Verification(NamedTuple):
    """The outcome of checking a certificate: it holds, or there are reasons why not."""

    holds: bool
    epsilon_claimed: float
    epsilon_recomputed: float
    epsilon_by_renyi: float | None
    reasons: tuple[str, ...] = ()
    """Why it does not hold, in words."""

    def __str__(self) -> str:
        verdict = "holds" if self.holds else f"DOES NOT HOLD ({'; '.join(self.reasons)})"
        check = "" if self.epsilon_by_renyi is None else f", Renyi {self.epsilon_by_renyi:.4f}"
        return (
            f"certificate {verdict}: epsilon {self.epsilon_recomputed:.4f} recomputed"
            f"{check}, {self.epsilon_claimed:.4f} claimed"
        )


@dataclass(frozen=True, kw_only=True)
class Certificate(Shown):
    """A re-checkable statement of what a result cost.

    Args:
        budget: What was meant to be spent at most.
        releases: All that the data paid for.
        epsilon_spent: What they cost together at the budget's delta, as claimed.
        sources: Where every number came from that the guarantee rests on (bounds, clip norm,
            number of rows, randomness).
        not_private_because: Empty unless something was done that voids the guarantee, such as an
            insecure seed.
        software: Versions of what computed it.
    """

    budget: Budget
    releases: tuple[Release, ...]
    epsilon_spent: float
    sources: dict[str, str] = field(default_factory=dict)
    not_private_because: tuple[str, ...] = ()
    software: dict[str, str] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether the result may be released under the stated guarantee."""
        return not self.not_private_because

    @property
    def protects(self) -> str:
        """Whose rows are protected together, in words; certificates once did not say, and were all
        of rows."""
        return self.sources.get(PROTECTS, ONE_ROW)

    def event(self) -> DpEvent:
        """Everything that the data paid for, as one dp-accounting event."""
        return compose(self.releases)

    def verify(self) -> Verification:
        """Recompute epsilon from the releases, and see whether the certificate is one of privacy.

        It holds if epsilon is neither above the claim nor above the budget, nothing voids the
        guarantee, and the releases cover what the sources name. That is what a certificate says of
        itself; `verify_run` also asks whether it belongs to a run.
        """
        if not self.releases:
            return Verification(False, self.epsilon_spent, 0.0, None, ("it lists no release",))
        delta, adjacency = self.budget.delta, self.budget.adjacency
        found = epsilon_spent(self.releases, delta, adjacency, discretisation(self.budget.epsilon))
        renyi = epsilon_by_renyi(self.releases, delta, adjacency)
        reasons = (*self._excesses(found), *self._contradictions())
        return Verification(not reasons, self.epsilon_spent, found, renyi, reasons)

    def _excesses(self, found: float) -> list[str]:
        """Reasons by numbers; comparisons that NaN does not pass."""
        reasons = []
        if not found <= self.epsilon_spent * (1 + _ROUNDING):
            reasons.append(f"epsilon is {found:.4g}, above the claimed {self.epsilon_spent:.4g}")
        if not max(found, self.epsilon_spent) <= self.budget.epsilon * (1 + _ROUNDING):
            reasons.append(f"epsilon is above the budget's {self.budget.epsilon:.4g}")
        return reasons

    def _contradictions(self) -> list[str]:
        """Reasons by words."""
        reasons = [f"not private: {reason}" for reason in self.not_private_because]
        if self.private and self.sources.get("randomness") == KNOWN_SEED:
            reasons.append("the randomness came from a known seed")
        if self.sources.get(NUMBER_OF_ROWS) == NOISED_COUNT and not self.counts_rows:
            reasons.append("the number of rows was noised, and no release pays for it")
        return reasons

    @property
    def counts_rows(self) -> bool:
        """Whether one of the releases is a noisy number of rows."""
        return any(release.what == NUMBER_OF_ROWS for release in self.releases)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Certificate:
        """Back from `to_dict`; a malformed one is refused in one line.

        Args:
            plain: What `to_dict` returned, or what was read from a file.
        """
        try:
            return cls(
                budget=Budget(**plain["budget"]),
                releases=tuple(Release(**release) for release in plain["releases"]),
                epsilon_spent=float(plain["epsilon_spent"]),
                sources=dict(plain["sources"]),
                not_private_because=tuple(plain["not_private_because"]),
                software=dict(plain["software"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise NoisewiseError(f"not a privacy certificate: {error}") from error

    def __str__(self) -> str:
        budget = self.budget
        lines = [
            f"({self.epsilon_spent:.4g}, {budget.delta:g})-differential privacy, "
            f"{budget.adjacency} adjacency"
        ]
        if not self.private:
            lines.insert(0, "NOT PRIVATE: " + "; ".join(self.not_private_because))
        for release in self.releases:
            sampled = "" if release.sampling_rate == 1 else f", rate {release.sampling_rate:g}"
            lines.append(
                f"  {release.what}: {release.times} x Gaussian, "
                f"noise multiplier {release.noise_multiplier:.4g}{sampled}"
            )
        lines += [f"  {name}: {source}" for name, source in self.sources.items()]
        return "\n".join(lines)


def issue(
    budget: Budget,
    releases: tuple[Release, ...],
    sources: dict[str, str],
    not_private_because: tuple[str, ...] = (),
) -> Certificate:
    """The certificate of what was just released.

    Args:
        budget: What the releases were meant to stay within.
        releases: All that the data paid for.
        sources: Where every number came from that the guarantee rests on, by name.
        not_private_because: Whatever voids the guarantee.
    """
    width = discretisation(budget.epsilon)
    spent = epsilon_spent(releases, budget.delta, budget.adjacency, width)
    return Certificate(
        budget=budget,
        releases=releases,
        epsilon_spent=spent,
        sources=sources,
        not_private_because=not_private_because,
        software=software_versions(),
    )


def verify_run(
    certificate: Certificate,
    *,
    steps: int,
    sampling_rate: float,
    declared_rows: int | None,
    protects: str = ONE_ROW,
    bought: Mapping[str, str] | None = None,
) -> Verification:
    """`Certificate.verify`, and whether the certificate accounts for the run that it came with.

    Args:
        certificate: As it lies with the result.
        steps: Of the run's settings (of its last phase).
        sampling_rate: Likewise.
        declared_rows: The number of rows that the schema declares public, or None.
        protects: Whose rows are protected together, by the schema.
        bought: Names of releases, by the sources that only they can be behind.
    """
    found = certificate.verify()
    reasons = list(found.reasons)
    if certificate.protects != protects:
        reasons.append(f"it protects {certificate.protects}, and what was fitted {protects}")
    if not any(
        release.times == steps and math.isclose(release.sampling_rate, sampling_rate)
        for release in certificate.releases
    ):
        reasons.append(f"no release accounts for {steps} steps at sampling rate {sampling_rate:g}")
    listed = {release.what for release in certificate.releases}
    for source, release in (bought or {}).items():
        if source in certificate.sources and release not in listed:
            reasons.append(f"its {source} were bought, and no release pays for them")
    counted = bool(count_cost(declared_rows, certificate.budget))
    if counted and not certificate.counts_rows:
        reasons.append("the number of rows was neither declared nor paid for")
    if not counted and certificate.counts_rows:
        reasons.append("the number of rows is public, and a release pays for it all the same")
    return found._replace(holds=not reasons, reasons=tuple(dict.fromkeys(reasons)))


def software_versions() -> dict[str, str]:
    """Of everything that a release rests on."""
    names = ("noisewise", "dp-accounting", "jax", "numpyro", "randomgen")
    return {name: version_of(name) for name in names}


def version_of(package: str) -> str:
    """As it is installed here.

    Args:
        package: Its name, as pip knows it.
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
