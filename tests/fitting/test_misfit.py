"""Whole fits of counts that scatter as a Poisson's do, and of counts that scatter more.

Seeds are fixed: a failure is a change in the code. Of right models about one fit in a thousand is
suspected by noise alone (`benchmarks.wrong_model` has the measured rate).
"""

import numpy as np
import pytest

import noisewise as nw

ROWS = 6000
BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
SCHEMA = nw.Schema(
    (
        nw.Column(name="age", kind="real", bounds=(0, 100)),
        nw.Column(name="ill", kind="binary"),
        nw.Column(name="visits", kind="count", bounds=(0, 500)),
    ),
    rows=ROWS,
)
SIZES = "sizes of gradients at the fit"


def table(scatter, seed=0):
    rng = np.random.default_rng([5, seed])
    age, ill = np.clip(rng.normal(45, 15, ROWS), 0, 100), rng.random(ROWS) < 0.2
    rate = np.exp(0.8 + 0.01 * (age - 45) + 0.6 * ill)
    if scatter:
        rate = rate * rng.gamma(1 / scatter, scatter, ROWS)
    visits = np.minimum(rng.poisson(rate), 500)
    return nw.Table({"age": age, "ill": ill.astype(int), "visits": visits}, SCHEMA)


def fitted(scatter, seed=0, **more):
    given = {"budget": BUDGET, "target": "visits", "insecure_seed": seed, "steps": 1000}
    return nw.fit("poisson", table(scatter, seed), **given | more)


@pytest.mark.slow
def test_counts_that_scatter_more_are_said_and_widened():
    found = fitted(2.0)
    assert found.status is nw.Status.MODEL_MISFIT
    (note,) = [note for note in found.notes if "scatter more than the model says" in note]
    assert "negative-binomial" in note and "negative-binomial" in found.status.words
    unaware = fitted(2.0, misfit_share=0)
    assert unaware.status is not nw.Status.MODEL_MISFIT and unaware.notes == ()
    sds = [one.draws["coefficients"].std(0) for one in (found, unaware)]
    assert (sds[0] > sds[1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_counts_as_the_model_says_are_not(seed):
    found = fitted(0.0, seed)
    assert found.status is nw.Status.OK and found.notes == ()


@pytest.mark.slow
def test_the_purchase_is_in_the_budget_and_is_not_made_twice(tmp_path, monkeypatch):
    """A fit that is killed after the purchase goes on with what was bought."""
    folder = tmp_path / "checkpoint"
    whole = fitted(0.0, checkpoint=folder)
    (line,) = [release for release in whole.privacy.releases if release.what == SIZES]
    assert line.times == 1 and whole.privacy.epsilon_spent <= BUDGET.epsilon
    asked = []

    def counted(values, *rest, **more):
        asked.append(more["what"])
        assert more["what"] in more["bought"]
        return original(values, *rest, **more)

    import noisewise.fitting.misfit as misfit

    original = misfit.release_sum
    monkeypatch.setattr(misfit, "release_sum", counted)
    again = fitted(0.0, checkpoint=folder, resume=True)
    assert asked == [SIZES]
    assert np.array_equal(again.draws["coefficients"], whole.draws["coefficients"])
    assert again.privacy.releases == whole.privacy.releases
