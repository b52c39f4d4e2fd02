"""The mixture against a separate NumPy implementation, autodiff, its own simulations and a fit."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.models import (
    Target,
    bind,
    bind_model,
    build_target,
    identity_frame,
    model_name,
    named_model,
)
from noisewise.models.mixture import mixture
from noisewise.models.mixture_target import MixtureTarget
from noisewise.planning import mixture_guess
from noisewise.posterior import Status
from noisewise.report.words import convergence_sentence

BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
SCHEMA = nw.Schema(
    (
        nw.Column(name="home-town", kind="category", categories=("x", "y", "z")),
        nw.Column(name="smoker", kind="binary"),
        nw.Column(name="visits", kind="count", bounds=(0, 20), mean=2, sd=2),
        nw.Column(name="ill", kind="binary", share=0.2),
    )
)


def built(text, target, schema=SCHEMA):
    model = named_model(text, schema, target)
    view = bind(model, schema, target)
    return build_target(model, view.simulate(np.random.default_rng(0), 4)), view


@pytest.fixture(scope="module")
def ready():
    """A target, its view, one truth and records drawn at it."""
    target, view = built("mixture(3, poisson)", "ill")
    # As programs: operation by operation, most of the time is compilation.
    theta = jax.jit(target.sample_prior, static_argnums=1)(jax.random.PRNGKey(1), 1)[0]
    # Effects of a size that leaves rates moderate.
    theta = theta.at[-5:].multiply(0.3)
    made_up = view.simulate(np.random.default_rng(1), 40)
    rows = jax.jit(target.simulate)(jax.random.PRNGKey(2), theta, made_up)
    return target, view, theta, rows


def numpy_log_likelihood(latents, rows):
    """Eqs. (24) and (25) with an explicit sum over components."""
    found = []
    for town, smoker, visits, ill in zip(*(np.asarray(rows[n]) for n in rows), strict=True):
        inside = [
            weight
            * latents["home-town_shares"][k, town]
            * latents["smoker_shares"][k, smoker]
            * stats.poisson.pmf(visits, latents["visits_rate"][k])
            for k, weight in enumerate(latents["weights"])
        ]
        x = np.array([1, town == 1, town == 2, smoker, (visits - 2) / 2], float)
        rate = np.exp(x @ latents["coefficients"])
        found.append(np.log(np.sum(inside)) + stats.poisson.logpmf(ill, rate))
    return np.array(found)


def test_density_equals_a_separate_implementation(ready):
    target, view, theta, rows = ready
    constrained = jax.jit(target.constrain)(theta)
    latents = {n: np.asarray(v, float) for n, v in constrained.items()}
    ordered = {name: rows[name] for name in view.arguments}
    ours = jax.jit(jax.vmap(target.log_likelihood, (None, 0)))(theta, ordered)
    assert np.allclose(ours, numpy_log_likelihood(latents, ordered), atol=2e-5)


def agree(fast, theta, rows):
    slow = Target(fast.model, fast.layout, fast.example)
    assert isinstance(fast, MixtureTarget)
    frame = identity_frame(fast.dim)
    noise = jax.random.normal(jax.random.PRNGKey(3), (2, fast.dim))

    def moments(target, points):
        batch = target.prepare(rows, frame)
        ours = target.record_moments(frame, points, noise, batch)
        return *ours, *target.prior_moments(frame, points, noise)

    points = theta + 0.3 * noise
    found = [jax.jit(lambda at, each=each: moments(each, at))(points) for each in (fast, slow)]
    for closed, generic in zip(*found, strict=True):
        scale = float(jnp.abs(generic).max())
        assert scale > 0.1
        assert np.allclose(closed, generic, atol=5e-5 * scale)


def test_closed_form_gradients_equal_autodiff(ready):
    target, _, theta, rows = ready
    agree(target, theta, rows)


@pytest.mark.parametrize(("text", "target"), [("mixture(3)", "ill"), ("mixture(3)", None)])
def test_closed_form_gradients_of_other_responses(text, target):
    found, view = built(text, target)
    theta = 0.5 * jax.random.normal(jax.random.PRNGKey(1), (found.dim,))
    agree(found, theta, view.simulate(np.random.default_rng(1), 20))


def test_a_frame_turns_the_gradients(ready):
    target, _, theta, rows = ready
    rng = np.random.default_rng(0)
    factor = jnp.asarray(np.eye(target.dim) + 0.1 * rng.normal(size=(target.dim,) * 2), jnp.float32)
    plain = identity_frame(target.dim)
    frame = plain._replace(factor=factor)
    noise, batch = jnp.zeros((1, target.dim)), target.prepare(rows, plain)
    turned = target.record_moments(frame, theta[None], noise, batch)[0]
    there = frame.to_model(theta)[None]
    straight = target.record_moments(plain, there, noise, batch)[0]
    assert np.allclose(turned, straight @ factor, rtol=1e-3, atol=1e-3)


def test_simulated_tables_have_the_models_marginals(ready):
    """Fixed seed; each of 9 shares and the mean count is within five standard errors: a false
    alarm, over seeds, in fewer than one in 100,000."""
    target, view, theta, _ = ready
    n = 20_000
    rows = target.simulate(jax.random.PRNGKey(7), theta, view.simulate(np.random.default_rng(1), n))
    latents = {k: np.asarray(v, float) for k, v in target.constrain(theta).items()}
    weights, town, smoker = (latents[k] for k in ("weights", "home-town_shares", "smoker_shares"))
    joint = np.einsum("k,ka,kb->ab", weights, town, smoker)
    found = np.zeros((3, 2))
    np.add.at(found, (np.asarray(rows["home-town"]), np.asarray(rows["smoker"])), 1 / n)
    assert np.abs((found - joint) / np.sqrt(joint * (1 - joint) / n)).max() < 5
    rate = weights @ latents["visits_rate"]
    spread = np.sqrt(rate + weights @ latents["visits_rate"] ** 2 - rate**2)
    assert abs(np.asarray(rows["visits"]).mean() - rate) < 5 * spread / n**0.5


def correlated_table(n=4000):
    """Two groups of people, unlike each other in everything."""
    rng = np.random.default_rng(4)
    group = rng.random(n) < 0.4
    shares = np.where(group[:, None], [0.8, 0.15, 0.05], [0.1, 0.3, 0.6])
    town = (rng.random(n)[:, None] > shares.cumsum(1)).sum(1)
    smoker = (rng.random(n) < np.where(group, 0.85, 0.1)).astype(int)
    visits = rng.poisson(np.where(group, 4.0, 1.0))
    ill = (rng.random(n) < np.where(smoker, 0.3, 0.1)).astype(int)
    columns = {"home-town": np.array(["x", "y", "z"])[town], "smoker": smoker}
    return nw.Table({**columns, "visits": visits, "ill": ill}, SCHEMA), town, smoker, ill


def test_a_fit_with_a_large_budget_recovers_marginals():
    """Seeded, and so not random. Independent columns would miss the two-way shares by 0.2."""
    table, town, smoker, ill = correlated_table()
    result = nw.fit(
        mixture(3),
        table,
        target="ill",
        budget=nw.Budget(epsilon=50.0, delta=1e-6),
        steps=2000,
        insecure_seed=1,
        draws=200,
    )
    assert result.request.posterior == "averaged"
    assert result.status is Status.OK
    for group in ("regression", "components"):
        statistic, limit = result.trace[f"stationarity_{group}"]
        assert statistic < limit < 3.5
    assert next(iter(result.draws)) == "coefficients"
    assert list(result.summary().index[:2]) == ["intercept", "home-town=y"]
    assert model_name(named_model(result.request.model)) == result.request.model
    weights, towns, smokes = (
        result.draws[k] for k in ("weights", "home-town_shares", "smoker_shares")
    )
    two_way = np.einsum("dk,dka,dkb->dab", weights, towns, smokes).mean(0)
    found = np.zeros((3, 2))
    np.add.at(found, (town, smoker), 1 / len(town))
    independent = np.outer(found.sum(1), found.sum(0))
    assert np.abs(two_way - found).sum() / 2 < 0.04 < np.abs(independent - found).sum() / 2
    for ours, theirs in ((two_way.sum(1), found.sum(1)), (two_way.sum(0), found.sum(0))):
        assert np.abs(ours - theirs).sum() / 2 < 0.03
    odds = result.summary().loc["smoker", "mean"]
    table_odds = np.log(ill[smoker == 1].mean() / (1 - ill[smoker == 1].mean())) - np.log(
        ill[smoker == 0].mean() / (1 - ill[smoker == 0].mean())
    )
    assert abs(odds - table_odds) < 0.5


def test_quick_settings_break_the_symmetry_and_read_no_row(ready):
    target = ready[0]
    bound = bind_model("mixture(3, poisson)", SCHEMA, "ill")
    settings = mixture_guess(bound, 5000, BUDGET)
    assert settings.rule == "aligned"
    parts = {site.name: site for site in target.layout.latents}
    start = np.asarray(settings.start)[2 : 2 + 3 * parts["home-town_shares"].shape[1] - 3]
    components = start.reshape(3, 2)
    assert all(np.abs(a - b).max() > 0.1 for a, b in itertools.combinations(components, 2))
    assert settings.start[-5] == pytest.approx(np.log(0.2))
    assert np.array_equal(mixture_guess(bound, 5000, BUDGET).start, settings.start)
    assert 0.5 < settings.clip_norm < 20


def test_features_and_names():
    model = named_model("mixture(8, poisson)", SCHEMA, "ill", ["smoker", "visits"])
    assert model.columns() == ("smoker", "visits", "ill")
    assert model.design == ("intercept", "smoker", "visits")
    assert str(named_model("mixture")) == "mixture"
    again = named_model(model_name(model), SCHEMA, "ill", ["smoker", "visits"])
    assert again == model
    with pytest.raises(nw.NoisewiseError, match=r"is neither .*mixture"):
        named_model("mixtures")


def test_a_fit_that_is_too_short_is_not_called_converged():
    """A hundred steps from a start that knows nothing; seeded, and so not random."""
    table, *_ = correlated_table()
    budget = nw.Budget(epsilon=50.0, delta=1e-6)
    result = nw.fit(
        mixture(3), table, target="ill", budget=budget, steps=100, insecure_seed=1, draws=200
    )
    assert result.status is Status.NOT_CONVERGED
    statistic, limit = result.trace["stationarity_regression"]
    assert statistic > 2 * limit
    assert "not settled" in convergence_sentence(result)


HUGE = nw.Schema((nw.Column(name="cents", kind="count", bounds=(0, 2**40)),))
REAL = nw.Schema((*SCHEMA.columns, nw.Column(name="height", kind="real", bounds=(0, 3))))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: mixture(1), "components must be an integer of at least 2"),
        (lambda: mixture(4, "linear"), "response must be one of"),
        (lambda: mixture(4)(smoker=np.zeros(3)), "knows no columns yet"),
        (lambda: named_model("mixture", REAL, "ill"), "column 'height' is real"),
        (lambda: named_model("mixture", REAL, "height", ["smoker"]), "target 'height' is real"),
        (lambda: mixture(4, "logistic").of(SCHEMA, "visits"), "response must be 'poisson'"),
        (
            lambda: named_model("mixture", SCHEMA, "ill", []),
            "none are left: name some in",
        ),
        (lambda: bind(mixture(), HUGE, None), "counts above 2147483647 do not fit 32 bits"),
        (
            lambda: nw.coverage("mixture", schema=SCHEMA, rows=100, budget=BUDGET, target="ill"),
            "coverage needs latents that mean the same in every fit, and a mixture has",
        ),
        (
            lambda: nw.plan("mixture", schema=SCHEMA, rows=100, budget=BUDGET),
            "plan needs latents that mean the same in every fit, and a mixture has",
        ),
        (
            lambda: nw.fit(
                "mixture",
                correlated_table(50)[0],
                target="ill",
                budget=nw.Budget(epsilon=1, delta=1e-6),
                posterior="exact",
            ),
            "needs a unique optimum",
        ),
    ],
)
def test_refusals(action, message):
    with pytest.raises(nw.NoisewiseError, match=message) as caught:
        action()
    assert "\n" not in str(caught.value)


def test_counts_alone_make_a_mixture():
    """No category column: closed-form gradients equal the generic ones."""
    schema = nw.Schema(tuple(nw.Column(name=n, kind="count", bounds=(0, 20)) for n in ("a", "b")))
    target, view = built("mixture(2)", None, schema)
    assert isinstance(target, MixtureTarget)
    frame, noise = identity_frame(target.dim), jnp.zeros((1, target.dim))
    rows = view.simulate(np.random.default_rng(1), 5)
    batch = {name: jnp.asarray(column) for name, column in rows.items()}

    @jax.jit
    def both_ways(key):
        points = target.sample_prior(key, 1)
        closed = target.record_moments(frame, points, noise, target.prepare(rows, frame))[0]
        return closed, Target.record_moments(target, frame, points, noise, batch)[0]

    closed, generic = both_ways(jax.random.PRNGKey(0))
    assert np.allclose(closed, generic, rtol=1e-4, atol=1e-4)
