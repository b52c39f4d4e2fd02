"""Priors in words, for reports."""

import numpy as np
import numpyro.distributions as dist


def few_names(names: list[str]) -> str:
    """A few names, and how many more.

    Args:
        names: All of them.
    """
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def in_words(prior: dist.Distribution) -> str:
    """A distribution with its numbers, such as ``LogNormal(-0.36, 0.5)``.

    Args:
        prior: Of one latent.
    """
    base = prior.base_dist if isinstance(prior, dist.Independent) else prior
    numbers = [np.ravel(getattr(base, name)) for name in base.arg_constraints]
    said = [", ".join(f"{x:.3g}" for x in np.unique(each)) for each in numbers]
    return f"{type(base).__name__}({'; '.join(said)})"
