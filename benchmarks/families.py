"""Coverage of every family as `nw.fit` runs it without a plan: the table of docs/coverage.md.

python -m benchmarks.families [--simulations 64] [--steps 1000] [--only weibull] [--folder FOLDER]

With a folder, finished fits and lines are kept there: families may be run one at a time, and a run
that was stopped goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import numpy as np

import noisewise as nw
from benchmarks.results import write_between
from noisewise.models import FAMILIES, bind_model
from noisewise.planning.plan import guess_settings

ROWS, DELTA, SEED, EPSILON = 5000, 1e-5, 2026, 1.0
LEAST, MOST = 0.85, 1.15
"""Goal for the sd of z-scores."""
PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
COVARIATES = (
    nw.Column(name="age", kind="real", bounds=(20, 100), mean=60, sd=12),
    nw.Column(name="smoker", kind="binary", share=0.3),
    nw.Column(name="ward", kind="category", categories=("a", "b", "c")),
)
OUTCOMES = {
    "binary": nw.Column(name="ill", kind="binary"),
    "count": nw.Column(name="visits", kind="count", bounds=(0, 200), mean=3, sd=4),
    "category": nw.Column(name="grade", kind="category", categories=("low", "mid", "high")),
    "real": nw.Column(name="score", kind="real", bounds=(-40, 60), mean=10, sd=8),
    "positive": nw.Column(name="cost", kind="real", bounds=(0.01, 2000), mean=60, sd=50),
    "time": nw.Column(name="months", kind="real", bounds=(0.01, 36), mean=12, sd=10),
}
EVENT = nw.Column(name="died", kind="binary", share=0.4)


def outcome_of(name: str) -> list[nw.Column]:
    """The declared columns that a family explains."""
    family = FAMILIES[name]
    if family.survival:
        return [OUTCOMES["time"], EVENT]
    if family.positive:
        return [OUTCOMES["positive"]]
    return [OUTCOMES[family.kinds[-1] if family.levels_from > 2 else family.kinds[0]]]


def measured(name: str, simulations: int, steps: int, folder: Path | None) -> str:
    """A family's line of the table."""
    columns = outcome_of(name)
    schema = nw.Schema((*COVARIATES, *columns), rows=ROWS)
    target = [column.name for column in columns]
    budget = nw.Budget(epsilon=EPSILON, delta=DELTA)
    bound = bind_model(name, schema, target)
    found = nw.coverage(
        name,
        schema=schema,
        rows=ROWS,
        budget=budget,
        target=target,
        plan=guess_settings(bound, ROWS, budget, steps),
        simulations=simulations,
        seed=SEED,
        folder=None if folder is None else folder / f"{name}-{steps}",
    )
    if folder is not None:
        worst = zip(found.labels, found.scores.z_mean, found.scores.z_sd, strict=True)
        lines = [f"{label}: z mean {mean:.2f}, z sd {sd:.2f}" for label, mean, sd in worst]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    low, high = np.quantile(found.draws, (0.025, 0.975), axis=1)
    inside = np.mean((low <= found.truth) & (found.truth <= high), axis=0)
    z_mean, z_sd = found.scores.z_mean, found.scores.z_sd
    parts = [
        name,
        str(len(found.labels)),
        f"{inside.mean():.3f} ({inside.min():.2f})",
        _range(z_mean),
        _range(z_sd),
        _range(found.noise_unaware_z_sd),
        str(int((found.status != "OK").sum())),
        ", ".join(_missed(found)) or "none",
    ]
    return f"| {' | '.join(parts)} |"


def _missed(found: nw.Coverage) -> list[str]:
    """Coordinates whose z sd is outside the goal, or whose z mean is three floors from 0."""
    floor = 1 / np.sqrt(len(found.truth))
    scores = zip(found.labels, found.scores.z_mean, found.scores.z_sd, strict=True)
    missed = []
    for label, mean, sd in scores:
        if not LEAST <= sd <= MOST:
            missed.append(f"{label}: z sd {sd:.2f}")
        if abs(mean) > 3 * floor:
            missed.append(f"{label}: z mean {mean:.2f}")
    return missed


def _range(values: np.ndarray) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"


def table(lines: list[str], simulations: int, steps: int) -> str:
    """The lines under their heading, with the Monte Carlo floors."""
    k, device = simulations, jax.devices()[0].device_kind
    return "\n".join(
        [
            f"K = {k} simulated tables a line, N = {ROWS}, epsilon = {EPSILON:g}, "
            f"delta = {DELTA:g}, {steps} steps, seed {SEED}, without a plan; floors: z mean "
            f"{1 / np.sqrt(k):.2f}, z sd {1 / np.sqrt(2 * k):.2f}; device: {device}.",
            "",
            "| family | parameters | 95% hold (worst) | z mean | z sd | plain DPVI's z sd | not ok "
            "| beyond the goal |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *lines,
        ]
    )


def main() -> None:
    """Print the table, and write it into the docs if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--folder", type=Path, help="where finished fits and lines are kept")
    parser.add_argument("--write", action="store_true", help="into docs/coverage.md")
    options = parser.parse_args()
    lines = []
    for name in FAMILIES:
        if options.only and name not in options.only.split(","):
            continue
        lines.append(measured(name, options.simulations, options.steps, options.folder))
        print(lines[-1], flush=True)
    if options.write:
        write_between(PAGE, "families", table(lines, options.simulations, options.steps))


if __name__ == "__main__":
    main()
