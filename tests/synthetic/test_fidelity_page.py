"""The fidelity page says what was measured, and shows no real row unless it was handed one."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import noisewise as nw
from noisewise.report.fidelity_page import _context
from noisewise.synthetic import marginals
from noisewise.synthetic.marginals import measure
from report.test_browser import looked_at, needs_browser
from report.test_report import HOSTILE, Reader
from synthetic.clinic import SCHEMA, clinic, made_result


@pytest.fixture(scope="module", autouse=True)
def smaller():
    """Comparison tables that are as quick to draw as the tables themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "_RELEASED", 32)
        patch.setattr(marginals, "_LARGE", 1500)
        yield


@pytest.fixture(scope="module")
def page(tables, tmp_path_factory) -> str:
    path = tables.fidelity(tmp_path_factory.mktemp("fidelity") / "page.html")
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory) -> str:
    """Everything on one page: banners, hostile names, long ones, the real table."""
    wards = nw.Column(name="ward", kind="category", categories=(HOSTILE, "m" * 90, "east"))
    schema = nw.Schema(tuple(wards if c.name == "ward" else c for c in SCHEMA))
    result = made_result(schema)
    result = replace(
        result,
        privacy=replace(result.privacy, not_private_because=(f"a reason: {HOSTILE}",)),
    )
    with pytest.warns(UserWarning, match="NOT PRIVATE"):
        tables = nw.synthesize(result, model=clinic, copies=30, noise_unaware=True, seed=3)
    rng = np.random.default_rng(0)
    real = nw.Table.from_arrays(tables.schema.simulate(rng, 500), tables.schema)
    path = tables.fidelity(tmp_path_factory.mktemp("crowded") / "page.html", unsafe_data=real)
    return path.read_text("utf-8")


def test_what_the_tables_are_and_what_they_cost(page, tables):
    reader = Reader(page)
    assert "Synthetic tables from clinic" in reader.text
    assert "30 tables of 1,500 rows, each drawn from one draw of the noise-aware" in reader.text
    assert f"({tables.privacy.epsilon_spent:.3g}, 1e-6)-differential privacy" in reader.text
    assert "NOT PRIVATE" not in reader.text and 'role="alert"' not in page
    assert "exact" not in reader.text
    ids = [attributes.get("id") for tag, attributes in reader.tags if tag == "section"]
    assert ids == ["columns", "pairs", "use"]


@pytest.mark.parametrize(
    ("posterior", "noise_unaware", "words"),
    [
        ("laplace", False, "the noise-aware posterior."),
        ("averaged", False, "DPVIm's averaged posterior, whose spread is"),
        ("averaged", True, "plain DPVI's posterior, which ignores the privacy noise."),
        ("naive", False, "plain DPVI's posterior, which ignores the privacy noise."),
    ],
)
def test_the_posterior_is_called_by_its_name(tables, posterior, noise_unaware, words):
    result = made_result(SCHEMA, request={"posterior": posterior})
    made = nw.synthesize(result, model=clinic, copies=2, noise_unaware=noise_unaware, seed=0)
    lead = _context(made, measure(tables), False)["lead"]
    assert f"each drawn from one draw of {words}" in lead
    assert f"each from one draw of {words}" in made._readme()


def test_the_numbers_are_the_tables_own(page, tables):
    text = Reader(page).text
    ill = tables.map(lambda table: table["ill"].mean())
    low, high = np.quantile(ill, [0.025, 0.975])
    assert f"ill 1 {100 * np.mean(ill):.1f}% {100 * low:.1f}% to {100 * high:.1f}%" in text
    visits = tables.map(lambda table: table["visits"].mean())
    assert f"visits mean {np.mean(visits):#.3g}" in text
    assert re.search(
        r"Drawn outside the declared bounds, and moved to them: [67]\.\d% of visits", text
    )
    assert text.count("visits, ward") == 1


def test_the_real_table_makes_the_page_not_private(crowded):
    text = Reader(crowded).text
    assert crowded.count("banner void") == 1
    assert "NOT PRIVATE: do not release this page" in text
    assert "the real table's exact marginals are on this page, without any noise" in text
    assert "a reason: <script>" in text
    assert "ignores the privacy noise: they are too much alike" in text
    assert re.search(r"Of \d+ exact shares, \d+ lie within the posterior's 95% intervals", text)
    assert text.count("exact, NOT PRIVATE") >= 2
    assert "Above: in the real table, NOT PRIVATE." in text


def test_names_are_escaped_and_nothing_is_fetched(crowded):
    reader = Reader(crowded)
    tags = {tag for tag, _ in reader.tags}
    assert not tags & {"script", "link", "iframe", "img", "object", "base"}
    assert "http://" not in crowded and "https://" not in crowded
    assert "default-src 'none'" in crowded
    for _, attributes in reader.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    ids = re.findall(r'\sid="([^"]*)"', crowded)
    assert len(ids) == len(set(ids))


def test_one_column_has_no_pairs(tmp_path):
    result = made_result(SCHEMA)
    request = replace(result.request, model="ones", arguments=("ill",))
    risk = {"risk": result.draws["risk"]}
    ones = replace(result, draws=risk, noise_unaware=risk, request=request)
    path = nw.synthesize(ones, model=_ones(), copies=4, seed=0).fidelity(tmp_path / "page.html")
    assert "there is no pair" in path.read_text("utf-8")


def test_values_that_all_lie_on_a_bound(tmp_path):
    score = nw.Column(name="score", kind="real", bounds=(50, 60), shape=(2,))
    schema = nw.Schema(tuple(score if c.name == "score" else c for c in SCHEMA))
    made = nw.synthesize(made_result(schema), model=clinic, copies=3, seed=0)
    text = Reader(made.fidelity(tmp_path / "page.html").read_text("utf-8")).text
    assert "score[0] 50 100.0%" in text and "score[1] above 50 0.0%" in text


def _ones():
    import numpyro
    import numpyro.distributions as dist

    def ones(ill=None):
        risk = numpyro.sample("risk", dist.Uniform(0, 1))
        with numpyro.plate("people", ill.shape[0]):
            numpyro.sample("ill", dist.Bernoulli(risk), obs=ill)

    return ones


@needs_browser
@pytest.mark.parametrize(("width", "drawing"), [(1200, "wide"), (390, "narrow")])
def test_the_page_as_it_is_rendered(crowded, tmp_path, width, drawing):
    seen = looked_at(tmp_path, crowded, width)
    assert seen["needed"] <= width, "the page scrolls sideways"
    assert seen["figures"] == [drawing] * 2
    assert seen["headings"] == ["Column by column", "Pairs of columns", "How to use them"]
    assert seen["cut"] == []
    assert seen["overlapping"] == []
    assert seen["scripts"] == 0
    assert seen["requests"] == []
