"""A formula's design matrix: as formulaic's own on public data, and by the schema alone."""

import pickle

import numpy as np
import pandas as pd
import pytest
from formulaic import Formula, model_matrix

from noisewise import Column, NoisewiseError, Schema, Table
from noisewise.data import Encoder, FormulaEncoder, in_own_terms, is_formula
from noisewise.data.formulas.declared import declared_cells

randhie = pytest.importorskip("statsmodels.datasets").randhie

PLANS = ("individual", "family", "none")
SCHEMA = Schema(
    (
        Column(name="mdvis", kind="count", bounds=(0, 100), mean=3, sd=4),
        Column(name="lncoins", kind="real", bounds=(0, 5), mean=2, sd=2),
        Column(name="lpi", kind="real", bounds=(0, 8)),
        Column(name="fmde", kind="real", bounds=(0, 9)),
        Column(name="disea", kind="real", bounds=(0, 60), mean=11, sd=7),
        Column(name="hlthg", kind="binary"),
        Column(name="plan", kind="category", categories=PLANS),
        Column(name="health of all", kind="category", categories=("good", "poor")),
        Column(name="quarter", kind="count", bounds=(1, 4)),
    )
)


@pytest.fixture(scope="module")
def people():
    """Two hundred of RAND's people, whose columns are public, with two categories cut from them."""
    data = randhie.load_pandas().data.iloc[::100].reset_index(drop=True)
    frame = data[["mdvis", "lncoins", "lpi", "fmde", "disea", "hlthg"]].copy()
    frame["plan"] = np.array(PLANS)[np.arange(len(frame)) % 3]
    frame["health of all"] = np.where(data["hlthp"] > 0, "poor", "good")
    frame["quarter"] = 1 + np.arange(len(frame)) // 7 % 4
    return frame


def with_levels(frame):
    """What formulaic must be told besides: every level that the schema declares."""
    found = frame.copy()
    for column in SCHEMA:
        if column.categories is not None:
            found[column.name] = pd.Categorical(frame[column.name], column.categories)
    return found


def in_formulas_terms(formula, frame):
    """Our encoded design, turned back: the columns as the formula has them."""
    encoder = FormulaEncoder(formula, SCHEMA)
    arrays = Table(frame, SCHEMA).rows.unsafe_columns()
    change = in_own_terms(encoder.describe())
    # Encoded columns are the formula's own times this matrix, so that predictors are the same.
    return encoder.names, np.linalg.solve(change.T, encoder.design(arrays).T.astype(float)).T


@pytest.mark.parametrize(
    "right",
    [
        "1",
        "lpi",
        "disea + plan",
        "disea * plan",
        "disea / plan",
        "0 + plan",
        "-1 + plan + disea",
        "plan + 0 + disea:plan",
        "disea:plan",
        "plan:`health of all`",
        "plan * `health of all` * disea",
        "plan * `health of all` - plan",
        "(disea + lpi + hlthg)^2",
        "(disea + lpi + hlthg)**3 - disea:lpi",
        ".",
        ". - fmde",
        "I(disea ** 2) + I(disea > 10) + I(-lpi / 2 + 3)",
        "log1p(disea) * hlthg + sqrt(lpi) + exp(lncoins) + log(lpi + 1)",
        "C(plan) + C(quarter)",
        "C(plan, contr.treatment('none')) * disea",
        "C(plan, contr.sum) * disea",
        "0 + C(plan, contr.sum):lpi",
        "bs(disea, knots=[5, 20], lower_bound=0, upper_bound=60)",
        "hlthg:bs(lpi, knots=[3], degree=2, lower_bound=0, upper_bound=8) + hlthg",
    ],
)
def test_it_is_what_formulaic_makes_of_the_rows(people, right):
    """Names in the same order, and numbers to float32's accuracy (of the largest in a column)."""
    names, design = in_formulas_terms(f"mdvis ~ {right}", people)
    functions = {"log1p": np.log1p, "sqrt": np.sqrt}
    theirs = model_matrix(f"mdvis ~ {right}", with_levels(people), context=functions).rhs
    assert names == list(theirs.columns)
    wanted = theirs.to_numpy(float)
    assert design.shape == wanted.shape
    assert np.abs(design - wanted).max(0) == pytest.approx(0, abs=1e-4 * np.abs(wanted).max())


def test_nesting_is_the_product_alone_as_in_r():
    """formulaic adds the outer factor by itself."""
    nested, written = (
        FormulaEncoder(f"mdvis ~ {right}", SCHEMA) for right in ("disea %in% plan", "disea:plan")
    )
    assert nested.names == written.names and "plan" not in " ".join(nested.names[:1])


def test_polynomials_are_formulaics_on_what_is_declared():
    """formulaic takes their state from rows; ours is that of rows spread as the schema says."""
    cells = declared_cells(SCHEMA, ("disea",))
    ours = FormulaEncoder("mdvis ~ poly(disea, 3)", SCHEMA).design(dict(cells))[:, 1:]
    theirs = Formula("~ poly(disea, 3) - 1").get_model_matrix(pd.DataFrame(cells)).to_numpy(float)
    # R's have a sum of squares of 1, ours a mean square of 1.
    assert ours == pytest.approx(np.sqrt(len(theirs)) * theirs, abs=1e-3)


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        ("center(disea)", lambda x: x - 11),
        ("scale(disea)", lambda x: (x - 11) / 7),
        ("scale(2 * disea + 1)", lambda x: (x - 11) / 7),
        ("I(center(disea) ** 2)", lambda x: (x - 11) ** 2),
        ("poly(disea, 1, raw=True)", lambda x: x),
    ],
)
def test_means_and_sds_are_those_declared(people, term, wanted):
    names, design = in_formulas_terms(f"mdvis ~ {term}", people)
    assert names[1] == term
    assert design[:, 1] == pytest.approx(wanted(people["disea"].to_numpy()), rel=1e-4, abs=1e-3)


def test_knots_are_quantiles_of_what_is_declared(people):
    """Of no declaration but bounds: evenly spaced."""
    names, design = in_formulas_terms("mdvis ~ bs(lpi, df=5)", people)
    given = "bs(lpi, knots=[8 / 3, 16 / 3], lower_bound=0, upper_bound=8)"
    theirs = Formula(f"~ {given}").get_model_matrix(people).to_numpy(float)
    assert names[1:] == [f"bs(lpi, df=5)[{k}]" for k in range(1, 6)]
    assert design == pytest.approx(theirs, abs=1e-3)


def test_without_products_it_is_the_encoder_bit_by_bit():
    gaps = Column(
        name="fmde", kind="real", bounds=(0, 9), missing="allowed", fill=1.0, missing_share=0.3
    )
    vector = Column(name="scores", kind="real", bounds=(0, 4), shape=(2,), missing="allowed")
    schema = Schema((*(c for c in SCHEMA if c.name != "fmde"), gaps, vector))
    rows = schema.simulate(np.random.default_rng(5), 300)
    features = [name for name in schema.names if name != "mdvis"]
    plain, formula = Encoder(schema, "mdvis", features), FormulaEncoder("mdvis ~ .", schema)
    assert formula.features == plain.features
    assert np.array_equal(formula.encode(rows)["X"], plain.encode(rows)["X"])
    assert np.array_equal(formula.encode(rows)["y"], plain.encode(rows)["y"])
    assert np.array_equal(formula.feature_bounds(), plain.feature_bounds())
    assert "fmde (missing)" in formula.names and "scores[1] (missing)" in formula.names


def test_each_gap_is_told_once_after_the_first_term_that_has_it():
    gaps = Column(name="age", kind="real", bounds=(0, 90), missing="allowed", fill=30)
    schema = Schema((gaps, *SCHEMA))
    encoder = FormulaEncoder("mdvis ~ plan * age + I(age ** 2)", schema)
    assert encoder.names == [
        "Intercept",
        "plan[T.family]",
        "plan[T.none]",
        "age",
        "age (missing)",
        "I(age ** 2)",
        "plan[T.family]:age",
        "plan[T.none]:age",
    ]
    cells = {"plan": np.array([1, 2]), "age": np.array([np.nan, 60.0])}
    change = in_own_terms(encoder.describe())
    design = np.linalg.solve(change.T, encoder.design(cells).T.astype(float)).T
    assert design[0] == pytest.approx([1, 1, 0, 30, 1, 900, 30, 0], abs=1e-2)
    assert design[1] == pytest.approx([1, 0, 1, 60, 0, 3600, 0, 60], abs=1e-2)


@pytest.mark.parametrize("right", [". - mdvis", "disea * plan * lpi", "bs(disea, df=6) * plan"])
def test_encoded_columns_are_of_unit_size_and_inside_their_bounds(right):
    encoder = FormulaEncoder(f"mdvis ~ {right}", SCHEMA)
    design = encoder.design(SCHEMA.simulate(np.random.default_rng(1), 2000))
    low, high = encoder.feature_bounds()
    assert (design >= low - 1e-4).all() and (design <= high + 1e-4).all()
    size = np.sqrt((design.astype(float) ** 2).mean(0))
    assert size.min() > 0.1 and size.max() < 2


def test_a_record_is_encoded_by_itself():
    """Whoever stands beside it: the sensitivity of a sum over records rests on this."""
    encoder = FormulaEncoder("mdvis ~ bs(disea, df=5) * plan + poly(lpi, 2) + scale(disea)", SCHEMA)
    rows = SCHEMA.simulate(np.random.default_rng(2), 50)
    whole = encoder.design(rows)
    others = {name: values[[7, 3]] for name, values in rows.items()}
    assert np.array_equal(encoder.design(others), whole[[7, 3]])


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("mdvis ~ log(disea)", "log(disea) in the formula needs disea to be above 0"),
        ("mdvis ~ log(disea)", "or write log1p"),
        ("mdvis ~ sqrt(lpi - 1)", "needs lpi - 1 to be 0 or more, and by the schema it may be -1"),
        ("mdvis ~ I(1 / lpi)", "divides by lpi, which may be 0"),
        ("mdvis ~ I(lpi ** -1)", "divides by lpi, which may be 0"),
        ("mdvis ~ I(lpi ** disea)", "has a column as its exponent"),
        ("mdvis ~ exp(exp(disea))", "beyond all numbers within the declared bounds"),
        ("mdvis ~ center(lpi)", "declare mean and sd of 'lpi' in the schema"),
        ("mdvis ~ scale(log1p(lpi))", "declare mean and sd of 'lpi' in the schema"),
        ("mdvis ~ C(lpi)", "declare it a category"),
        ("mdvis ~ C(plan, Treatment('x'))", "the reference must be one of"),
        ("mdvis ~ C(plan, Helmert)", "contrasts are Treatment('level') or Sum"),
        ("mdvis ~ bs(disea)", "needs either df, the number of its columns, or knots"),
        ("mdvis ~ bs(disea, knots=[70])", "knots that rise strictly between the bounds [0, 60]"),
        ("mdvis ~ bs(disea, df=5, upper_bound=9)", "bounds narrower than the schema's, [0, 60]"),
        ("mdvis ~ bs(quarter, df=9)", "needs knots that rise strictly"),
        ("mdvis ~ poly(hlthg, 2)", "fewer different values than it needs"),
        ("mdvis ~ poly(disea, 2.5)", "needs degree to be a whole number"),
        ("mdvis ~ poly(disea, disea)", "arguments must be numbers"),
        ("mdvis ~ I(disea - mean(disea))", "would look at several rows at once"),
        ("mdvis ~ I(disea - disea.mean())", "would look at several rows at once"),
        ("mdvis ~ I(disea[0])", "is not understood"),
        ("mdvis ~ I(__import__('os').system('true'))", "is not known"),
        ("mdvis ~ I((lambda: 1)())", "is not known"),
        ("mdvis ~ I(plan * 2)", "'plan' is a category: compare it with a level"),
        ("mdvis ~ I(plan == 'x')", "compared by == or != with one of"),
        ("mdvis ~ income", "'income' in the formula is not in the schema"),
        ("mdvis ~ 3:disea", "has the number 3 in it"),
        ("mdvis ~ I(3)", "names no column"),
        ("mdvis ~ I(disea * 0)", "is the same for everybody by the schema"),
        ("mdvis ~ plan + C(plan)", "says the same twice"),
        ("mdvis ~ disea + center(disea)", "says the same twice"),
        ("mdvis ~ disea + I(3 - 2 * disea)", "says the same twice"),
        ("mdvis ~ 0 + disea + I(2 * disea)", "says the same twice"),
        ("mdvis ~", "has nothing on its right side"),
        ("mdvis ~ disea + mdvis", "on both sides"),
        ("log(mdvis) ~ disea", "the left side of the formula is 'log(mdvis)'"),
        ("mdvis + lpi ~ disea", "the left side of the formula is 'mdvis + lpi'"),
        ("mdvis ~ 0", "no terms on its right side"),
        ("~ disea", "must have two sides"),
        ("mdvis ~ disea | plan", "a bar outside a group term"),
        ("mdvis ~ disea ~ plan", "cannot be read"),
        ("mdvis ~ disea +", "cannot be read"),
        ("mdvis ~ log(disea", "cannot be read"),
        ("mdvis ~ plan ** 40 + bs(disea, df=60):bs(lpi, df=60)", "more than 2000 columns"),
    ],
)
def test_what_cannot_be_done_by_the_schema_is_refused_in_one_line(formula, said):
    with pytest.raises(NoisewiseError) as caught:
        FormulaEncoder(formula, SCHEMA)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_is_not_a_formula():
    assert is_formula("a ~ b") and not is_formula("~/models.py:visits")
    assert not is_formula("poisson") and not is_formula(len)


def test_it_travels_between_processes():
    encoder = FormulaEncoder("mdvis ~ bs(disea, df=5) * C(plan, Sum) + log1p(lpi)", SCHEMA)
    again, rows = pickle.loads(pickle.dumps(encoder)), SCHEMA.simulate(np.random.default_rng(3), 20)
    assert np.array_equal(again.design(rows), encoder.design(rows))
    assert again.describe() == encoder.describe()
