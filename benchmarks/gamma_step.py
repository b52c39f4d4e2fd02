"""One DPVI step of a tiny model, where the research-style loop is at its best."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks import problems, research_loop, secure_step
from benchmarks.figure import Figure, from_ratio, milliseconds
from benchmarks.timing import compare, seconds

NAME = "gamma"
_CHUNKS = 20
_LOOP_STEPS = 1000


def measure(quick: bool) -> list[Figure]:
    """Our step's cost over the loop's."""
    problem = problems.gamma()
    run = research_loop.build(
        problem, research_loop.gamma_log_likelihood, research_loop.gamma_log_prior
    )
    start = jnp.asarray(problem.run.start, jnp.float32)
    keys = jax.random.split(jax.random.PRNGKey(0), _LOOP_STEPS)

    def loop() -> float:
        return seconds(lambda: run(start, keys).block_until_ready()) / _LOOP_STEPS

    def ours() -> float:
        return secure_step.seconds_a_step(problem, _CHUNKS)

    ours(), loop()
    ratio = compare(ours, loop, 5 if quick else 15)
    return [
        from_ratio(
            ratio,
            name="gamma-step-against-loop",
            measurement=NAME,
            what="Gamma-Exponential step: cost over the research-style loop",
            settings=f"N = {problem.row_count:,}, 2 variational parameters, q = 0.1, "
            f"{problems.GUIDE_DRAWS} draws, generic NumPyro model",
            target=1.0,
            at_least=False,
            sides=f"ours {milliseconds(ratio.first)}, loop {milliseconds(ratio.second)} a step",
        )
    ]
