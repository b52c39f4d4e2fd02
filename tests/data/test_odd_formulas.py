"""Whatever is written as a formula: finite columns inside their bounds, or one line."""

import os
import warnings

import numpy as np
import pytest

from noisewise import NoisewiseError, Schema
from noisewise.data import FormulaEncoder

EACH = int(os.environ.get("NOISEWISE_FUZZ", "300"))
SEED = int(os.environ.get("NOISEWISE_FUZZ_SEED", "0"))
SCHEMA = Schema.from_dict(
    {
        "columns": {
            "age": {"type": "real", "bounds": [18, 90], "mean": 45, "sd": 15},
            "sex": {"type": "category", "categories": ["f", "m"]},
            "ward": {"type": "category", "categories": ["a", "b", "c", "d"]},
            "income": {"type": "real", "bounds": [1, 1e6]},
            "debt": {"type": "real", "bounds": [-5, 5], "missing": "allowed"},
            "kids": {"type": "count", "bounds": [0, 4]},
            "visits": {"type": "count", "bounds": [0, 50]},
            "ill": {"type": "binary"},
            "scores": {"type": "real", "bounds": [0, 1], "shape": [2]},
            "my col": {"type": "real", "bounds": [0, 1]},
        }
    }
)
SIGNS = [*"+-*/^~|,()[]{}.`'\\\0\n", "**", "%in%", "==", ">", "++"]
CALLS = ["I(", "log(", "sqrt(", "exp(", "center(", "scale(", "bs(", "poly(", "C(", "Surv(", "np."]
WORDS = ["df=4", "knots=[50]", "raw=True", "Treatment('b')", "Sum", "'a'", "é", "lambda:1", "x"]
NUMBERS = ["0", "1", "2", "3.5", "-1", "1e9", "1e400", "10**400", "1e308"]
COLUMNS = ["age", "sex", "ward", "income", "debt", "kids", "ill", "scores", "`my col`", "visits"]
TERMS = ["(1|ward)", "(age|sex)", "bs(age, df=5)", "poly(age, 2)", "C(ward, Sum)", "exp(debt)"]
TERMS += ["log(income)", "scale(age)", "exp(income)", "C(kids)", "I(age > 50)", "abs(debt)"]


def tokens(rng):
    """Pieces in any order: hardly ever a formula."""
    every = SIGNS + CALLS + WORDS + NUMBERS + COLUMNS + TERMS
    return " ".join(rng.choice(every, size=rng.integers(1, 14)))


def terms(rng):
    """Something that could be meant."""
    one, other = rng.choice(COLUMNS[:6] + NUMBERS, size=2)
    arithmetic = f"I({one} {rng.choice(['+', '-', '*', '/', '**', '<'])} {other})"
    some = rng.choice([*COLUMNS, *TERMS, arithmetic, "0", "1"], size=rng.integers(1, 5))
    return str(rng.choice([" + ", " * ", ":", " - ", " / "])).join(some)


@pytest.mark.parametrize("maker", [tokens, terms])
def test_a_design_or_one_line(maker):
    rows, made = SCHEMA.simulate(np.random.default_rng(0), 30), 0
    for number in range(EACH):
        formula = f"visits ~ {maker(np.random.default_rng([SEED, number]))}"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                encoder = FormulaEncoder(formula, SCHEMA)
                design = encoder.design(rows)
            except NoisewiseError as error:
                said = str(error)
            else:
                said = ""
        assert "\n" not in said, formula
        if said:
            continue
        low, high = encoder.feature_bounds()
        room = 1e-4 * (1 + np.maximum(np.abs(low), np.abs(high)))
        assert np.isfinite(design).all(), formula
        assert ((design >= low - room) & (design <= high + room)).all(), formula
        made += 1
    assert maker is tokens or made > EACH / 5
