"""The posteriors by name, and which settings each of them can read a trace of."""

from __future__ import annotations

from noisewise._validate import NoisewiseError, one_of
from noisewise.dpvi import Settings

__all__ = ["METHODS", "check_method"]

METHODS = ("exact", "nuts", "laplace", "naive", "averaged")


def check_method(method: str, settings: Settings | None) -> None:
    """Refuse a method that these settings' traces do not suit; None is a plan yet to be made."""
    one_of("posterior", method, METHODS)
    rule = "means_only" if settings is None else settings.rule
    full = settings is None or settings.full_curvature
    matrix = settings is None or settings.keeps_matrix
    if method == "averaged":
        if rule == "means_only":
            raise NoisewiseError(
                "posterior='averaged' needs a rule that fits scales, and rule means_only fits "
                "none: use posterior='exact', or settings with another rule"
            )
    elif full and method in ("nuts", "laplace"):
        raise NoisewiseError(
            f"posterior='{method}' has a diagonal curvature only: use posterior='exact', or "
            "settings with full_curvature=False"
        )
    elif full and not matrix:
        raise NoisewiseError(
            f"rule {rule} has a diagonal curvature only: use posterior='averaged', or settings "
            "with full_curvature=False"
        )
    elif full and settings is not None and settings.curvature is None:
        raise NoisewiseError(
            "full_curvature needs a simulated curvature to start from: plan, or use "
            "full_curvature=False, or posterior='averaged'"
        )
