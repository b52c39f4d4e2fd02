"""`nw.compare`: which of two fits predicts better, and is its error bar true?"""

import numpy as np
import pytest

import noisewise as nw
from noisewise.checks.compare import _side
from people import N, make_frame

BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)


@pytest.fixture(scope="module")
def smaller(table) -> nw.Result:
    """Without age, which matters."""
    return nw.fit(
        "logistic",
        table,
        budget=BUDGET,
        target="visited",
        features=["sex"],
        steps=1000,
        insecure_seed=2,
    )


@pytest.fixture(scope="module")
def exact(result, smaller) -> float:
    """The mean difference of log scores on people like those of the table, without privacy."""
    frame = make_frame(seed=7)
    columns = frame | {"sex": (frame["sex"] == "m").astype(int)}
    scores = [
        side.scores(side.bound.view.encode(columns))
        for side in (_side(each, None, None) for each in (result, smaller))
    ]
    return float(np.mean(scores[0] - scores[1]))


def test_the_model_that_knows_more_predicts_better(result, smaller, table, exact):
    """Both sides of the error bar at 4 sds of it and of the 3000 people behind ``exact``, which is
    as uncertain as the comparison's own sampling: a false alarm in 16,000; seeds are fixed."""
    found = nw.compare(result, smaller, table, budget=BUDGET, insecure_seed=1)
    assert found.difference > 3 * found.sd
    wide = np.hypot(found.sd, found.sampling_sd)
    assert abs(found.difference - exact) < 4 * wide
    assert found.words.startswith("logistic by age, sex predicts better than logistic by sex, by 0")
    assert abs(found.rows - N) < 200
    turned = nw.compare(smaller, result, table, budget=BUDGET, insecure_seed=1)
    assert turned.difference < 0
    assert turned.words.startswith("logistic by age, sex predicts better")
    assert (release := found.privacy.releases[0]).what == "log scores of visited"
    assert release.noise_multiplier * 1.3 * found.bound / N > found.noise_sd


def test_scores_are_those_of_the_posterior_mean_probability(result, frame):
    """Against the logistic function by hand, over the same 64 draws."""
    side = _side(result, None, None)
    columns = frame | {"sex": (frame["sex"] == "m").astype(int)}
    rows = side.bound.view.encode(columns)
    chance = 1 / (1 + np.exp(-(rows["X"] @ side.thetas.T)))
    chance = np.where(rows["y"][:, None] > 0, chance, 1 - chance).mean(1)
    assert np.allclose(side.scores(rows), np.log(chance), atol=1e-5)


def test_with_noise_that_hides_it_no_difference_is_claimed(result, smaller, table):
    found = nw.compare(
        result, smaller, table, budget=nw.Budget(epsilon=0.001, delta=1e-6), insecure_seed=5
    )
    assert found.noise_sd > abs(found.difference) / 4
    assert found.sd > 0.1 * found.bound


def test_saved_and_read_back(result, smaller, table, tmp_path):
    found = nw.compare(result, smaller, table, budget=BUDGET, bound=0.5)
    assert found.bound == 0.5
    assert found.privacy.verify().holds
    path = found.save(tmp_path / "comparison.json")
    assert nw.Comparison.load(path) == found
    with pytest.raises(nw.NoisewiseError, match="no check that this noisewise wrote"):
        nw.ModelCheck.load(path)


@pytest.fixture(scope="module")
def counts(table) -> list[nw.Result]:
    options = {"budget": BUDGET, "target": "visits", "steps": 100, "features": ["sex"]}
    return [
        nw.fit("poisson", table, insecure_seed=3, **options),
        nw.fit("linear", table, insecure_seed=3, **options),
    ]


def test_what_cannot_be_compared_is_refused_before_anything_is_spent(
    result, table, counts, tmp_path
):
    path = tmp_path / "people.db"
    nw.Ledger.create(path, BUDGET)
    for pair, options, message in (
        ((result, counts[0]), {}, "explain different columns, 'visited' and 'visits'"),
        (counts, {}, "probabilities and the other densities"),
        ((result, result), {"bound": -1.0}, "bound must be a positive finite number"),
        ((result, "out"), {}, "result must be a noisewise.Result"),
        ((result, result), {"first_model": "probit"}, "pass the one that was fitted"),
    ):
        with pytest.raises(nw.NoisewiseError, match=message) as caught:
            nw.compare(*pair, table, budget=BUDGET, ledger=path, **options)
        assert "\n" not in str(caught.value)
    assert nw.Ledger(path).account().entries == ()
