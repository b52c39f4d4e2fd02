"""What a notebook shows: whole, escaped, and drawn."""

from dataclasses import replace

import numpy as np
import pytest

import noisewise as nw
from noisewise.planning.forecast import Forecast
from report.test_report import HOSTILE, Reader


def test_a_result_shows_status_intervals_and_what_is_void(make_result):
    shown = Reader(make_result()._repr_html_()).text
    assert shown.startswith("Logistic regression of visited")
    assert "sex=male" in shown and "The fit went well" in shown
    assert "Coefficients per original unit" in shown and "parameter (per unit) mean sd" in shown
    void = Reader(make_result(reasons=("insecure_seed=3",))._repr_html_()).text
    assert "NOT PRIVATE: insecure_seed=3" in void


def test_names_are_escaped(make_result):
    shown = make_result(("intercept", HOSTILE, "b"), model=HOSTILE, target=HOSTILE)._repr_html_()
    assert "<script" not in shown
    assert HOSTILE.split(" ")[0].replace("<", "&lt;").replace(">", "&gt;") in shown


def test_certificate_schema_and_plan(make_result):
    result = make_result()
    assert "gradients 10,000 0.1 56.6" in Reader(result.privacy._repr_html_()).text
    assert "age real in [0, 100]" in Reader(result.request.schema._repr_html_()).text
    forecast = Forecast(labels=("age",), prior_sd=(1.0,), sd=(0.25,), single_release_sd=(0.2,))
    plan = nw.Plan(
        settings=result.request.settings,
        rows=2000,
        schema=result.request.schema.fingerprint(),
        budget=result.privacy.budget,
        model="logistic",
        forecast=forecast,
    )
    assert "age 1 0.25 0.2" in Reader(plan._repr_html_()).text
    assert repr(plan) == (
        "Plan(for logistic, 2000 rows, epsilon 1, delta 1e-06, add-remove adjacency: 10000 steps; "
        "expected sds 0.25 to 0.25 for 1 parameters, from no simulated fit)"
    )


@pytest.mark.parametrize("compared", [True, False])
def test_a_plot_has_a_line_for_every_parameter(make_result, compared):
    result = make_result()
    if not compared:
        result = replace(result, noise_unaware={})
    (axes,) = result.plot().axes
    assert axes.get_xlabel().startswith("95% interval and mean, encoded: summary(per_unit=True)")
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["intercept", "age", "sex=male"]
    assert len(axes.collections) == 1 + compared


def test_a_result_in_text_has_its_coefficients(make_result):
    shown = repr(make_result(reasons=("insecure_seed=3",)))
    assert shown.startswith(
        "NOT PRIVATE: insecure_seed=3\nResult of logistic of visited, status ok"
    )
    assert "parameter (encoded)" in shown and "sex=male" in shown and "epsilon 0.73" in shown
    wide = repr(make_result(("intercept", *(f"x{i}" for i in range(30)))))
    assert "21 more in .summary()" in wide and wide.count("\n") < 20


def test_units_are_named_wherever_numbers_are(make_result):
    """The intercept is two numbers: of the encoded features, and per original unit."""
    result = make_result()
    encoded, own = result.summary(), result.summary(per_unit=True)
    assert encoded.loc["intercept", "mean"] != own.loc["intercept", "mean"]
    assert (encoded.index.name, own.index.name) == ("parameter (encoded)", "parameter (per unit)")
    plain = make_result(("intercept", "sex=male"))
    assert plain.summary().index.name == "parameter"
    (axes,) = plain.plot().axes
    assert axes.get_xlabel() == "95% interval and mean"


def test_a_residual_sd_is_not_lost_beside_coefficients_per_unit(make_result):
    shown = make_result(extra={"noise": np.full(800, 2.5)})._repr_html_()
    assert "<td>noise</td>" in shown
