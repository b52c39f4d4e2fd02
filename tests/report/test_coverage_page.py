"""The coverage page says what the simulations say, and hides no failure."""

from __future__ import annotations

import re
from functools import cache
from html import escape

import numpy as np
import pytest
from test_browser import looked_at, needs_browser
from test_report import HOSTILE, Reader

from noisewise._validate import NoisewiseError
from noisewise.coverage import Coverage
from noisewise.evaluation import predictive_calibration
from noisewise.report.coverage_intervals import simulated_intervals
from noisewise.report.coverage_page import MOST_PANELS, write_coverage_page
from noisewise.report.numbers import rounded

_NAMES = ("intercept", "age", "sex=male")
_ERROR, _WANDERING = 0.3, 0.3


def _coverage(
    names: tuple[str, ...] = _NAMES,
    *,
    width: float = 1.0,
    failed: int = 0,
    unsettled: int = 0,
    prior_sd: float = 1.0,
    predictive: bool = False,
    **about: object,
) -> Coverage:
    """Gaussian truths and data: exact posteriors, their sds times ``width``."""
    rng, shape = np.random.default_rng(0), (200, len(names))
    truth = prior_sd * rng.normal(size=shape)
    sd = (prior_sd**-2 + _ERROR**-2) ** -0.5
    mean = (truth + _ERROR * rng.normal(size=shape)) * (sd / _ERROR) ** 2
    draws = mean[:, None] + width * sd * rng.normal(size=(200, 100, len(names)))
    draws[:failed] = np.nan
    status = np.repeat(["DIVERGED", "NOT_CONVERGED", "OK"], [failed, unsettled, 200])[:200]
    chances = rng.uniform(size=5000)
    outcomes = rng.uniform(size=5000) < chances
    return Coverage(
        truth=truth,
        draws=draws,
        noise_unaware_mean=mean + _WANDERING * rng.normal(size=shape),
        noise_unaware_sd=np.full(shape, sd / 3),
        status=status,
        labels=names,
        single_release_sd=np.full(len(names), sd),
        about={"model": "logistic", "rows": 20_000, "epsilon": 1.0, "delta": 1e-5, **about},
        predictive=predictive_calibration(chances, outcomes) if predictive else None,
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Write the page about ``_coverage(...)``, each once, and give it back."""
    folder = tmp_path_factory.mktemp("coverage")

    @cache
    def written(*args, **kwargs) -> str:
        found = _coverage(*args, **kwargs)
        return write_coverage_page(found, folder / "coverage.html").read_text("utf-8")

    return written


def _headline(page: str) -> str:
    found = re.search(r"<h1>(.*?)</h1>", page, flags=re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(("width", "said"), [(1.0, "are right to within"), (0.6, "too narrow by")])
def test_the_verdict_is_the_headline(page, width, said):
    verdict, found = _coverage(width=width).verdict, page(width=width)
    assert said in verdict.words
    assert escape(verdict.words[1:]) in _headline(found)
    for line in verdict.lines:
        assert f"<li>{escape(line)}</li>" in found
    assert ("banner caution" in found) is not verdict.good


def test_what_was_simulated_is_said(page):
    text = Reader(page(seed=12345, recalibrated=True)).text
    assert "200 tables of 20,000 rows were simulated from model logistic" in text
    assert "(1, 1e-5)-differential privacy" in text
    assert "No row was read" in text
    assert "seed 12345 recalibrated yes" in text


def test_a_run_that_says_nothing_about_itself_has_a_page(tmp_path):
    found = _coverage()
    found.about.clear()
    text = Reader(write_coverage_page(found, tmp_path / "a.html").read_text("utf-8")).text
    assert "200 tables were simulated from the model" in text


def test_every_parameter_has_its_numbers(page):
    found, text = _coverage(), Reader(page()).text
    for row in found.table():
        z_mean, z_sd = rounded(row["z_mean"], 2), rounded(row["z_sd"], 2)
        ratio = row["error"] / row["single_release_sd"]
        assert f"{row['parameter']} {z_mean} {z_sd} {row['coverage_rmse']:.3f}" in text
        assert f"{row['error']:#.3g} {row['reported_sd']:#.3g}" in text
        assert f"{ratio:.2f} {row['noise_unaware_z_sd']:.2f}" in text
    assert "right: 0 ± 0.07" in text
    assert "right: 1 ± 0.05" in text
    assert f"{found.rmse:.3f}" in text
    assert f"chance alone gives a perfect posterior {found.floor:.3f}" in text


def test_only_what_is_beyond_chance_is_bold(page):
    table = re.search(r'<section id="table">.*?</section>', page(width=0.6), flags=re.DOTALL)
    assert table is not None
    assert len(re.findall(r"<td><strong>1\.\d\d</strong></td>", table[0])) == 3
    quiet = re.search(r'<section id="table">.*?</section>', page(), flags=re.DOTALL)
    assert quiet is not None
    assert "<strong>" not in quiet[0]


def test_failed_and_unsettled_fits_are_never_hidden(page):
    found = page(failed=3, unsettled=5)
    text = Reader(found).text
    assert "3 of 200 fits failed" in _headline(found)
    assert "fits failed 3 of 200" in text
    assert "3 of 200 fits failed: their draws are not finite" in text
    assert "fits not settled 5 of 200" in text
    assert "5 say that they did not settle" in text
    assert "diverged 3 (1.5%)" in text
    assert "not converged 5 (2.5%)" in text
    assert "ok 192 (96.0%)" in text
    assert "Cross: the fit failed" in text
    assert not re.search(r"\bnan\b", text)
    good = Reader(page()).text
    assert "None of the 200 fits failed" in good
    assert "Cross" not in good


def test_intervals_of_failed_fits_do_not_hold_the_truth():
    found = _coverage(failed=40)
    seen = simulated_intervals(found, 1)
    held = seen.held(seen.aware)
    assert not held[:40].any()
    assert 0.88 < held[40:].mean() < 1.0
    assert seen.held(seen.unaware).mean() < 0.6
    first = seen.first(60)
    assert (np.diff(first.truth) >= 0).all()
    assert np.isnan(first.aware[0]).sum() == 40


def test_the_share_of_intervals_that_hold_is_said_for_both(page):
    found, text = _coverage(("only",)), Reader(page(("only",))).text
    seen = simulated_intervals(found, 0)
    some = seen.first(60)
    for every, drawn in ((seen.aware, some.aware), (seen.unaware, some.unaware)):
        assert f"{seen.held(every).mean():.0%}" in text
        assert f"{some.held(drawn).sum()} of 60 hold the truth" in text
    assert "the only parameter" in text


def test_specks_are_drawn_around_their_truths(page):
    assert "taken off each interval" in Reader(page(prior_sd=50.0)).text
    assert "taken off each interval" not in Reader(page()).text


def test_a_run_in_which_all_failed_still_has_a_page(page):
    found = page(failed=200)
    text = Reader(found).text
    assert "200 of 200 fits failed" in _headline(found)
    assert found.count("<svg ") == 4  # joint and marginal coverage, wide and narrow
    assert text.count("There is nothing to draw") == 2
    assert not re.search(r"\bnan\b", text)


def test_each_figure_is_there_wide_and_narrow_with_words_for_those_who_cannot_see(page):
    for found, count in ((page(), 4), (page(predictive=True), 5)):
        for kind in ("wide", "narrow"):
            assert found.count(f'<svg class="{kind}"') == count
        assert len(set(re.findall(r'aria-label="([^"]{30,})"', found))) >= count
    assert 'href="#predictive"' not in page()


def test_predictions_are_compared_with_chance(page):
    predictive, text = _coverage(predictive=True).predictive, Reader(page(predictive=True)).text
    assert predictive is not None
    assert f"Off by {predictive.rmse:.4f} (root mean square)" in text
    assert f"where chance gives {predictive.floor:.4f}" in text
    assert "5,000 new records" in text


def test_of_many_parameters_the_worst_are_drawn_and_all_tabled(tmp_path):
    names = tuple(f"x[{i}]" for i in range(40))
    found = _coverage(names)
    found.draws[:, :, 33] *= 0.5
    page = write_coverage_page(found, tmp_path / "a.html").read_text("utf-8")
    assert f"The {MOST_PANELS} of 40 parameters whose coverage is furthest off" in page
    drawn = {name for name in names if f">{name}</text>" in page}
    assert len(drawn) == MOST_PANELS
    assert "x[33]" in drawn
    for name in names:
        assert f'<th scope="row">{name}</th>' in page
    assert "of 3 parameters" not in page


def test_plain_posteriors_are_not_called_noise_aware(page):
    assert "noise-aware" not in page(posterior="naive")
    assert "noise-aware" in page(posterior="analytic")


def test_names_are_escaped(page):
    found = page((HOSTILE, "age"), width=0.5, failed=1, model=HOSTILE, **{HOSTILE: HOSTILE})
    reader = Reader(found)
    assert not {tag for tag, _ in reader.tags} & {"script", "b", "img", "iframe", "link"}
    assert found.count("<svg ") == found.count("</svg>") == 8
    assert reader.text.count(" ".join(HOSTILE.split())) >= 5
    attributes = {name for _, names in reader.tags for name in names}
    assert not any(name.startswith("on") for name in attributes)


def test_the_page_needs_nothing_besides_itself(page):
    found = page(predictive=True)
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


def test_the_page_is_the_same_every_time(page, tmp_path):
    again = write_coverage_page(_coverage(), tmp_path / "again.html")
    assert again.read_text("utf-8") == page()


def test_a_coverage_writes_its_own_page(tmp_path):
    path = _coverage().report(str(tmp_path / "new" / "coverage.html"))
    assert path.read_text("utf-8").rstrip().endswith("</html>")
    with pytest.raises(NoisewiseError, match="is a folder"):
        _coverage().report(tmp_path)


@needs_browser
@pytest.mark.parametrize(("width", "drawing"), [(1200, "wide"), (390, "narrow")])
def test_the_page_as_it_is_rendered(page, tmp_path, width, drawing):
    names = ("intercept", HOSTILE, "occupation=" + "m" * 90, *(f"w[{i}]" for i in range(4)))
    seen = looked_at(tmp_path, page(names, failed=2, predictive=True), width)
    assert seen["needed"] <= width, "the page scrolls sideways"
    assert seen["figures"] == [drawing] * 5
    assert len(seen["headings"]) == 7
    assert seen["cut"] == []
    assert seen["overlapping"] == []
    assert seen["scripts"] == 0
    assert seen["requests"] == []
