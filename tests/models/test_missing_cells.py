"""Missing cells in models: silent records, indicators, and gaps that a mixture integrates out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.models import Target, bind_model, identity_frame
from noisewise.models.target import WEIGHT

AGE = nw.Column(name="age", kind="real", bounds=(0, 100), missing="allowed")
ILL = nw.Column(name="ill", kind="binary", missing="allowed")
WARD = nw.Column(name="ward", kind="category", categories=("a", "b", "c"), missing="allowed")
FALLS = nw.Column(name="falls", kind="count", bounds=(0, 60), mean=2, sd=2, missing="allowed")
SEX = nw.Column(name="sex", kind="binary")


def own(age, age_missing, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("people", age.shape[0]):
        logits = w[0] + w[1] * age / 100 + w[2] * age_missing
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


@pytest.mark.parametrize("model", ["logistic", own])
def test_a_missing_outcome_has_weight_zero_and_a_missing_covariate_an_indicator(model) -> None:
    bound = bind_model(model, nw.Schema((AGE, ILL)), "ill")
    rows = bound.view.encode({"age": np.array([np.nan, 30.0]), "ill": np.array([1, -1])})
    assert rows[WEIGHT].tolist() == [1, 0]
    assert np.isfinite(rows["y"]).all()
    told = rows["age_missing"] if model is own else rows["X"][:, 2]
    assert told.tolist() == [1, 0]
    assert (rows["age"][0] == 50) if model is own else (rows["X"][0, 1] == 0)


def test_what_comes_out_has_one_form_whichever_cells_are_missing() -> None:
    """None, all, or some: names, shapes and types are the same, and so is every other record."""
    bound = bind_model("logistic", nw.Schema((AGE, WARD, ILL)), "ill")
    arrays = {
        "age": np.array([20.0, 30.0, 40.0]),
        "ward": np.array([0, 1, 2], np.int32),
        "ill": np.array([0, 1, 1], np.int8),
    }
    first = bound.view.encode(arrays)
    for gaps in itertools.product([False, True], repeat=3):
        moved = {name: column.copy() for name, column in arrays.items()}
        for name, gap in zip(arrays, gaps, strict=True):
            if gap:
                moved[name][1] = np.nan if name == "age" else -1
        found = bound.view.encode(moved)
        assert list(found) == list(first)
        for name, column in found.items():
            assert (column.shape, column.dtype) == (first[name].shape, first[name].dtype)
            assert np.array_equal(column[[0, 2]], first[name][[0, 2]])


def test_without_gaps_there_are_no_weights() -> None:
    schema = nw.Schema((SEX, nw.Column(name="ill", kind="binary")))
    bound = bind_model("logistic", schema, "ill")
    assert WEIGHT not in bound.view.simulate(np.random.default_rng(0), 5)


def test_any_outcome_of_an_own_model_silences_its_record() -> None:
    def two(age, ill):
        m = numpyro.sample("m", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("people", age.shape[0]):
            numpyro.sample("a", dist.Normal(50 + m[0], 20.0), obs=age)
            numpyro.sample("b", dist.Bernoulli(logits=m[1]), obs=ill)

    view = bind_model(two, nw.Schema((AGE, ILL))).view
    found = view.encode({"age": np.array([1.0, np.nan, 2.0]), "ill": np.array([1, 1, -1])})
    assert found[WEIGHT].tolist() == [1, 0, 0]


# -- the mixture -------------------------------------------------------------------------------


def mixture(*columns):
    bound = bind_model("mixture(3)", nw.Schema(columns))
    theta = 0.5 * jax.random.normal(jax.random.PRNGKey(1), (bound.target.dim,))
    return bound, theta


def likelihoods(target, theta, rows):
    columns = {name: jnp.asarray(column, jnp.int32) for name, column in rows.items()}
    return np.asarray(jax.jit(jax.vmap(target.log_likelihood, (None, 0)))(theta, columns))


def test_a_mixture_integrates_gaps_out_exactly() -> None:
    """The likelihood of what is known is the sum over whatever the others may be."""
    bound, theta = mixture(WARD, SEX, FALLS)
    every = list(itertools.product(range(3), range(60)))
    whole = {
        "ward": np.array([ward for ward, _ in every]),
        "sex": np.ones(len(every), int),
        "falls": np.array([falls for _, falls in every]),
    }
    both = np.exp(likelihoods(bound.target, theta, whole)).reshape(3, 60)
    known = {
        "ward": np.array([-1, 1, -1]),
        "sex": np.ones(3, int),
        "falls": np.array([4, -1, -1]),
    }
    expected = [both[:, 4].sum(), both[1].sum(), both.sum()]
    np.testing.assert_allclose(np.exp(likelihoods(bound.target, theta, known)), expected, rtol=2e-4)


def test_closed_form_gradients_of_records_with_gaps_are_the_generic_ones() -> None:
    bound, _ = mixture(WARD, SEX, FALLS, ILL)
    rows = bound.view.simulate(np.random.default_rng(2), 60)
    gaps = sum((rows[name] < 0).sum() for name in ("ward", "falls", "ill"))
    assert gaps > 3
    check_gradients(bound.target, rows)


def test_the_target_of_a_mixture_may_be_missing() -> None:
    bound = bind_model("mixture(2)", nw.Schema((SEX, ILL)), "ill")
    rows = bound.view.simulate(np.random.default_rng(2), 40)
    rows["ill"][:5] = -1
    assert WEIGHT not in rows
    check_gradients(bound.target, rows)


def check_gradients(target, rows):
    generic = Target(target.model, target.layout, target.example)
    frame = identity_frame(target.dim)
    normals = jax.random.normal(jax.random.PRNGKey(0), (2, target.dim))
    closed, slow = (
        jax.jit(each.record_moments)(frame, 0.5 * normals, normals, each.prepare(rows, frame))
        for each in (target, generic)
    )
    for one, other in zip(closed, slow, strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, atol=3e-4)


def test_simulated_records_of_a_mixture_keep_their_gaps() -> None:
    bound, theta = mixture(WARD, SEX)
    rows = {"ward": np.array([-1, 0, -1, 2], np.int32), "sex": np.zeros(4, np.int32)}
    found = bound.target.simulate(jax.random.PRNGKey(0), theta, rows)
    assert (np.asarray(found["ward"]) < 0).tolist() == [True, False, True, False]


# -- refusals ----------------------------------------------------------------------------------


def declared(column, **more):
    return nw.Column.from_dict(column.name, column.to_dict() | more)


@pytest.mark.parametrize(
    ("model", "columns", "target", "words"),
    [
        (own, (declared(AGE, how="integrate"), ILL), "ill", "which needs a mixture"),
        ("mixture", (declared(WARD, how="indicator"), SEX), None, "declare how = 'integrate'"),
        ("mixture", (WARD, SEX), "sex", "leave target out"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(model, columns, target, words) -> None:
    with pytest.raises(nw.NoisewiseError, match=words) as caught:
        bind_model(model, nw.Schema(columns), target)
    assert "\n" not in str(caught.value)
