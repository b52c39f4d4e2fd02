"""A small table about made-up people, and its schema."""

from __future__ import annotations

import numpy as np

import noisewise as nw

N = 3000


def make_frame(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 90, N)
    sex = rng.choice(["f", "m"], N)
    eta = -0.4 + 0.8 * (age - 54) / 36 + 0.5 * (sex == "m")
    return {
        "age": age,
        "sex": sex,
        "visits": rng.poisson(np.exp(0.3 * eta)),
        "cost": np.clip(100 + 20 * eta + 10 * rng.normal(size=N), 0, 300),
        "visited": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
    }


def make_schema(rows: int | None = None) -> nw.Schema:
    return nw.Schema(
        (
            nw.Column(name="age", kind="real", bounds=(18, 90)),
            nw.Column(name="sex", kind="category", categories=("f", "m")),
            nw.Column(name="visits", kind="count", bounds=(0, 40), mean=1, sd=1.5),
            nw.Column(name="cost", kind="real", bounds=(0, 300), mean=100, sd=30),
            nw.Column(name="visited", kind="binary"),
        ),
        rows=rows,
    )
