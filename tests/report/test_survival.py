"""Survival curves: the formulas, by hand; who is typical; what is refused; the picture."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from noisewise import NoisewiseError
from noisewise.data import Column, Schema
from noisewise.models import bind_model
from noisewise.report.page import write_report
from noisewise.report.survival import survival_figure

COLUMNS = (
    Column(name="age", kind="real", bounds=(20, 100), mean=60, sd=12),
    Column(name="smoker", kind="binary"),
    Column(name="ward", kind="category", categories=("a", "b", "c")),
    Column(name="months", kind="real", bounds=(0.1, 40), mean=10, sd=8),
    Column(name="died", kind="binary"),
)
B = np.array([-0.7, 0.4, 0.2, -0.3, 0.5])


@cache
def bound_model(name):
    return bind_model(name, Schema(COLUMNS), ["months", "died"])


@pytest.fixture
def fitted(make_result):
    def make(name, **own):
        bound = bound_model(name)
        spread = np.random.default_rng(0).normal(0, 0.05, (400, len(B)))
        extra = {one: np.broadcast_to(value, (400, *np.shape(value))) for one, value in own.items()}
        result = make_result(
            model=bound.name,
            schema=bound.view.schema,
            target="months",
            event="died",
            encoding=tuple(bound.view.encoder.describe()),
        )
        object.__setattr__(result, "draws", {"coefficients": B + spread, **extra})
        object.__setattr__(result, "noise_unaware", {})
        object.__setattr__(result, "coordinates", bound.coordinates)
        return result

    return make


def test_a_weibulls_curve_is_the_formula(fitted):
    result = fitted("weibull", shape=1.4)
    found = result.survival({"age": [72], "smoker": 1, "ward": "b"}, times=[0, 5, 40])
    predictor = result.draws["coefficients"] @ [1, 1, 1, 1, 0]
    expected = np.exp(-np.exp(predictor)[:, None] * (np.array([0, 5, 40]) / 10) ** 1.4)
    assert np.allclose(found["survival"], expected.mean(0), atol=1e-6)
    assert np.allclose(found["lower"], np.quantile(expected, 0.025, axis=0), atol=1e-6)
    assert np.allclose(found["upper"], np.quantile(expected, 0.975, axis=0), atol=1e-6)
    assert next(iter(found.index)) == ("age=72, smoker=1, ward=b", 0.0)


def test_a_piecewise_curve_is_the_formula(fitted):
    result = fitted("piecewise-exponential(cuts=6, 12)", baseline=np.array([0.5, -1.0]))
    found = result.survival({"ward": ["a", "c"]}, times=[3, 8, 30])
    hazards = np.exp(np.array([0, 0.5, -1.0])) / 10
    cumulative = np.array([3, 6, 6]) * hazards[0]
    cumulative = cumulative + np.array([0, 2, 6]) * hazards[1] + np.array([0, 0, 18]) * hazards[2]
    for ward, row in (("a", [1, 0, 0, 0, 0]), ("c", [1, 0, 0, 0, 1])):
        predictor = result.draws["coefficients"] @ row
        expected = np.exp(-np.exp(predictor)[:, None] * cumulative).mean(0)
        assert np.allclose(found.loc[f"ward={ward}", "survival"], expected, atol=1e-6)


def test_what_is_left_out_is_typical(fitted):
    result = fitted("weibull", shape=1.0)
    typical = result.survival(times=[12])
    said = result.survival({"age": 60, "smoker": 0, "ward": "a"}, times=[12])
    assert list(typical.index) == [("typical", 12.0)]
    assert np.allclose(typical, said)


def test_people_of_a_frame_keep_their_names(fitted):
    frame = pd.DataFrame({"age": [50.0, 80.0]}, index=["young", "old"])
    found = fitted("weibull", shape=1.0).survival(frame)
    assert list(found.index.unique("who")) == ["young", "old"]
    by_who = found["survival"].unstack("who")
    assert by_who.index[0] == 0 and by_who.index[-1] == 40
    assert (by_who.iloc[0] == 1).all() and (by_who["old"].iloc[1:] < by_who["young"].iloc[1:]).all()
    assert (found["lower"] <= found["upper"]).all()


@pytest.mark.parametrize(
    ("people", "times", "message"),
    [
        ({"weight": [3]}, None, "'weight', which is no feature"),
        ({"months": [3]}, None, "'months', which is no feature"),
        ([1, 2], None, "must be a frame or a dictionary"),
        ({"age": [3]}, None, "outside its declared bounds"),
        ({"age": [30, 40], "smoker": [0, 1, 1]}, None, "equally long"),
        ({"ward": ["z"]}, None, "no declared category"),
        (None, [50], "between 0 and 40"),
        (None, [-1], "between 0 and 40"),
        (None, [], "between 0 and 40"),
        (None, [np.nan], "times"),
    ],
)
def test_bad_people_and_times_are_refused_in_a_line(people, times, message, fitted):
    with pytest.raises(NoisewiseError, match=message) as refused:
        fitted("weibull", shape=1.0).survival(people, times)
    assert "\n" not in str(refused.value)


def test_predictions_point_to_the_curves(fitted):
    with pytest.raises(NoisewiseError, match=r"result\.survival\("):
        fitted("weibull", shape=1.0).predict({"age": [50], "smoker": [1], "ward": ["a"]})


def test_other_models_have_no_curves(make_result):
    with pytest.raises(NoisewiseError, match="fit weibull or piecewise"):
        make_result().survival()
    assert survival_figure(make_result()) == ""


def test_the_report_draws_a_panel_a_feature(fitted, tmp_path):
    result = fitted("weibull", shape=1.4)
    text = write_report(result, tmp_path / "fit.html").read_text("utf-8")
    assert "still without the event" in text and "Hazard ratio: the hazard of died" in text
    figure = survival_figure(result)
    for word in ("age", "smoker", "ward", ">48<", ">72<", ">c<"):
        assert word in figure
    assert figure.count(">months<") == 2 * 3  # the time axis of every panel, wide and narrow


def test_a_diverged_fit_has_no_picture(fitted):
    result = fitted("weibull", shape=1.4)
    result.draws["coefficients"][0] = np.nan
    assert survival_figure(result) == ""
