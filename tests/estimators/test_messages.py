"""What estimators say of what they refuse, and of what was done to the rows before them."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from noisewise.estimators import DPLinearRegression, DPLogisticRegression
from noisewise.estimators.pipelines import fitted_steps

SENTINEL, ROWS = 271828.1828, 1237
FULL = np.full((ROWS, 2), SENTINEL)
ONES = np.full(ROWS, SENTINEL)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (ONES, ONES),
        (ONES[0], ONES),
        (FULL * 1j, ONES),
        (FULL[:, :0], ONES),
        (FULL[:0], ONES[:0]),
        (FULL[:1], ONES[:1]),
        (FULL[None], ONES),
        (FULL, FULL),
        (FULL, ONES * 1j),
        (FULL, ONES[:-1]),
        ([*FULL.astype(str).tolist()[:-1], ["271828.1828 EUR", "1"]], ONES),
        ([[SENTINEL], [SENTINEL, SENTINEL]] * 400, ONES),
        (np.where(np.eye(ROWS, 2) > 0, np.nan, FULL), ONES),
        (FULL, [[SENTINEL], [SENTINEL, 1.0]] * 618 + [[1.0]]),
        ({"a": ONES}, ONES),
    ],
)
@pytest.mark.parametrize("kind", [DPLinearRegression, DPLogisticRegression])
def test_no_message_quotes_a_cell_or_the_number_of_rows(kind: type, X: Any, y: Any) -> None:
    options = {"target_bounds": (0, 1e6)} if kind is DPLinearRegression else {}
    model = kind(bounds=(0, 1e6), **options)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises((ValueError, TypeError)) as caught:
            model.fit(X, y)
    said = " ".join([str(caught.value), *(str(w.message) for w in warned)])
    assert not re.search(rf"271828|2\.718|{ROWS}|{ROWS - 1}|\n", said), said


class _Asked:
    """In an estimator's place at the end of a pipeline: what is seen from there."""

    def fit(self, X: Any, y: Any = None) -> _Asked:
        self.steps_ = fitted_steps(self)
        return self

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("steps", "seen"),
    [
        ([StandardScaler()], ["StandardScaler"]),
        ([FunctionTransformer(np.abs)], []),
        ([OneHotEncoder(categories=[["1", "2"]] * 2)], []),
        ([OneHotEncoder(handle_unknown="ignore")], ["OneHotEncoder"]),
        ([ColumnTransformer([("a", StandardScaler(), [0])], remainder="passthrough")],
         ["StandardScaler"]),
        ([make_pipeline(FunctionTransformer(), StandardScaler()), "passthrough"],
         ["StandardScaler"]),
    ],
)  # fmt: skip
def test_steps_that_learned_from_the_rows_are_seen(steps: list[Any], seen: list[str]) -> None:
    pipe = make_pipeline(*steps, _Asked())
    rows = np.array([["1", "2"], ["2", "1"]])
    data = rows if isinstance(steps[0], OneHotEncoder) else rows.astype(float)
    assert pipe.fit(data, [0, 1])[-1].steps_ == seen
    nested = make_pipeline(*steps, make_pipeline("passthrough", _Asked()))
    assert nested.fit(data, [0, 1])[-1][-1].steps_ == seen


def test_a_fitted_scaler_is_warned_of_and_the_certificate_says_it() -> None:
    X, y = np.random.default_rng(0).uniform(0, 10, (300, 1)), np.arange(300) % 2
    asked = {"epsilon": 10.0, "rows": 300, "steps": 200, "draws": 200, "clamp": True}
    model = DPLogisticRegression(bounds=(-2, 2), classes=[0, 1], **asked)
    with pytest.warns(UserWarning, match="NOT PRIVATE: StandardScaler before it learned"):
        certificate = make_pipeline(StandardScaler(), model).fit(X, y)[-1].privacy_
    assert not certificate.private
    assert not certificate.verify().holds
    alone = DPLogisticRegression(bounds=(0, 10), classes=[0, 1], **asked).fit(X, y).privacy_
    assert alone.private


def test_a_scaled_target_is_seen() -> None:
    found = TransformedTargetRegressor(_Asked(), transformer=StandardScaler())
    assert found.fit(np.ones((2, 1)), [0.0, 1.0]).regressor_.steps_ == ["StandardScaler"]
