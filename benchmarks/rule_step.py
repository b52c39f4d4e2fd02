"""One DPVI step by gradient rule: what natural, aligned and full-rank gradients cost."""

from __future__ import annotations

import numpy as np

from benchmarks import problems, secure_step
from benchmarks.figure import Figure, from_ratio, milliseconds
from benchmarks.timing import Ratio, compare

NAME = "rules"
_CHUNKS = 2
_RULES = ("vanilla", "preconditioned", "natural", "aligned", "aligned_natural")
_MOST, _MOST_FULL_RANK = 1.5, 3.0


def measure(quick: bool) -> list[Figure]:
    """The slowest rule against the quickest, and full rank against diagonal."""
    rounds = 3 if quick else 9
    return [_slowest_against_quickest(rounds), _full_rank(rounds)]


def _slowest_against_quickest(rounds: int) -> Figure:
    made = [problems.with_rule(rule) for rule in _RULES]
    costs = np.array([[_cost(one) for one in made] for _ in range(rounds + 1)])[1:]
    middle = np.median(costs, axis=0)
    slow, quick = int(middle.argmax()), int(middle.argmin())
    ratios = costs[:, slow] / costs[:, quick]
    low, median, high = np.quantile(ratios, [0, 0.5, 1])
    return from_ratio(
        Ratio(median, low, high, middle[slow], middle[quick], rounds),
        name="slowest-rule-against-quickest",
        measurement=NAME,
        what="a step of the slowest of DPVIm's five rules: cost over the quickest one's",
        settings=f"{made[0].row_count:,} x {made[0].target.dim}, q = 0.1, 1 draw, Adam",
        target=_MOST,
        at_least=False,
        sides=", ".join(
            f"{rule} {milliseconds(cost)}" for rule, cost in zip(_RULES, middle, strict=True)
        ),
    )


def _full_rank(rounds: int) -> Figure:
    diagonal = problems.wide_regression("diagonal")
    full = problems.wide_regression("full_rank")
    _cost(full), _cost(diagonal)
    ratio = compare(lambda: _cost(full), lambda: _cost(diagonal), rounds)
    return from_ratio(
        ratio,
        name="aligned-full-rank-against-diagonal",
        measurement=NAME,
        what="an aligned step with a full-rank guide: cost over the diagonal guide's",
        settings=f"logistic regression, 10,000 x {full.target.dim}, q = 0.1, 1 draw, Adam",
        target=_MOST_FULL_RANK,
        at_least=False,
        sides=f"full {milliseconds(ratio.first)}, diagonal {milliseconds(ratio.second)} a step",
    )


def _cost(problem: problems.Problem) -> float:
    return secure_step.seconds_a_step(problem, _CHUNKS)
