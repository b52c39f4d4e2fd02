"""Mixed models: the integral over a unit's own coefficients, and estimates without noise.

Seeds are fixed; tolerances of estimates are shares of their own posterior sds.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise.models import bind_model, mixed

COLUMNS = (
    nw.Column(name="age", kind="real", bounds=(0, 100)),
    nw.Column(name="ill", kind="binary"),
    nw.Column(name="cost", kind="real", bounds=(-20, 20), mean=0, sd=1),
    nw.Column(name="visits", kind="count", bounds=(0, 60), mean=2, sd=3),
)
SCHEMA = nw.Schema(COLUMNS, unit=nw.Unit("person", 6))
TARGETS = {"logistic": "ill", "linear": "cost", "poisson": "visits", "student": "cost"}


def bound_to(family: str, slopes: tuple[str, ...] = (), intercept: bool = True):
    return bind_model(mixed(family, slopes, intercept), SCHEMA, TARGETS[family], ["age"])


def simulated(target, view, units: int, seed: int = 0):
    """A truth of the prior, and units drawn at it."""
    theta = target.sample_prior(jax.random.PRNGKey(seed), 1)[0]
    covariates = view.simulate(np.random.default_rng(seed), units)
    return theta, target.simulate(jax.random.PRNGKey(seed + 1), theta, covariates)


def by_dense_grid(bound, theta, rows) -> np.ndarray:
    """Log marginal likelihoods of units, by summing over a fine grid of random coefficients."""
    target, model = bound.target, bound.model
    latents = {name: np.asarray(value, float) for name, value in target.constrain(theta).items()}
    count = len(model.places)
    line = np.linspace(-8, 8, 801 if count == 1 else 161)
    u = np.stack(np.meshgrid(*[line] * count), -1).reshape(-1, count)
    cell = (line[1] - line[0]) ** count
    X, y, weight = (np.asarray(rows[name], float) for name in ("X", "y", "(weight)"))
    own = np.einsum("nrk,uk->nur", X[:, :, list(model.places)] * latents["random_sd"], u)
    predictor = (X @ latents["coefficients"])[:, None, :] + own
    nuisance = [jnp.asarray(latents[name]) for name in model.kind.nuisance(1.0)]
    each = model.kind.likelihood(jnp.asarray(predictor), *nuisance).log_prob(y[:, None, :])
    whole = (np.asarray(each, float) * weight[:, None, :]).sum(-1) - 0.5 * (u**2).sum(-1)
    peak = whole.max(1)
    total = np.exp(whole - peak[:, None]).sum(1) * cell / (2 * np.pi) ** (count / 2)
    return peak + np.log(total)


_SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("family", "slopes"),
    [
        ("logistic", ()),
        pytest.param("poisson", (), marks=_SLOW),
        pytest.param("linear", (), marks=_SLOW),
        pytest.param("logistic", ("age",), marks=_SLOW),
        pytest.param("linear", ("age",), marks=_SLOW),
    ],
)
def test_the_integral_is_that_of_a_dense_grid(family, slopes):
    bound = bound_to(family, slopes)
    theta, rows = simulated(bound.target, bound.view, 40)
    found = jax.jit(jax.vmap(bound.target.log_likelihood, (None, 0)))(theta, rows)
    np.testing.assert_allclose(found, by_dense_grid(bound, theta, rows), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_gradients_are_those_of_the_integral():
    """The search for the mode has no derivative of its own, and needs none: against differences."""
    bound = bound_to("logistic", ("age",))
    theta, rows = simulated(bound.target, bound.view, 40)
    whole = jax.jit(lambda at: jax.vmap(bound.target.log_likelihood, (None, 0))(at, rows).sum())
    gradient = np.asarray(jax.grad(whole)(theta), float)
    for place, slope in enumerate(gradient):
        step = 0.05 * np.eye(len(gradient))[place]
        above, below = (by_dense_grid(bound, theta + s, rows).sum() for s in (step, -step))
        np.testing.assert_allclose(slope, (above - below) / 0.1, rtol=0.01, atol=0.02)


@pytest.mark.slow
def test_units_without_rows_say_nothing():
    bound = bound_to("logistic")
    theta, rows = simulated(bound.target, bound.view, 5)
    rows = rows | {"(weight)": jnp.zeros_like(rows["(weight)"])}
    found = jax.vmap(bound.target.log_likelihood, (None, 0))(theta, rows)
    np.testing.assert_allclose(found, 0.0, atol=1e-5)


def registry(units: int, seed: int) -> dict[str, np.ndarray]:
    """People of one to six rows, with intercepts of their own (sd 0.8)."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(units), 1 + rng.integers(6, size=units))
    age, own = rng.uniform(0, 100, len(person)), 0.8 * rng.standard_normal(units)
    eta = 0.3 + 0.7 * (age - 50) / 50 + own[person]
    return {
        "person": person,
        "age": age,
        "ill": (rng.random(len(person)) < 1 / (1 + np.exp(-eta))).astype(int),
        "cost": np.clip(eta + 0.6 * rng.standard_normal(len(person)), -20, 20),
        "visits": np.minimum(rng.poisson(np.exp(0.3 * eta)), 60),
    }


def without_noise(family: str, frame: dict[str, np.ndarray]):
    """Posterior mode and sds, by Newton's method from the truth."""
    bound = bound_to(family)
    target, rows = bound.target, bound.view.private(nw.Table(frame, SCHEMA)).unsafe_columns()

    def loss(theta):
        each = jax.vmap(target.log_likelihood, (None, 0))(theta, rows)
        return -each.sum() - target.log_prior(theta)

    derivatives = jax.jit(lambda theta: (jax.grad(loss)(theta), jax.hessian(loss)(theta)))
    truth = {"coefficients": jnp.array([0.3, 0.7]), "random_sd": jnp.array([0.8])}
    theta = target.unconstrain(truth | ({"noise": jnp.array(0.6)} if family == "linear" else {}))
    for _ in range(12):
        gradient, curvature = (np.asarray(part, float) for part in derivatives(theta))
        theta = theta - jnp.asarray(np.linalg.solve(curvature, gradient), jnp.float32)
    sds = dict(zip(bound.labels, np.sqrt(np.diag(np.linalg.inv(curvature))), strict=True))
    return {name: np.asarray(v, float) for name, v in target.constrain(theta).items()}, sds


@pytest.mark.slow
def test_linear_estimates_are_those_of_mixedlm():
    """Within a twentieth of a standard error: the priors' share of what is left."""
    import statsmodels.api as sm

    frame = registry(1500, seed=1)
    design = np.column_stack([np.ones(len(frame["age"])), (frame["age"] - 50) / 50])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = sm.MixedLM(frame["cost"], design, groups=frame["person"]).fit(reml=False)
    ours, sds = without_noise("linear", frame)
    errors = np.asarray(theirs.bse_fe)
    assert (np.abs(ours["coefficients"] - theirs.fe_params) < 0.05 * errors).all()
    np.testing.assert_allclose([sds["intercept"], sds["age"]], errors, rtol=0.02)
    between = float(np.sqrt(np.asarray(theirs.cov_re)[0, 0]))
    assert abs(np.log(ours["random_sd"][0] / between)) < 0.05 * sds["sd of intercept"]
    assert abs(np.log(ours["noise"] / np.sqrt(theirs.scale))) < 0.05 * sds["noise"]


@pytest.mark.slow
def test_logistic_estimates_are_those_of_a_bayesian_mixed_glm():
    """statsmodels' variational posterior, with the same prior of coefficients and another of the
    sd: within a tenth of a posterior sd, the random effects' sd within a fifth."""
    from scipy import sparse
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    frame = registry(800, seed=2)
    rows, design = len(frame["age"]), (frame["age"] - 50) / 50
    units = sparse.csr_matrix((np.ones(rows), (np.arange(rows), frame["person"])))
    model = BinomialBayesMixedGLM(
        frame["ill"],
        np.column_stack([np.ones(rows), design]),
        units,
        np.zeros(units.shape[1], int),
        fe_p=1.0,
        vcp_p=0.75,
    )
    theirs = model.fit_vb()
    ours, sds = without_noise("logistic", frame)
    scale = np.array([sds["intercept"], sds["age"]])
    assert (np.abs(ours["coefficients"] - theirs.fe_mean) < 0.1 * scale).all()
    assert abs(np.log(ours["random_sd"][0]) - theirs.vcp_mean[0]) < 0.2 * sds["sd of intercept"]


def test_what_cannot_be_integrated_is_refused_with_the_reason():
    with pytest.raises(nw.NoisewiseError, match="more than two cannot be integrated out"):
        mixed("logistic", ("age", "sex"))
    with pytest.raises(nw.NoisewiseError, match="one linear predictor and one outcome"):
        mixed("weibull")
    with pytest.raises(nw.NoisewiseError, match="declares no \\[unit\\]"):
        bind_model("mixed(logistic)", nw.Schema(COLUMNS), "ill")
    with pytest.raises(nw.NoisewiseError, match="no column of the design matrix"):
        bind_model("mixed(logistic, height)", SCHEMA, "ill")
    with pytest.raises(nw.NoisewiseError, match="names no family"):
        bind_model("mixed(logit)", SCHEMA, "ill")


def test_names_say_what_is_random():
    bound = bind_model("mixed(linear, age)", SCHEMA, "cost", ["age"])
    assert bound.name == "mixed(linear, age)"
    assert bound.labels == ["sd of intercept", "sd of age", "intercept", "age", "noise"]


def test_simulated_units_differ_by_their_own_coefficients():
    """Means of six rows a unit vary by sd^2 + noise^2 / 6: within five standard errors of a
    variance of 4000 units (false alarms: 1e-6); the seed is fixed."""
    bound = bound_to("linear")
    target = bound.target
    theta = target.unconstrain(
        {"coefficients": jnp.zeros(2), "noise": jnp.array(0.6), "random_sd": jnp.array([0.9])}
    )
    rows = bound.view.simulate(np.random.default_rng(0), 4000)
    drawn = np.asarray(target.simulate(jax.random.PRNGKey(0), theta, rows)["y"])
    expected = 0.9**2 + 0.6**2 / 6
    assert abs(drawn.mean(1).var() / expected - 1) < 5 * (2 / 4000) ** 0.5
