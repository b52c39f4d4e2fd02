"""The plan page says what the plan says, and that no row was read for it."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from test_browser import looked_at, needs_browser
from test_report import HOSTILE, Reader

import noisewise as nw
from noisewise._validate import NoisewiseError
from noisewise.models.conjugate import beta_bernoulli
from noisewise.planning import Forecast, Plan
from noisewise.report.plan_page import write_plan_page


@pytest.fixture(scope="module")
def quick() -> Plan:
    """A real plan, by the analytic guess alone."""
    schema = nw.Schema((nw.Column(name="x", kind="binary"),))
    budget = nw.Budget(epsilon=1.0, delta=1e-5)
    return nw.plan(beta_bernoulli, schema=schema, rows=5000, budget=budget, fits=0)


def _simulated(names: tuple[str, ...], failed: int = 0) -> Forecast:
    """As of 100 simulated fits, with coordinates that differ and sds that follow a formula."""
    prior = np.linspace(0.5, 2.0, len(names))
    noise = np.linspace(20, 120, len(names))
    epsilons, sizes = (0.1, 0.3, 1.0, 3.0, 10.0), (1250, 5000, 20_000)

    def sds(epsilon: float, rows: int) -> tuple[float, ...]:
        kept = np.sqrt(60 / rows + (noise / (rows * epsilon)) ** 2)
        return tuple((prior * np.minimum(kept, 1)).tolist())

    return Forecast(
        labels=names,
        prior_sd=tuple(prior.tolist()),
        sd=sds(1.0, 5000),
        single_release_sd=tuple((0.9 * np.array(sds(1.0, 5000))).tolist()),
        z_mean=tuple(np.linspace(-0.2, 0.2, len(names)).tolist()),
        z_sd=tuple(np.linspace(0.9, 1.2, len(names)).tolist()),
        fits=100,
        failed=failed,
        epsilons=epsilons,
        sizes=sizes,
        table=tuple(tuple(sds(e, n) for n in sizes) for e in epsilons),
    )


@pytest.fixture
def page(quick, tmp_path):
    """Write the page about the plan, changed as asked, and give it back."""

    def written(**changes) -> str:
        plan = dataclasses.replace(quick, **changes)
        return write_plan_page(plan, tmp_path / "plan.html").read_text("utf-8")

    return written


def test_what_was_planned_for_and_that_no_row_was_read(page):
    text = Reader(page()).text
    assert "A plan for beta_bernoulli" in text
    assert "5,000 rows under (1, 1e-5)-differential privacy" in text
    assert "No row was read" in text
    assert "no row was read" in text  # the plan's own words
    assert "add-remove" in text


def test_the_guess_is_called_a_guess(quick, page):
    text, forecast = Reader(page()).text, quick.forecast
    assert "no fit was simulated" in text
    assert "z mean" not in text
    numbers = (f"{value[0]:#.3g}" for value in (forecast.prior_sd, forecast.sd))
    assert f"probability {' '.join(numbers)}" in text


def test_simulated_fits_show_their_z_scores_beside_chance(page):
    forecast = _simulated(("intercept", "age", "sex=male"))
    text = Reader(page(forecast=forecast)).text
    assert "Behind this are 100 simulated fits, of which 0 failed" in text
    assert "z mean (right: 0 ± 0.10)" in text
    assert "z sd (right: 1 ± 0.07)" in text
    for i, name in enumerate(forecast.labels):
        prior, sd, release = (
            getattr(forecast, key)[i] for key in ("prior_sd", "sd", "single_release_sd")
        )
        z_mean = f"{forecast.z_mean[i]:.2f}".replace("-", "−")
        cells = f"{prior:#.3g} {sd:#.3g} {100 * sd / prior:.0f}% {release:#.3g} {z_mean}"
        assert f"{name} {cells} {forecast.z_sd[i]:.2f}" in text


def test_failed_fits_have_a_banner(page):
    found = page(forecast=_simulated(("a", "b"), failed=7))
    assert found.count("banner caution") == 1
    assert "7 of 100 simulated fits failed." in found
    assert "banner caution" not in page(forecast=_simulated(("a", "b")))


def test_the_curve_is_there_and_marks_the_plan(page):
    found = page(forecast=_simulated(("a", "b", "c")))
    assert found.count('<svg class="wide"') == found.count('<svg class="narrow"') == 1
    assert found.count(">this plan</text>") == 2
    assert found.count(">5,000 rows (planned)</text>") == 2
    for rows in ("1,250", "20,000"):
        assert found.count(f">{rows} rows</text>") == 2
    assert "Band: the range over parameters" in found
    assert "Band" not in page()


def test_the_table_over_budgets_is_complete(page):
    forecast = _simulated(("a", "b", "c"))
    found = page(forecast=forecast)
    kept = np.array(forecast.table) / np.array(forecast.prior_sd)
    low, middle, high = (f"{100 * f(kept[0, 1]):.0f}%" for f in (np.min, np.median, np.max))
    assert f"<td>{middle} ({low} to {high})</td>" in found
    assert len(re.findall(r"<td><strong>1\d%", found)) == 1  # this plan's cell
    for i, name in enumerate(forecast.labels):
        cells = "".join(f"<td>{forecast.table[e][1][i]:#.3g}</td>" for e in range(5))
        assert f'<th scope="row">{name}</th>{cells}' in found


def test_a_forecast_without_other_budgets_has_a_page(quick, page):
    bare = dataclasses.replace(quick.forecast, epsilons=(), sizes=(), table=())
    assert "the forecast holds no other budgets" in page(forecast=bare)


def test_a_plan_for_rows_that_were_edited_has_a_page(page):
    found = page(rows=6000)
    assert "6,000 rows under" in found
    assert ">this plan</text>" not in found


def test_settings_are_explained(quick, page):
    text, settings = Reader(page()).text, quick.settings
    assert f"clip norm {settings.clip_norm:#.3g} The most that one record's" in text
    assert f"steps {settings.steps:,} So many" in text
    assert f"about {5000 * settings.sampling_rate:,.0f} rows a step" in text
    assert f"contraction rate {settings.contraction_rate:#.3g}" in text
    assert f"burn-in {settings.burn_in:.0%}" in text
    assert "initial step multiplier" in text
    assert "recalibration" not in text


def test_recalibration_is_shown_where_there_is_one(quick, page):
    settings = quick.settings.with_recalibration(np.array([-0.25]), np.array([1.5]))
    text = Reader(page(settings=settings)).text
    assert "recalibration shift −0.250" in text
    assert "recalibration stretch 1.50" in text


def test_settings_with_the_papers_step_size(quick, page):
    settings = dataclasses.replace(quick.settings, contraction_rate=None, step_factor=0.05)
    assert "step factor 0.0500 The paper's factor" in Reader(page(settings=settings)).text


def test_names_are_escaped(page):
    found = page(
        model=HOSTILE, schema=HOSTILE, source=HOSTILE, forecast=_simulated((HOSTILE, "age"))
    )
    reader = Reader(found)
    assert not {tag for tag, _ in reader.tags} & {"script", "b", "img", "iframe", "link"}
    assert reader.text.count(" ".join(HOSTILE.split())) >= 5
    attributes = {name for _, names in reader.tags for name in names}
    assert not any(name.startswith("on") for name in attributes)


def test_the_page_needs_nothing_besides_itself(page):
    found = page(forecast=_simulated(("a", "b", "c")))
    assert "http://" not in found
    assert "https://" not in found
    assert "@import" not in found
    assert "default-src 'none'" in found
    for tag, attributes in Reader(found).tags:
        assert tag not in ("script", "link", "iframe", "img", "object", "base")
        for name in ("src", "href", "xlink:href", "srcset", "data"):
            assert (attributes.get(name) or "#").startswith("#")
    ids = re.findall(r'\sid="([^"]*)"', found)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', found)) <= set(ids)


def test_a_plan_from_a_file_writes_the_same_numbers(quick, tmp_path):
    again = Plan.load(quick.save(tmp_path / "plan.toml"))
    text = Reader(again.report(tmp_path / "again.html").read_text("utf-8")).text
    assert f"probability {quick.forecast.prior_sd[0]:#.3g} {quick.forecast.sd[0]:#.3g}" in text
    assert "plan file plan.toml" in text
    with pytest.raises(NoisewiseError, match="is a folder"):
        quick.report(tmp_path)


@needs_browser
@pytest.mark.parametrize(("width", "drawing"), [(1200, "wide"), (390, "narrow")])
def test_the_page_as_it_is_rendered(page, tmp_path, width, drawing):
    names = ("intercept", HOSTILE, "occupation=" + "m" * 90)
    seen = looked_at(tmp_path, page(forecast=_simulated(names, failed=1)), width)
    assert seen["needed"] <= width, "the page scrolls sideways"
    assert seen["figures"] == [drawing]
    assert seen["headings"] == ["What to expect", "Privacy and utility", "Made for, and settings"]
    assert seen["cut"] == []
    assert seen["overlapping"] == []
    assert seen["scripts"] == 0
    assert seen["requests"] == []
