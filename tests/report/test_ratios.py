"""Ratios: the right numbers by the right change, for every family that has some."""

from functools import cache

import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.data import Column, Schema
from noisewise.models import FAMILIES, bind_model
from noisewise.models.families.ratios import HAZARD, ODDS
from noisewise.report.ratios import in_words, ratio_groups
from noisewise.result.ratios import effects, family_of

COVARIATES = (
    Column(name="age", kind="real", bounds=(20, 100), mean=60, sd=12, missing="allowed"),
    Column(name="smoker", kind="binary"),
    Column(name="ward", kind="category", categories=("a", "b", "c")),
)
OUTCOMES = {
    "binary": Column(name="ill", kind="binary"),
    "count": Column(name="visits", kind="count", bounds=(0, 60), mean=3, sd=4),
    "category": Column(name="grade", kind="category", categories=("low", "mid", "high")),
    "real": Column(name="months", kind="real", bounds=(0.1, 40), mean=6, sd=5),
}


def outcomes_of(name):
    family = FAMILIES[name.partition("(")[0]]
    kind = family.kinds[-1] if family.levels_from > 2 else family.kinds[0]
    return (
        (OUTCOMES[kind], Column(name="died", kind="binary"))
        if family.survival
        else (OUTCOMES[kind],)
    )


@cache
def bound_model(name):
    targets = outcomes_of(name)
    names = [column.name for column in targets]
    schema = Schema((*COVARIATES, *targets))
    return bind_model(name, schema, names if len(names) > 1 else names[0])


@pytest.fixture
def fitted(make_result):
    def make(name):
        targets = outcomes_of(name)
        names, bound = [column.name for column in targets], bound_model(name)
        rng = np.random.default_rng(0)
        layout = bound.target.layout
        draws = {
            one.name: np.exp(rng.normal(0, 0.2, (400, *one.unconstrained_shape)))
            for one in layout.latents
        }
        draws["coefficients"] = rng.normal(0.3, 0.1, draws["coefficients"].shape)
        result = make_result(
            model=bound.name,
            schema=bound.view.schema,
            target=names[0],
            event=names[1] if len(names) > 1 else None,
            encoding=tuple(bound.view.encoder.describe()),
        )
        object.__setattr__(result, "draws", draws)
        object.__setattr__(result, "noise_unaware", {})
        object.__setattr__(result, "coordinates", bound.coordinates)
        return result

    return make


WITHOUT = {"linear", "student", "probit"}


@pytest.mark.parametrize("name", FAMILIES)
def test_ratios_are_those_of_the_coefficients(name, fitted):
    result = fitted(name)
    if name in WITHOUT:
        with pytest.raises(
            NoisewiseError, match=r"no logarithms of ratios: summary\(per_unit=True"
        ):
            result.ratios(0.9)
        assert ratio_groups(result) == [] and len(result.summary(per_unit=True)) >= 6
        return
    table = result.ratios(0.9)
    width, slopes = 6, result.draws["coefficients"]
    assert len(result.request.encoding) == width
    first = table[table["kind"] == FAMILIES[name].ratio.name]
    age, ward_c = 1, 5
    blocks = range(slopes.shape[1] // width)
    expected = [
        slope
        for block in blocks
        for slope in (
            slopes[:, block * width + age] * 10 / 12,
            *(slopes[:, block * width + place] for place in range(2, ward_c + 1)),
        )
    ]
    found = first[["ratio", "lower", "upper"]].to_numpy()
    assert np.allclose(found, np.exp([np.quantile(e, [0.5, 0.05, 0.95]) for e in expected]))
    labels = ["age +10", "age (missing)", "smoker", "ward=b", "ward=c"]
    assert [label.split(": ")[-1] for label in first.index] == labels * len(blocks)


def test_a_weibulls_times_run_against_its_hazards(fitted):
    result = fitted("weibull")
    found = {(e.ratio.name, e.label): e.draws for e in result.effects()}
    hazard, time = found["hazard ratio", "smoker"], found["time ratio", "smoker"]
    # Survival exp(-h (t / unit)^shape) is the same where h t^shape is.
    assert np.allclose(hazard * time ** result.draws["shape"], 1)


def test_each_level_of_softmax_is_against_the_reference(fitted):
    result = fitted("softmax")
    titles = [group.title for group in ratio_groups(result)]
    start = "Odds ratio: the odds of "
    assert titles == [f"{start}mid against low", f"{start}high against low"]
    changes = [line.change for line in ratio_groups(result)[1].lines]
    assert changes == [
        "age higher by 10",
        "age missing instead of known",
        "smoker 1 instead of 0",
        "ward b instead of a",
        "ward c instead of a",
    ]


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - WITHOUT))
def test_no_brace_is_left_in_the_words(name, fitted):
    groups = ratio_groups(fitted(name))
    said = " ".join(group.title + group.meaning for group in groups)
    assert "{" not in said and outcomes_of(name)[-1].name in said


def test_a_function_of_the_users_own_gets_no_ratios(fitted):
    """Whatever its name and its latents: its link is not known."""
    result = fitted("logistic")
    assert effects(result.request, result.draws, result.coordinates) != []
    assert effects(result.request, result.draws, {}) == []
    result.coordinates.clear()
    with pytest.raises(NoisewiseError, match=r"the model logistic has no ratios: use summary\(\)"):
        result.ratios()


def test_a_diverged_fit_gets_no_ratios(fitted):
    result = fitted("poisson")
    result.draws["coefficients"][3, 2] = np.nan
    assert result.effects() == [] and ratio_groups(result) == []
    with pytest.raises(NoisewiseError, match="diverged"):
        result.ratios()


def test_an_effect_is_printed_in_a_line(fitted):
    shown = repr(fitted("logistic").effects())
    assert "Effect(age +10: odds ratio " in shown and "400 draws" in shown
    assert "array" not in shown and len(shown) < 700


def test_the_family_comes_back_with_its_intervals(fitted):
    assert family_of(fitted("piecewise-exponential(cuts=6, 12)").request).cuts == (6.0, 12.0)


@pytest.mark.parametrize(
    ("middle", "low", "high", "words"),
    [
        (1.001, 0.9, 1.1, "no clear difference (10% lower to 10% higher)"),
        (0.5, 0.4, 0.6, "50% lower (40% to 60% lower)"),
        (1.5, 1.2, 1.9, "50% higher (20% to 90% higher)"),
        (3.0, 0.8, 11.0, "no clear difference (20% lower to 11 times as high)"),
        (1.1, 1.0, 1.2, "no clear difference (the same to 20% higher)"),
        (1.1, 1.003, 1.2, "10% higher (the same to 20% higher)"),
        (250.0, 12.0, 1e6, "250 times as high (12 to over 10,000)"),
        (0.002, 1e-7, 0.3, "99.8% lower (70% to 99.99% lower)"),
    ],
)
def test_words_say_what_the_numbers_do(middle, low, high, words):
    assert in_words(ODDS, middle, low, high) == words
    assert in_words(HAZARD, middle, low, high) == words
