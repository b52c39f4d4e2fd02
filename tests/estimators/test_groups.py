"""Estimators that protect groups of rows: `fit(X, y, groups=...)`."""

import numpy as np
import pytest

import noisewise as nw
from noisewise.estimators import DPLinearRegression, DPLogisticRegression, DPPoissonRegression

PEOPLE = np.repeat(np.arange(400), 3)
X = np.random.default_rng(0).uniform(0, 10, (1200, 2))
USUAL = {"bounds": (0, 10), "steps": 60, "draws": 100, "insecure_seed": 1, "covariate_share": 0.0}


def test_groups_are_what_is_protected():
    y = np.random.default_rng(1).integers(0, 2, 1200)
    model = DPLogisticRegression(classes=[0, 1], max_rows=3, rows=400, **USUAL)
    model.fit(X, y, groups=[f"person {k}" for k in PEOPLE])
    assert model.privacy_.sources["protects"] == "one group with all its rows, up to 3"
    assert model.result_.request.public_count == 400
    assert model.predict_proba(X[:4]).shape == (4, 2)


@pytest.mark.parametrize(
    "kind", [DPLinearRegression, pytest.param(DPPoissonRegression, marks=pytest.mark.slow)]
)
def test_regressors_take_groups(kind):
    y = np.random.default_rng(1).poisson(2, 1200).clip(0, 9)
    model = kind(target_bounds=(0, 9), max_rows=4, rows=400, **USUAL).fit(X, y, groups=PEOPLE)
    assert "one group" in str(model.privacy_)


def test_half_a_declaration_is_refused():
    y = np.random.default_rng(1).integers(0, 2, 1200)
    with pytest.raises(nw.NoisewiseError, match="groups is given without max_rows"):
        DPLogisticRegression(classes=[0, 1], **USUAL).fit(X, y, groups=PEOPLE)
    with pytest.raises(nw.NoisewiseError, match="max_rows is given without groups"):
        DPLogisticRegression(classes=[0, 1], max_rows=3, **USUAL).fit(X, y)


def test_groups_of_another_length_or_size_are_refused():
    y = np.random.default_rng(1).integers(0, 2, 1200)
    model = DPLogisticRegression(classes=[0, 1], max_rows=3, **USUAL)
    with pytest.raises(nw.NoisewiseError, match="not equally long"):
        model.fit(X, y, groups=PEOPLE[:-1])
    with pytest.raises(nw.NoisewiseError, match="more rows than the declared max_rows = 3"):
        model.fit(X, y, groups=PEOPLE // 2)
