"""What declarations cost: more where bounds are wide and little was bought, nothing where not."""

from __future__ import annotations

import pytest

from noisewise.data import Column, Schema
from noisewise.mechanism import Budget
from noisewise.planning import declaration_costs
from noisewise.planning.schema_cost import _likely

BUDGET = Budget(epsilon=1.0, delta=1e-6)
ILL = Column(name="ill", kind="binary")


def costs(column, **options):
    return declaration_costs(Schema((column, ILL)), 2000, BUDGET, "ill", **options)


def test_wide_bounds_cost_more_than_narrow_ones():
    """Simulations are seeded: nothing here is left to chance."""
    wide = Column(name="age", kind="real", bounds=(0, 500))
    (alone,) = costs(wide, covariate_share=0)
    # A frame made for values five times as spread out: noise falls on the wrong directions.
    assert 1.3 < alone.ratio < 4
    assert "[0, 100]" in alone.words and f"{alone.ratio:.1f} times" in alone.words
    (same,) = costs(wide, narrower={"age": (0, 500)}, covariate_share=0)
    assert same.ratio == pytest.approx(1.0, abs=1e-6)


@pytest.mark.slow
def test_what_is_bought_of_covariates_mends_bounds_until_noise_hides_them():
    wide = Column(name="age", kind="real", bounds=(0, 500))
    schema = Schema((wide, ILL))
    (many,) = declaration_costs(schema, 50_000, BUDGET, "ill")
    assert many.ratio == pytest.approx(1.0, abs=0.1) and not many.hidden
    (few,) = declaration_costs(schema, 1000, Budget(epsilon=0.3, delta=1e-6), "ill")
    assert few.ratio > 1.5 and few.hidden and "would not be ok" in few.words


@pytest.mark.slow
def test_a_rare_category_is_not_what_the_plan_forecasts():
    ward = Column(name="ward", kind="category", categories=("a", "b", "c"))
    (found,) = costs(ward)
    # Of 2% instead of a third: at least the square root of 16 times fewer people.
    assert found.ratio > 2 and "2%" in found.words


@pytest.mark.parametrize(
    ("column", "bounds"),
    [
        (Column(name="a", kind="real", bounds=(0, 500)), (0, 100)),
        (Column(name="a", kind="real", bounds=(-500, 0)), (-100, 0)),
        (Column(name="a", kind="real", bounds=(100, 200)), (140, 160)),
        (Column(name="a", kind="real", bounds=(0, 500), mean=40, sd=5), (20, 60)),
        (Column(name="a", kind="count", bounds=(0, 3)), (0, 1)),
    ],
)
def test_where_values_are_taken_to_be(column, bounds):
    assert _likely(column) == pytest.approx(bounds)
