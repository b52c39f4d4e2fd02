"""Regressions with effects that vary by group, ``(1 | ward)``: with a scale of their own, learned.

The groups are levels that the schema declares, so that their number is public. Effects are
coefficients like others, of a 0/1 column each; only their prior differs: Normal(0, s) with one s
for all, which is HalfNormal. Written so (centred), a likelihood is nearly quadratic in what is
released; the hierarchical prior comes in afterwards, as for every hierarchical model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from noisewise.models.glm import Glm, JointGlmTarget
from noisewise.models.ready_made import Capabilities
from noisewise.models.target import Target


class GroupEffects(NamedTuple):
    """Effects of one category's levels."""

    name: str
    """As in ``1|ward``."""
    levels: int
    scale: float
    """Of the half-normal prior of their sd."""

    @property
    def sd(self) -> str:
        """The latent that is their sd."""
        return f"{self.name}_sigma"


@dataclass(frozen=True)
class GroupedGlm(Glm):
    """A regression whose last columns of ``X`` are those of groups."""

    groups: tuple[GroupEffects, ...] = ()

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """No site of DP-SEP knows effects with a scale."""
        return Capabilities(closed_form_gradients=True, because="DP-SEP knows no group effects")

    @property
    def target_type(self) -> type[Target]:
        """In frames that mix effects with the intercept, which they compete with."""
        return GroupedGlmTarget

    def coordinates(self, features: list[str] | None) -> dict[str, list[str]]:
        """Effects are called as their columns are."""
        if features is None:
            return {}
        found, start = super().coordinates(features), len(self.fixed(features))
        for group in self.groups:
            found[group.name] = features[start : start + group.levels]
            start += group.levels
        return found

    def fixed(self, features: list[str]) -> list[str]:
        """See `Glm.fixed`."""
        return features[: len(features) - sum(group.levels for group in self.groups)]

    def prior_words(self, features: list[str] | None) -> tuple[str, ...]:
        """See `ReadyMade.prior_words`."""
        said = [
            f"{group.name}: Normal(0, {group.sd}), {group.sd}: HalfNormal({group.scale:.4g})"
            for group in self.groups
        ]
        return (*super().prior_words(features), *said)

    def __call__(self, X: Any, y: Any = None) -> None:
        """The generative process."""
        means, sds = self.prior(X.shape[1] - sum(group.levels for group in self.groups))
        parts = [numpyro.sample("coefficients", dist.Normal(means[0], sds[0]).to_event(1))]
        for group in self.groups:
            sd = numpyro.sample(group.sd, dist.HalfNormal(group.scale))
            effects = dist.Normal(0.0, sd).expand([group.levels]).to_event(1)
            parts.append(numpyro.sample(group.name, effects))
        own = self.kind.nuisance(self.noise_scale).items()
        nuisance = [numpyro.sample(name, prior) for name, prior in own]
        predictor = X @ jnp.concatenate(parts)
        with numpyro.plate("records", X.shape[0]):
            numpyro.sample("y", self.likelihood(predictor, *nuisance), obs=y)


@dataclass(frozen=True)
class GroupedGlmTarget(JointGlmTarget):
    """A `GroupedGlm` with closed-form gradients: those by the effects' sds are 0, as records know
    them by the effects alone."""

    model: GroupedGlm

    @cached_property
    def places(self) -> np.ndarray:
        """See `JointGlmTarget.places`."""
        where = self.layout.places
        sds = {group.sd for group in self.model.groups}
        found = [range(self.dim)[where[s.name]] for s in self.layout.latents if s.name not in sds]
        return np.concatenate([np.array(each) for each in found])

    @property
    def size(self) -> int:
        """See `JointGlmTarget.size`."""
        names = {"coefficients", *(group.name for group in self.model.groups)}
        return sum(site.size for site in self.layout.latents if site.name in names)
