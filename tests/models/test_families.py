"""Families: closed forms against the generic path, priors from declarations, refusals."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.data import Column, Schema
from noisewise.models import FAMILIES, Target, bind_model, identity_frame, named_model
from noisewise.models.families.survival import _censoring
from noisewise.models.frame import Frame, whitened_frame

N = 40
LEVELS = ("none", "some", "much", "most")
_OUTCOMES = {
    "binary": Column(name="outcome", kind="binary", share=0.4),
    "count": Column(name="outcome", kind="count", bounds=(0, 60), mean=3, sd=4),
    "category": Column(
        name="outcome", kind="category", categories=LEVELS, shares=(0.4, 0.3, 0.2, 0.1)
    ),
    "real": Column(name="outcome", kind="real", bounds=(0.1, 40), mean=6, sd=5),
}
EVENT = Column(name="event", kind="binary", share=0.4)


def outcome_of(name):
    kinds = FAMILIES[name].kinds
    kind = kinds[-1] if FAMILIES[name].levels_from > 2 else kinds[0]
    return _OUTCOMES[kind]


@lru_cache
def bound_model(name):
    covariates = (
        Column(name="age", kind="real", bounds=(0, 100)),
        Column(name="sex", kind="category", categories=("f", "m")),
    )
    schema, target = Schema((*covariates, outcome_of(name))), "outcome"
    if FAMILIES[name].survival:
        schema, target = Schema((*schema.columns, EVENT)), ["outcome", "event"]
    return bind_model(name, schema, target)


def simulated(bound, n=N):
    target = bound.target
    key = jax.random.PRNGKey(1)
    theta = target.sample_prior(key, 1)[0]
    return theta, target.simulate(key, theta, bound.view.simulate(np.random.default_rng(2), n))


def frame_for(target, kind):
    if kind == "plain":
        return identity_frame(target.dim)
    rng = np.random.default_rng(5)
    root = rng.normal(size=(target.dim, target.dim)) * 0.3 + np.eye(target.dim)
    found = whitened_frame(rng.normal(size=target.dim) * 0.2, root @ root.T, target.block_sizes())
    return found


CASES = [
    *((name, "whitened") for name in FAMILIES),
    ("negative-binomial", "plain"),
    ("ordinal", "plain"),
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_closed_form_equals_the_generic_path(name, kind):
    bound = bound_model(name)
    fast, (theta, rows) = bound.target, simulated(bound)
    slow = Target(fast.model, fast.layout, fast.example)
    assert type(fast) is not Target
    frame = frame_for(fast, kind)
    noise = jax.random.normal(jax.random.PRNGKey(3), (3, fast.dim))
    points = frame.from_model(theta) + 0.2 * noise
    moments = (
        jax.jit(target.record_moments)(frame, points, noise, target.prepare(rows, frame))
        for target in (fast, slow)
    )
    for closed, generic in zip(*moments, strict=True):
        assert closed.shape == (N, fast.dim)
        assert np.isfinite(generic).all() and np.abs(generic).max() > 0.1
        assert np.allclose(closed, generic, atol=5e-5 * float(jnp.abs(generic).max()))


def test_closed_forms_in_a_frame_that_only_scales():
    bound = bound_model("softmax")
    fast, (theta, rows) = bound.target, simulated(bound)
    slow = Target(fast.model, fast.layout, fast.example)
    frame = Frame(theta, None, scale=jnp.linspace(0.5, 2, fast.dim))
    noise = jax.random.normal(jax.random.PRNGKey(3), (2, fast.dim))
    ours, theirs = (
        t.record_moments(frame, noise, noise, t.prepare(rows, frame)) for t in (fast, slow)
    )
    for closed, generic in zip(ours, theirs, strict=True):
        assert np.allclose(closed, generic, atol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_slopes_are_those_of_the_likelihood_far_out(name):
    """Where predictors are extreme, too: no overflow, no cancellation."""
    bound = bound_model(name)
    family, (_, rows) = bound.model.kind, simulated(bound)
    count = family.predictors
    own = bound.target.dim - bound.target.layout.latents[0].size
    nuisance = jnp.full((own, 1), -0.3)
    y = jnp.asarray(rows["y"], jnp.float32)
    shape = (N, 1) if count == 1 else (N, 1, count)
    for far in (-12.0, 12.0):
        found = family.slopes(jnp.full(shape, far), y[:, None], nuisance)
        assert all(np.isfinite(each).all() for each in (found.predictor, *found.nuisance))


@pytest.mark.parametrize("name", FAMILIES)
def test_records_are_drawn_within_the_declaration(name):
    bound = bound_model(name)
    _, rows = simulated(bound, 500)
    y = np.asarray(rows["y"], float)
    assert np.isfinite(y).all()
    if bound.model.survival:
        assert y.shape == (500, 2) and set(np.unique(y[:, 1])) <= {0.0, 1.0}
        assert (y[:, 0] > 0).all() and (y[:, 0] <= 40).all()
        assert (y[y[:, 0] == 40, 1] == 0).all()  # whoever is followed to the end has no event
    elif bound.model.positive_target:
        assert (y > 0).all()
    elif FAMILIES[name].levels_from > 2:
        assert set(np.unique(y)) <= set(range(len(LEVELS)))


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("softmax", Column(name="outcome", kind="binary"), "needs category"),
        ("negbin", _OUTCOMES["real"], "needs count"),
        ("ordinal", Column(name="outcome", kind="category", categories=("a", "b")), "use logistic"),
        ("logistic", _OUTCOMES["category"], "use softmax, or ordinal"),
        ("gamma", Column(name="outcome", kind="real", bounds=(0, 9)), "lower bound above 0"),
        ("weibull", _OUTCOMES["real"], "target must be two columns"),
        ("weibull(shape=2)", _OUTCOMES["real"], "takes nothing in brackets"),
        ("student(degrees=7, 8)", _OUTCOMES["real"], r"as in student\(degrees=7\)"),
        ("student(cuts=7)", _OUTCOMES["real"], r"as in student\(degrees=7\)"),
        ("piecewise-exponential(cuts=x)", _OUTCOMES["real"], "takes rising times"),
        ("piecewise-exponential(cuts=2, 1)", _OUTCOMES["real"], "rising times above 0"),
        ("student(degrees=0)", _OUTCOMES["real"], "degrees must be"),
    ],
)
def test_targets_that_do_not_fit_are_refused_in_one_line(name, column, message):
    schema = Schema((Column(name="age", kind="real", bounds=(0, 100)), column))
    with pytest.raises(NoisewiseError, match=message) as refused:
        bind_model(name, schema, "outcome")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (["outcome", "age"], "must be binary"),
        (["outcome", "died"], "not in the schema"),
        (["outcome", "outcome"], "twice"),
        (["outcome", "event", "age"], "list of a time's and an event's"),
    ],
)
def test_wrong_events_are_refused(target, message):
    age = Column(name="age", kind="real", bounds=(0, 100))
    schema = Schema((age, _OUTCOMES["real"], EVENT))
    with pytest.raises(NoisewiseError, match=message):
        bind_model("weibull", schema, target)


def test_a_time_and_an_event_are_for_survival_models():
    schema = Schema((_OUTCOMES["real"], EVENT))
    with pytest.raises(NoisewiseError, match="must be one column"):
        bind_model("linear", schema, ["outcome", "event"])


@pytest.mark.parametrize("name", ["student(degrees=7)", "piecewise-exponential(cuts=1.5, 20)"])
def test_names_that_say_more_are_found_again(name):
    assert str(named_model(name)) == name
    assert named_model(str(named_model(name))) == named_model(name)


def test_priors_follow_the_declaration():
    count = Column(name="outcome", kind="count", bounds=(0, 60), mean=3, sd=4)
    found = bind_model("negbin", Schema((count, EVENT)), "outcome").model
    assert np.isclose(found.centre, np.log(3)) and np.isclose(found.noise_scale, (16 - 3) / 9)
    shares = bind_model("softmax", Schema((_OUTCOMES["category"], EVENT)), "outcome").model
    assert np.allclose(shares.centre, np.log(np.array([0.3, 0.2, 0.1]) / 0.4))
    level = bind_model("ordinal", Schema((_OUTCOMES["category"], EVENT)), "outcome").model
    assert np.isclose(level.centre, np.log(0.6 / 0.4))
    thresholds = np.cumsum([-level.centre, *level.kind.usual])  # as other software has them
    assert np.allclose(1 / (1 + np.exp(-thresholds)), [0.4, 0.7, 0.9])


def test_simulated_censoring_brings_about_the_declared_share_of_events():
    """The rate is solved for, and records are simulated with it: 20,000 of them, one seed; the
    tolerance is 4 binomial sds, a false alarm once in 16,000."""
    rate = _censoring(0.3, 0.3 / 6, 40)
    total = 0.3 / 6 + rate
    assert np.isclose(0.3 / 6 / total * (1 - np.exp(-40 * total)), 0.3)
    assert _censoring(0.99, 0.01, 40) == 0  # not even without any loss
    bound = bound_model("weibull")
    theta = bound.target.unconstrain(
        {"coefficients": jnp.array([jnp.log(0.4), 0.0, 0.0]), "shape": jnp.array(1.0)}
    )
    covariates = bound.view.simulate(np.random.default_rng(0), 20_000)
    drawn = np.asarray(bound.target.simulate(jax.random.PRNGKey(0), theta, covariates)["y"])
    assert abs(drawn[:, 1].mean() - 0.4) < 4 * np.sqrt(0.24 / 20_000)
    # Under a constant hazard, events divided by the time lived estimate it.
    assert np.isclose(drawn[:, 1].sum() / drawn[:, 0].sum(), 0.4 / 6, rtol=0.05)
