"""What was spent, on what, and how a stranger can check it."""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from noisewise._validate import NoisewiseError
from noisewise.mechanism.accounting import (
    Release,
    compose,
    discretisation,
    epsilon_by_renyi,
    epsilon_spent,
)
from noisewise.mechanism.budget import Budget

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["Certificate", "Verification", "issue"]

# A certificate is re-computed on other machines; their floating point may differ in the last bits.
_ROUNDING = 1e-6


class Verification(NamedTuple):
    """The outcome of recomputing a certificate's epsilon from its releases."""

    holds: bool
    epsilon_claimed: float
    epsilon_recomputed: float
    epsilon_by_renyi: float | None

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        check = "" if self.epsilon_by_renyi is None else f", Renyi {self.epsilon_by_renyi:.4f}"
        return (
            f"certificate {verdict}: epsilon {self.epsilon_recomputed:.4f} recomputed"
            f"{check}, {self.epsilon_claimed:.4f} claimed"
        )


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A re-checkable statement of what a result cost.

    ``sources`` says where every number came from that the guarantee rests on (bounds, clip norm,
    number of rows, randomness); ``not_private_because`` is empty unless something was done that
    voids the guarantee, such as an insecure seed.
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

    def event(self) -> DpEvent:
        """Everything that the data paid for, as one dp-accounting event."""
        return compose(self.releases)

    def verify(self) -> Verification:
        """Recompute epsilon from the releases alone and compare it with claim and budget."""
        width = discretisation(self.budget.epsilon)
        found = epsilon_spent(self.releases, self.budget.delta, self.budget.adjacency, width)
        allowed = min(self.epsilon_spent, self.budget.epsilon) * (1 + _ROUNDING)
        renyi = epsilon_by_renyi(self.releases, self.budget.delta, self.budget.adjacency)
        return Verification(found <= allowed, self.epsilon_spent, found, renyi)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Certificate:
        """Back from `to_dict`; a malformed one is refused in one line."""
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
    """The certificate of what was just released."""
    width = discretisation(budget.epsilon)
    spent = epsilon_spent(releases, budget.delta, budget.adjacency, width)
    names = ("noisewise", "dp-accounting", "jax", "numpyro", "randomgen")
    return Certificate(
        budget=budget,
        releases=releases,
        epsilon_spent=spent,
        sources=sources,
        not_private_because=not_private_because,
        software={name: _version(name) for name in names},
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
