"""What an analysis says about one table, in whatever form it says it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, shown


class Estimates(NamedTuple):
    """Named numbers, with their sampling variances where the analysis gives them."""

    names: tuple[str, ...]
    values: np.ndarray
    variances: np.ndarray | None


def read_estimates(answer: Any) -> Estimates:
    """Read one of the accepted forms.

    A fitted statsmodels result (``params``, ``bse``); a fitted scikit-learn estimator (``coef_``,
    ``intercept_``; no variances); a pair of estimates and variances, the latter also as a
    covariance matrix; a dict of pairs; or estimates alone: a number, an array, a dict, a Series.

    >>> read_estimates({"mean": (2.0, 0.25)})
    Estimates(names=('mean',), values=array([2.]), variances=array([0.25]))
    """
    if hasattr(answer, "params") and hasattr(answer, "bse"):
        names, values = _statsmodels(answer)
        return Estimates(names, values, _numbers("standard errors", answer.bse).ravel() ** 2)
    if hasattr(answer, "coef_"):
        return Estimates(*_scikit_learn(answer), None)
    if isinstance(answer, tuple) and len(answer) == 2:
        names, values = _named(answer[0])
        return Estimates(names, values, _variances(answer[1], names))
    if isinstance(answer, Mapping) and answer and all(map(_is_pair, answer.values())):
        pairs = _numbers("estimates with variances", list(answer.values()))
        return Estimates(tuple(map(str, answer)), pairs[:, 0], _not_negative(pairs[:, 1]))
    return Estimates(*_named(answer), None)


def in_order(found: Estimates, names: tuple[str, ...], table: str, first: str) -> Estimates:
    """The estimates of a ``table`` in the order of these names, which the ``first`` one has.

    Refused where they are of something else.
    """
    places = {name: place for place, name in enumerate(found.names)}
    odd = sorted(places.keys() ^ set(names))
    if odd:
        raise NoisewiseError(
            f"the analysis of {table} does not estimate what that of {first} does: "
            f"{shown(odd[0])} is in one of them only"
        )
    order = [places[name] for name in names]
    values = found.values[order]
    if not np.isfinite(values).all():
        name = names[int(np.argmin(np.isfinite(values)))]
        raise NoisewiseError(
            f"the analysis of {table} has no finite estimate of {shown(name)}: choose an "
            "estimate that every table has"
        )
    return Estimates(names, values, None if found.variances is None else found.variances[order])


def _named(answer: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and numbers of a scalar, a dict, a Series or an array."""
    if isinstance(answer, Mapping):
        names = tuple(map(str, answer))
        values = _numbers("estimates", list(answer.values()))
    elif hasattr(answer, "index") and hasattr(answer, "to_numpy"):  # a Series
        names, values = tuple(map(str, answer.index)), _numbers("estimates", answer)
    else:
        values = _numbers("estimates", answer)
        names = (
            tuple(f"estimate[{i}]" for i in range(values.size)) if values.ndim else ("estimate",)
        )
    if values.ndim > 1 or values.size != len(names) or not len(names):
        raise NoisewiseError(
            f"an analysis must give one number for each estimate, got {shown(answer)}"
        )
    if len(set(names)) != len(names):
        raise NoisewiseError(f"an analysis gives two estimates of one name: {shown(names)}")
    return names, values.ravel()


def _statsmodels(answer: Any) -> tuple[tuple[str, ...], np.ndarray]:
    if hasattr(answer.params, "index"):
        return _named(answer.params)
    values = _numbers("estimates", answer.params).ravel()
    names = getattr(getattr(answer, "model", None), "exog_names", None) or []
    if len(names) != len(values):  # further parameters, such as a dispersion, have no name there
        names = [f"params[{i}]" for i in range(len(values))]
    return tuple(map(str, names)), values


def _scikit_learn(fitted: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Coefficients by feature, and by class where there are several sets of them."""
    table = np.atleast_2d(_numbers("coefficients", fitted.coef_))
    features = list(getattr(fitted, "feature_names_in_", range(table.shape[1])))
    if getattr(fitted, "fit_intercept", False):
        offsets = np.broadcast_to(_numbers("intercepts", fitted.intercept_).ravel(), len(table))
        features, table = ["intercept", *features], np.column_stack([offsets, table])
    classes = list(getattr(fitted, "classes_", range(len(table)))) if len(table) > 1 else [None]
    names = [
        str(feature) if label is None else f"{label}: {feature}"
        for label in classes
        for feature in features
    ]
    if len(names) != table.size:
        raise NoisewiseError(
            f"the coefficients of {type(fitted).__name__} do not go with its classes: return them "
            "as a dict by name"
        )
    return tuple(names), table.ravel()


def _variances(given: Any, names: tuple[str, ...]) -> np.ndarray:
    """Variances by name or in order, or the diagonal of a covariance matrix."""
    if isinstance(given, Mapping) or (hasattr(given, "index") and getattr(given, "ndim", 0) == 1):
        found = dict(given.items())
        by_name = {str(name): value for name, value in found.items()}
        if set(by_name) != set(names):
            raise NoisewiseError(
                f"variances are of {shown(sorted(by_name))}, estimates of {shown(sorted(names))}: "
                "give one variance for each estimate"
            )
        given = [by_name[name] for name in names]
    values = _numbers("variances", given)
    if values.ndim == 2 and values.shape[0] == values.shape[1]:
        values = np.diag(values)
    if values.ndim > 1 or values.size != len(names):
        raise NoisewiseError(
            f"expected {len(names)} variances or their covariance matrix, got shape {values.shape}"
        )
    return _not_negative(values.ravel())


def _not_negative(variances: np.ndarray) -> np.ndarray:
    if not (variances >= 0).all():
        raise NoisewiseError(
            f"a variance must not be negative, got {shown(float(np.min(variances)))}"
        )
    return variances


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2


def _numbers(what: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise NoisewiseError(
            f"{what} must be numbers, got {shown(values)}: return (estimate, variance), a dict of "
            "them, a fitted statsmodels result or a fitted scikit-learn estimator"
        ) from None
