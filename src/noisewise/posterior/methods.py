"""The posteriors by name, and which settings each of them can read a trace of."""

from noisewise._validate import NoisewiseError, one_of
from noisewise.dpvi import Settings

METHODS = ("analytic", "exact", "nuts", "laplace", "naive", "averaged")
LARGEST_MATRIX = 1000
"""Up to so many coordinates a plan infers the curvature as a matrix."""


def default_method(settings: Settings) -> str:
    """The noise-aware posterior that suits these settings' traces.

    Args:
        settings: Of the fit.
    """
    return "analytic" if settings.full_curvature else "exact"


def check_method(method: str | None, settings: Settings | None, dim: int = 1) -> None:
    """Refuse a method that these settings' traces do not suit.

    Args:
        method: One of `METHODS`; None is the default one.
        settings: Of the fit; None are those that a plan will make.
        dim: Number of coordinates, where there are no settings yet.
    """
    if method is not None:
        one_of("posterior", method, METHODS)
    rule = "means_only" if settings is None else settings.rule
    full = dim <= LARGEST_MATRIX if settings is None else settings.full_curvature
    if method == "averaged":
        if rule == "means_only":
            raise NoisewiseError(
                "posterior='averaged' needs a rule that fits scales, and rule means_only fits "
                "none: leave posterior out, or use settings with another rule"
            )
    elif full and settings is not None and not settings.keeps_matrix:
        raise NoisewiseError(
            f"rule {rule} has a diagonal curvature only: use posterior='averaged', or settings "
            "with full_curvature=False"
        )
    elif full and method in ("exact", "nuts", "laplace"):
        raise NoisewiseError(
            f"posterior='{method}' has a diagonal curvature only: use posterior='analytic', or "
            "settings with full_curvature=False"
        )
    elif method == "analytic" and not full:
        raise NoisewiseError(
            "posterior='analytic' needs a curvature matrix: use posterior='exact', or settings "
            "with full_curvature=True"
        )
    elif full and settings is not None and settings.curvature is None:
        raise NoisewiseError(
            "full_curvature needs a simulated curvature to start from: plan, or use "
            "full_curvature=False, or posterior='averaged'"
        )
