"""One DPVI step on Adult-shaped logistic regression: against the research loop, and float noise."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp

from benchmarks import float_step, problems, research_loop, secure_step
from benchmarks.figure import Figure, from_ratio, milliseconds
from benchmarks.timing import compare, seconds

NAME = "adult"
_CHUNKS = 4
_LOOP_STEPS = 5


def measure(quick: bool) -> list[Figure]:
    """Both ratios of the step."""
    problem = problems.adult_shaped()
    rounds = 3 if quick else 9
    return [_against_loop(problem, rounds), _against_float(problem, 2 * rounds)]


def _settings(problem: problems.Problem) -> str:
    return (
        f"{problem.row_count:,} x {problem.target.dim}, q = {problem.settings.sampling_rate:g}, "
        f"{problems.GUIDE_DRAWS} draws, preconditioned rule, prior inside the clip"
    )


def _against_loop(problem: problems.Problem, rounds: int) -> Figure:
    run = research_loop.build(
        problem, research_loop.logistic_log_likelihood, research_loop.logistic_log_prior
    )
    start = jnp.asarray(problem.run.start, jnp.float32)
    keys = jax.random.split(jax.random.PRNGKey(0), _LOOP_STEPS)

    def loop() -> float:
        return seconds(lambda: run(start, keys).block_until_ready()) / _LOOP_STEPS

    def ours() -> float:
        return secure_step.seconds_a_step(problem, _CHUNKS)

    loop(), ours()
    ratio = compare(loop, ours, rounds)
    return from_ratio(
        ratio,
        name="adult-step-against-loop",
        measurement=NAME,
        what="Adult-shaped step: how many times faster than the research-style loop",
        settings=_settings(problem),
        target=60.0,
        at_least=True,
        sides=f"loop {milliseconds(ratio.first)}, ours {milliseconds(ratio.second)} a step",
    )


def _against_float(problem: problems.Problem, rounds: int) -> Figure:
    run = float_step.build(problem)
    start = jnp.asarray(problem.run.start, jnp.float32)
    key = jax.random.PRNGKey(0)

    def plain() -> float:
        parameters, ticks = start, []
        for chunk in float_step.batches(problem, _CHUNKS + 1):
            parameters = run(parameters, key, chunk).block_until_ready()
            ticks.append(time.perf_counter())
        return (ticks[-1] - ticks[0]) / (_CHUNKS * float_step.CHUNK_STEPS)

    def ours() -> float:
        return secure_step.seconds_a_step(problem, _CHUNKS)

    ours(), plain()
    ratio = compare(ours, plain, rounds)
    return from_ratio(
        ratio,
        name="adult-step-against-float",
        measurement=NAME,
        what="Adult-shaped step: cost over the same step with plain float noise, no integer grid",
        settings=_settings(problem),
        target=2.0,
        at_least=False,
        sides=f"ours {milliseconds(ratio.first)}, float {milliseconds(ratio.second)} a step",
    )
