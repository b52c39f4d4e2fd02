"""Frames, pipelines, labels, refusals: how the estimators are handled."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from noisewise._validate import NoisewiseError
from noisewise.estimators import DPLinearRegression, DPLogisticRegression, DPPoissonRegression

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

_ROWS = 300


def _settings(**changes: Any) -> dict[str, Any]:
    common = {
        "epsilon": 10.0,
        "bounds": (0, 10),
        "rows": _ROWS,
        "steps": 200,
        "draws": 200,
        "insecure_seed": 3,
    }
    return common | changes


@pytest.fixture
def people() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "y": rng.uniform(0, 10, _ROWS),  # a name that the engine has a use for itself
            "intercept": rng.uniform(0, 10, _ROWS),
            "sex": rng.choice(["female", "male"], _ROWS),
            "ill": rng.choice(["no", "yes"], _ROWS),
            "visits": rng.poisson(2.0, _ROWS),
        }
    )


def test_frames_with_awkward_names(people: pd.DataFrame) -> None:
    X = people[["y", "intercept"]]
    found = DPLogisticRegression(**_settings()).fit(X, people["ill"])
    assert list(found.feature_names_in_) == ["y", "intercept"]
    assert found.result_.coordinates["coefficients"] == ["intercept", "y_", "intercept_"]
    assert set(found.predict(X)) <= {"no", "yes"}
    assert found.coef_.shape == (1, 2)
    assert found.intercept_.shape == (1,)


def test_pipeline(people: pd.DataFrame) -> None:
    encode = ColumnTransformer(
        [("sex", OneHotEncoder(drop="first"), ["sex"])], remainder="passthrough"
    )
    bounds = [(0, 1), (0, 10), (0, 10)]
    model = DPPoissonRegression(**_settings(bounds=bounds, target_bounds=(0, 30)))
    piped = clone(make_pipeline(encode, model))
    piped.fit(people[["sex", "y", "intercept"]], people["visits"])
    rates = piped.predict(people[["sex", "y", "intercept"]])
    assert rates.shape == (_ROWS,)
    assert np.all(rates > 0)


def test_steps_with_a_noised_row_count(people: pd.DataFrame) -> None:
    found = DPLogisticRegression(**_settings(rows=None)).fit(people[["y"]], people["ill"])
    assert found.n_iter_ == 200
    assert "noised" in found.privacy_.sources["number of rows"]


@pytest.mark.parametrize(
    ("prior_scale", "expected"), [pytest.param(None, 7.5, marks=pytest.mark.slow), (2.0, 2.0)]
)
def test_priors_in_the_units_of_the_target(
    people: pd.DataFrame, prior_scale: float | None, expected: float
) -> None:
    """Around the middle of the target's bounds; None is a quarter of their range."""
    model = DPLinearRegression(**_settings(target_bounds=(0, 30), prior_scale=prior_scale))
    found = model.fit(people[["y"]], people["visits"]).result_.request.settings
    sds = np.sqrt(np.diag(np.linalg.inv(found.prior_precision)))
    np.testing.assert_allclose(sds, [expected, expected, 0.5], rtol=0.1)
    np.testing.assert_allclose(found.location[:2], [15, 0], atol=expected / 10)
    assert np.exp(found.location[2]) == pytest.approx(0.7 * 7.5, rel=0.1)


@pytest.mark.parametrize(
    ("unit", "shift"),
    [
        pytest.param(1e-6, 0.0, marks=pytest.mark.slow),
        pytest.param(1e6, 0.0, marks=pytest.mark.slow),
        pytest.param(1e12, 0.0, marks=pytest.mark.slow),
        (1.0, 1e4),
    ],
)
def test_units_of_the_target_do_not_matter(unit: float, shift: float) -> None:
    """Within a tenth of an sd."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (_ROWS, 1))
    y = 0.1 * (X[:, 0] - 5) + 0.1 * rng.uniform(-1, 1, _ROWS)
    plain = DPLinearRegression(**_settings(target_bounds=(-1, 1))).fit(X, y)
    bounds = (shift - unit, shift + unit)
    other = DPLinearRegression(**_settings(target_bounds=bounds, clamp=True))
    other.fit(X, shift + unit * y)
    found, sd = other.coef_draws_ / unit, plain.coef_draws_.std()
    assert found.mean() == pytest.approx(plain.coef_.item(), abs=0.1 * sd)
    assert found.std() == pytest.approx(sd, rel=0.1)


def test_a_target_beyond_single_precision_is_refused(people: pd.DataFrame) -> None:
    model = DPLinearRegression(**_settings(target_bounds=(1e7 - 1, 1e7 + 1), clamp=True))
    with pytest.raises(NoisewiseError, match="subtract a public number") as caught:
        model.fit(people[["y"]], people["visits"] * 0 + 1e7)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "kind", [pytest.param(DPPoissonRegression, marks=pytest.mark.slow), DPLinearRegression]
)
def test_a_declared_mean_centres_the_prior(people: pd.DataFrame, kind: type) -> None:
    model = kind(**_settings(target_bounds=(0, 30), target_mean=12))
    found = model.fit(people[["y"]], people["visits"]).result_.request.settings
    centre = np.log(12) if kind is DPPoissonRegression else 12
    assert found.location[0] == pytest.approx(centre, rel=0.1)
    for wrong in (31, "12", float("nan")):
        with pytest.raises(NoisewiseError, match="target_mean must be a number within"):
            model.set_params(target_mean=wrong).fit(people[["y"]], people["visits"])


def test_known_seed_repeats_the_fit(people: pd.DataFrame) -> None:
    X = people[["y"]].to_numpy()
    first, second = (
        DPLinearRegression(**_settings(target_bounds=(0, 30))).fit(X, people["visits"])
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.coef_draws_, second.coef_draws_)


def test_labels_found_and_declared(people: pd.DataFrame) -> None:
    X = people[["y"]]
    found = DPLogisticRegression(**_settings()).fit(X, people["ill"])
    assert "found in y" in found.privacy_.sources["label set"]
    assert any("declare classes" in reason for reason in found.privacy_.not_private_because)
    assert not found.privacy_.private
    declared = DPLogisticRegression(**_settings(classes=["yes", "no"])).fit(X, people["ill"])
    assert "declared" in declared.privacy_.sources["label set"]
    assert list(declared.classes_) == ["no", "yes"]
    np.testing.assert_array_equal(declared.coef_draws_, found.coef_draws_)


def test_declared_labels_allow_a_table_with_one(people: pd.DataFrame) -> None:
    nobody = np.full(_ROWS, "no")
    found = DPLogisticRegression(**_settings(classes=["no", "yes"])).fit(people[["y"]], nobody)
    assert found.predict_proba(people[["y"]])[:, 0].mean() > 0.5
    with pytest.raises(ValueError, match="one class only"):
        DPLogisticRegression(**_settings()).fit(people[["y"]], nobody)


def test_labels_beyond_the_declared_are_not_quoted(people: pd.DataFrame) -> None:
    y = people["ill"].to_numpy(dtype=object)
    y[7] = "a rare disease"
    with pytest.raises(NoisewiseError, match="not among the declared classes") as caught:
        DPLogisticRegression(**_settings(classes=["no", "yes"])).fit(people[["y"]], y)
    assert "rare" not in str(caught.value)


def test_clamping_also_holds_when_predicting(people: pd.DataFrame) -> None:
    X = people[["y"]].to_numpy()
    model = DPLinearRegression(**_settings(target_bounds=(0, 30), clamp=True))
    model.fit(X, people["visits"])
    assert model.predict([[1e6]]) == pytest.approx(model.predict([[10.0]]))
    model.set_params(clamp=False)
    assert model.predict([[1e6]]) != pytest.approx(model.predict([[10.0]]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bounds": None}, "bounds must be declared from outside knowledge"),
        ({"bounds": (0, 1, 2)}, r"bounds must be \(lo, hi\) for all features, or a list of 1"),
        ({"bounds": [(0, 10), (0, 10)]}, r"bounds must be \(lo, hi\) for all features"),
        ({"bounds": "wide"}, r"bounds must be \(lo, hi\) for all features"),
        ({"bounds": (10, 0)}, "expected lo < hi"),
        ({"bounds": (0, float("nan"))}, "expected two finite numbers"),
        ({"target_bounds": None}, "target_bounds must be declared from outside knowledge"),
        ({"target_bounds": 5}, "expected two finite numbers"),
        ({"epsilon": -1.0}, "epsilon must be a positive"),
        ({"rows": _ROWS + 1}, "the schema declares rows"),
        ({"prior_scale": 0.0}, "prior_scale must be a positive number"),
    ],
)
def test_refused_parameters(people: pd.DataFrame, changes: dict[str, Any], message: str) -> None:
    model = DPPoissonRegression(**_settings(target_bounds=(0, 30)) | changes)
    with pytest.raises(NoisewiseError, match=message) as caught:
        model.fit(people[["y"]], people["visits"])
    assert "\n" not in str(caught.value)


def _spoilt(people: pd.DataFrame, where: str, value: Any) -> tuple[np.ndarray, np.ndarray]:
    spoilt = people[["y", "visits"]].astype(object)
    spoilt.loc[11, "y" if where == "X" else "visits"] = value
    return spoilt[["y"]].to_numpy(), spoilt["visits"].to_numpy()


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("X", 73.25, "outside its declared bounds"),
        ("y", 73.0, "outside its declared bounds"),
        ("y", 0.7325, "whole numbers from 0"),
        ("X", float("nan"), "NaN"),
        ("y", float("nan"), "NaN"),
        ("X", float("inf"), "infinity"),
        ("X", "73 years", "text that is not numbers"),
        ("y", "73 visits", "text that is not numbers"),
    ],
)
def test_refused_data_is_not_quoted(
    people: pd.DataFrame, where: str, value: Any, message: str
) -> None:
    X, y = _spoilt(people, where, value)
    with pytest.raises(ValueError, match=message) as caught:
        DPPoissonRegression(**_settings(target_bounds=(0, 30))).fit(X, y)
    assert "73" not in str(caught.value)


def test_lengths_are_not_quoted(people: pd.DataFrame) -> None:
    X, y = people[["y"]], people["visits"][:-1]
    with pytest.raises(NoisewiseError, match="not equally long") as caught:
        DPPoissonRegression(**_settings(target_bounds=(0, 30))).fit(X, y)
    assert not any(character.isdigit() for character in str(caught.value))


def test_level_is_checked(people: pd.DataFrame) -> None:
    model = DPPoissonRegression(**_settings(target_bounds=(0, 30)))
    model.fit(people[["y"]], people["visits"])
    assert model.coef_interval().shape == (1, 2)
    with pytest.raises(NoisewiseError, match="level must be"):
        model.coef_interval(95)


def test_without_a_seed_the_fit_is_private(people: pd.DataFrame) -> None:
    model = DPLogisticRegression(**_settings(insecure_seed=None, classes=["no", "yes"]))
    found = model.fit(people[["y"]], people["ill"])
    assert found.privacy_.private
    assert found.privacy_.epsilon_spent <= 10.0


def test_scikit_learn_is_optional() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import noisewise.estimators"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert "pip install noisewise[sklearn]" in last
