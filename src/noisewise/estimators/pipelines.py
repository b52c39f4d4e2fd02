"""What scikit-learn does around a fit to the same rows, and nobody has paid for: steps before the
estimator that learn from them, and searches that choose by their scores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline


def fitted_steps(estimator: Any) -> list[str]:
    """Classes of the steps that learned from the rows that ``estimator`` is being fitted to.

    Seen from the calls in progress, never from the rows: a pipeline fits its steps in order.

    Args:
        estimator: Whose ``fit`` is running.
    """
    found: list[str] = []
    inner, frame = estimator, sys._getframe(1)
    while frame is not None:
        outer = frame.f_locals.get("self")
        if isinstance(outer, Pipeline) and outer.steps and outer.steps[-1][1] is inner:
            found += [name for _, step in outer.steps[:-1] for name in _learning(step)]
            inner = outer
        elif isinstance(outer, TransformedTargetRegressor) and _regressor_of(outer) is inner:
            found += _learning(outer.transformer)
            inner = outer
        frame = frame.f_back  # type: ignore[assignment]
    return list(dict.fromkeys(found))


def choosing_search() -> str | None:
    """The class of a search that fits with what it has just chosen by scores, of several; None
    where there is none. Fits to its folds, before it chooses, are like any other."""
    frame = sys._getframe(1)
    while frame is not None:
        outer = frame.f_locals.get("self")
        if isinstance(outer, BaseSearchCV) and hasattr(outer, "best_index_"):
            tried = frame.f_locals.get("results", {}).get("params")
            if tried is None or len(tried) > 1:
                return type(outer).__name__
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _regressor_of(outer: TransformedTargetRegressor) -> Any:
    return getattr(outer, "regressor_", None)


def _learning(step: Any) -> Iterator[str]:
    """Those parts of a step whose fit depends on the rows."""
    parts: list[Any] = []
    if isinstance(step, ColumnTransformer):
        parts = [part for _, part, _ in step.transformers]
    elif isinstance(step, FeatureUnion):
        parts = [part for _, part in step.transformer_list]
    elif isinstance(step, Pipeline):
        parts = [part for _, part in step.steps]
    elif not isinstance(step, str | None) and _is_fitted_to_rows(step):
        yield type(step).__name__
    for part in parts:
        yield from _learning(part)


def _is_fitted_to_rows(step: Any) -> bool:
    if isinstance(getattr(step, "categories", "auto"), list | tuple):
        return False  # an encoder whose categories were declared
    tags = getattr(step, "__sklearn_tags__", None)
    return True if tags is None else bool(tags().requires_fit)
