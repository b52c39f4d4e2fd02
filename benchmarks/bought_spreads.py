"""How well is a column's spread known from what is bought? Real covariates, seeded purchases.

    python -m benchmarks.bought_spreads --data DIR

For every number in every table: its variance over the noise in it, the bought sd over the real one,
and whether `Bins.spread_is_hidden` says so. Nothing here is a private release.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.real_covariates import DELTA, OUTCOMES
from benchmarks.real_tables import TABLES, Missing, read
from noisewise.covariates import buy_shape
from noisewise.data import Table
from noisewise.mechanism import Budget


def main() -> None:
    """Parse, buy, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 0.3])
    parser.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args()
    for name in TABLES:
        try:
            covariates = read(name, given.data)
        except Missing as missing:
            print(f"SKIPPED {name}: {missing}")
            continue
        schema, rng = covariates.schema(OUTCOMES["logistic"]), np.random.default_rng(0)
        rows = min(given.rows, len(covariates))
        chosen = rng.permutation(len(covariates))[:rows]
        arrays = {column: values[chosen] for column, values in covariates.arrays.items()}
        arrays["outcome"] = schema["outcome"].simulate(rng, rows)
        table = Table.from_arrays(arrays, schema, allow_constant=True)
        columns = tuple(column.name for column in covariates.columns)
        for epsilon in given.epsilons:
            budget = Budget(epsilon=epsilon, delta=DELTA)
            shape = buy_shape(table, columns, rows, budget, insecure_seed=1)
            noise = shape.marginals.noise_sd / rows
            for column, share in zip(shape.bins, shape.shares, strict=True):
                if column.ordered:
                    mean, sd = column.mean_and_sd(share)
                    ratio = sd**2 / (noise * np.linalg.norm((column.middle - mean) ** 2))
                    print(
                        f"{name}, epsilon {epsilon:g}, {column.name}: variance {ratio:.1f} times "
                        f"its noise, sd {sd / arrays[column.name].std():.2f} times the real one"
                        + (", hidden" if column.spread_is_hidden(share, noise) else "")
                    )


if __name__ == "__main__":
    main()
