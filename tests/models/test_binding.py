"""Which column becomes which argument of a model."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.models import bind_model

SCHEMA = nw.Schema(
    (
        nw.Column(name="x", kind="real", bounds=(0, 1)),
        nw.Column(name="y", kind="count", bounds=(0, 20)),
    )
)


def own(X, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("people", X.shape[0]):
        numpyro.sample("y", dist.Poisson(2.0 + X @ w), obs=y)


def test_a_column_called_y_is_no_target_of_a_regression_unless_it_is_named():
    with pytest.raises(nw.NoisewiseError, match="no target was named"):
        bind_model("poisson", SCHEMA)
    assert bind_model("poisson", SCHEMA, "y").view.feature_names == ["intercept", "x"]


def test_a_column_called_y_does_not_explain_itself_in_a_model_of_ones_own():
    view = bind_model(own, SCHEMA).view
    assert view.feature_names == ["intercept", "x"] and view.target == "y"
    rows = view.encode({"x": np.array([0.2, 0.9]), "y": np.array([3, 5])})
    assert rows["X"].shape == (2, 2) and rows["y"].tolist() == [3, 5]
