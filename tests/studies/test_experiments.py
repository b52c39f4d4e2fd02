"""The authors' coordinates: the same models, by another name for their latents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.models import Target, bind_model, identity_frame
from noisewise.studies.na_dpvi.experiments import EXPERIMENTS, log_ratios, softplus_inverse


def targets(name):
    experiment = EXPERIMENTS[name]
    found = []
    for model in (experiment.model, experiment.ours):
        about = (experiment.schema, experiment.target, None, experiment.sample)
        found.append(bind_model(model, *about).target)
    return experiment, *found


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_densities_agree_up_to_the_change_of_coordinates(name):
    """log p(theta) in our coordinates is theirs plus the log-determinant of the map to them."""
    experiment, theirs, ours = targets(name)

    def moved(theta):
        latents = ours.constrain(theta)
        return jnp.asarray(_traceable(name, latents))

    @jax.jit
    def both(theta):
        determinant = jnp.linalg.slogdet(jax.jacfwd(moved)(theta))[1]
        return ours.log_prior(theta), theirs.log_prior(moved(theta)) + determinant

    for theta in ours.sample_prior(jax.random.PRNGKey(3), 5):
        found, expected = both(theta)
        assert float(found) == pytest.approx(float(expected), abs=2e-3)
        latents = {n: np.asarray(v, float) for n, v in ours.constrain(theta).items()}
        np.testing.assert_allclose(experiment.to_authors(latents), moved(theta), rtol=1e-3)


def test_the_regressions_closed_form_equals_autodiff():
    """Per record, the mean gradient over draws and that of the scales, to float accuracy."""
    _, theirs, _ = targets("regression")
    rng = np.random.default_rng(0)
    batch = {"X": rng.standard_normal((6, 11)), "y": rng.standard_normal(6)}
    batch = {name: jnp.asarray(column, jnp.float32) for name, column in batch.items()}
    noise = jnp.asarray(rng.standard_normal((3, 12)), jnp.float32)
    points = jnp.array([-1.0, *[0.5] * 11]) + 0.3 * noise
    frame = identity_frame(12)
    closed = theirs.record_moments(frame, points, noise, batch)
    generic = Target.record_moments(theirs, frame, points, noise, batch)
    for mine, other in zip(closed, generic, strict=True):
        np.testing.assert_allclose(mine, other, atol=2e-5 * float(jnp.abs(other).max()))


def _traceable(name, latents):
    """`to_authors` again, written for JAX, so that it can be differentiated."""
    if name == "gamma-exponential":
        return jnp.log(jnp.expm1(latents["rate"]))[None]
    if name == "beta-bernoulli":
        return (jnp.log(latents["probability"]) - jnp.log1p(-latents["probability"]))[None]
    if name == "dirichlet-categorical":
        logs = jnp.log(latents["probabilities"])
        return logs[:-1] - logs[-1]
    free = jnp.log(jnp.expm1(latents["variance"]))
    return jnp.concatenate([free[None], latents["weights"]])


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_labels_and_settings_fit_the_model(name):
    experiment, theirs, _ = targets(name)
    assert len(experiment.labels) == theirs.dim
    assert experiment.authors_settings().start.shape == (theirs.dim,)


def test_inverse_maps_at_the_ends():
    values = np.array([1e-9, 1e-3, 1.0, 50.0])
    np.testing.assert_allclose(np.log1p(np.exp(softplus_inverse(values))), values, rtol=1e-6)
    assert np.isfinite(log_ratios(np.array([0.0, 0.5, 0.5]))).all()
