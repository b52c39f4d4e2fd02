"""Rubin's rules for synthetic tables: by hand, in simulation, and for every form of analysis."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise as nw
from noisewise import NoisewiseError
from noisewise.synthetic.combining import pool


def test_the_rule_by_hand():
    """m = 4, mean 2.5, b = 5/3, u = 0.2: T = 5/4 * 5/3 - 0.2 = 1.8833."""
    found = nw.combine([1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.2, 0.3])
    line = found.table.loc["estimate"]
    total = 1.25 * 5 / 3 - 0.2
    df = 3 * (1 - 0.2 / (1.25 * 5 / 3)) ** 2
    assert line["estimate"] == 2.5
    assert line["between"] == pytest.approx(5 / 3)
    assert line["within"] == pytest.approx(0.2)
    assert line["sd"] == pytest.approx(math.sqrt(total))
    assert line["df"] == pytest.approx(df)
    half = stats.t.ppf(0.975, df) * math.sqrt(total)
    assert (line["lower"], line["upper"]) == pytest.approx((2.5 - half, 2.5 + half))
    assert found.adjusted == () and found.copies == 4 and found.level == 0.95
    assert "Pooled over 4 synthetic tables, 95% intervals" in repr(found)


def test_a_negative_variance_is_adjusted():
    """b = 0.01, u = 1: T is negative; a sample of the fit's size has half a table's variance."""
    found = nw.combine([1.0, 1.1, 0.9], [1.0, 1.0, 1.0], share=0.5, level=0.9)
    line = found.table.loc["estimate"]
    assert line["sd"] == pytest.approx(math.sqrt(0.5))
    assert line["df"] == 2
    assert line["upper"] - 1.0 == pytest.approx(stats.t.ppf(0.95, 2) * math.sqrt(0.5))
    assert found.adjusted == ("estimate",)
    assert "own records only: estimate" in repr(found)


def test_degrees_of_freedom_are_at_least_one():
    """Where T is just above zero, Satterthwaite's would be near none, and intervals endless."""
    found = pool(np.array([[0.0], [1.0], [2.0]]), np.full((3, 1), 1.3))
    assert not found.adjusted[0] and found.df[0] == 1.0


@pytest.mark.parametrize(("ratio", "copies"), [(1.0, 100), (0.3, 20), (0.1, 20)])
def test_intervals_cover_on_a_gaussian_toy(ratio, copies):
    """A posterior N(0, 1) that holds the truth, tables whose estimates have variance ``ratio``.

    2000 replications: coverage within 3.9 binomial standard errors of 95%, a false alarm in ten
    thousand for each of the three cases. Treating the tables' spread as the error of their mean, as
    one would with ordinary samples, must fail the same check.
    """
    rng, count = np.random.default_rng(20), 2000
    truth = rng.normal(size=count)
    estimates = rng.normal(size=(copies, count))
    estimates += math.sqrt(ratio) * rng.normal(size=(copies, count))
    found = pool(estimates, np.full((copies, count), ratio))
    error = 3.9 * math.sqrt(0.95 * 0.05 / count)
    covered = np.mean((found.lower <= truth) & (truth <= found.upper))
    assert abs(covered - 0.95) < error
    half = 1.96 * np.sqrt(found.between / copies)
    assert np.mean(abs(found.estimate - truth) < half) < 0.95 - error


def mean_visits(table):
    column = table["visits"]
    return float(column.mean()), float(column.var() / len(column))


def test_forms_of_functions_agree(tables):
    """One analysis in every form that carries variances."""
    pair = nw.combine(tables, mean_visits).table
    forms = {
        "dict of pairs": lambda table: {"estimate": mean_visits(table)},
        "pair of dicts": lambda t: tuple({"estimate": part} for part in mean_visits(t)),
        "Series": lambda t: tuple(pd.Series({"estimate": part}) for part in mean_visits(t)),
        "covariance": lambda t: (
            pd.Series({"estimate": mean_visits(t)[0]}),
            pd.DataFrame([[mean_visits(t)[1]]]),
        ),
    }
    for name, form in forms.items():
        pd.testing.assert_frame_equal(nw.combine(tables, form).table, pair, obj=name)
    values, variances = zip(*tables.map(mean_visits), strict=True)
    pd.testing.assert_frame_equal(nw.combine(values, variances).table, pair)
    arrays = nw.combine([[v, 0.0] for v in values], [[u, 1.0] for u in variances]).table
    assert list(arrays.index) == ["estimate[0]", "estimate[1]"]
    np.testing.assert_allclose(arrays.iloc[0], pair.iloc[0])


def test_the_share_of_rows_is_known_for_synthetic_tables(tables):
    """An estimate that is the same everywhere, and uncertain: T is negative, so u times rows."""
    found = nw.combine(tables, lambda _: (0.0, 4.0)).table
    assert found["sd"].item() == pytest.approx(2.0)
    half = nw.SyntheticTables(
        tables._generator,
        tables._thetas,
        5,
        rows=tables.rows // 2,
        seed=0,
        origin=tables.origin,
    )
    assert nw.combine(half, lambda _: (0.0, 4.0)).table["sd"].item() == pytest.approx(2**0.5)


def test_statsmodels_and_scikit_learn_agree(tables):
    """A regression of a score on the illness: same coefficients; bootstrapped variances.

    Over 10 tables, 30 resamples each know the mean variance to about 8 percent (a resample's
    squared error has relative variance 2): the bounds are five of these. Fixed seed.
    """
    smf = pytest.importorskip("statsmodels.formula.api")
    linear = pytest.importorskip("sklearn.linear_model")
    few = [table.rename(columns={"score[0]": "score"}) for table in tables[:10]]
    seen = []
    classic = nw.combine(
        few, lambda t: smf.ols("score ~ ill", t).fit(), progress=lambda *done: seen.append(done)
    )
    learned = nw.combine(
        few, lambda t: linear.LinearRegression().fit(t[["ill"]], t["score"]), bootstrap=30
    )
    assert seen[-1] == (10, 10)
    assert list(classic.table.index) == ["Intercept", "ill"]
    assert list(learned.table.index) == ["intercept", "ill"]
    for name in ("estimate", "between"):
        np.testing.assert_allclose(classic.table[name], learned.table[name], rtol=1e-6)
    np.testing.assert_allclose(classic.table["within"], learned.table["within"], rtol=0.42)


def test_scikit_learn_without_variances_by_class_and_name(tables):
    linear = pytest.importorskip("sklearn.linear_model")
    few = tables[:3]
    found = nw.combine(
        few,
        lambda t: linear.LogisticRegression(fit_intercept=False).fit(
            t[["visits", "ill"]].to_numpy(), t["ward"]
        ),
        bootstrap=2,
    )
    assert list(found.table.index) == [
        f"{ward}: {feature}" for ward in ("east", "north, old", "south") for feature in (0, 1)
    ]


def test_estimates_alone_are_bootstrapped(tables):
    """A median has no formula; a mean has one to compare with: within five of its 14 percent.

    20 resamples of 5 tables: relative standard error sqrt(2 / 95) = 0.145. Fixed seed.
    """
    found = nw.combine(tables[:5], lambda t: t["visits"].agg(["mean", "median"]))
    formula = nw.combine(tables[:5], mean_visits).table["within"].item()
    assert found.table.loc["mean", "within"] == pytest.approx(formula, rel=0.73)
    again = nw.combine(tables[:5], lambda t: t["visits"].mean(), seed=0).table
    assert again["within"].item() != 0


def test_estimates_are_matched_by_name():
    def swap(pairs):
        return dict(reversed(pairs.items()))

    one, two = {"a": (1.0, 0.1), "b": (5.0, 0.1)}, {"a": (2.0, 0.1), "b": (6.0, 0.1)}
    found = nw.combine([one, two], lambda table: table if table is one else swap(table)).table
    assert found.loc["a", "estimate"] == 1.5 and found.loc["b", "estimate"] == 5.5


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([(1.0, 0.1)], "at least two tables to pool, got 1"),
        ([(1.0, 0.1), (2.0, -0.1)], "a variance must not be negative, got -0.1"),
        ([(1.0, 0.1), (math.nan, 0.1)], "analysis of table 1 has no finite estimate of 'estimate'"),
        ([(1.0, 0.1), (1.0, math.inf)], "variances that are not finite"),
        ([{"a": (1.0, 0.1)}, {"b": (1.0, 0.1)}], "table 1 does not estimate what that of table 0"),
        ([("text", 0.1), (1.0, 0.1)], "estimates must be numbers, got 'text'"),
        ([([1.0, 2.0], [0.1]), (1.0, 0.1)], "expected 2 variances or their covariance matrix"),
        ([({"a": 1.0}, {"b": 0.1}), (1.0, 0.1)], r"variances are of \['b'\], estimates of \['a'\]"),
        ([([[1.0]], 0.1), (1.0, 0.1)], "one number for each estimate"),
        ([1.0, 2.0], "no variances, and a float has no rows to resample"),
    ],
)
def test_refusals_are_one_line(answers, words):
    with pytest.raises(NoisewiseError, match=words) as caught:
        nw.combine(answers, lambda answer: answer)
    assert "\n" not in str(caught.value)


def test_errors_of_the_analysis_name_the_table():
    frames = [pd.DataFrame({"x": [float(i), 1.0]}) for i in range(4)]

    def analysis(table):
        if table["x"][0] == 2.0:
            raise np.linalg.LinAlgError("Singular\nmatrix")
        return 1.0, 0.1

    words = r"the analysis of table 2 failed \(LinAlgError: Singular matrix\)"
    with pytest.raises(NoisewiseError, match=words) as caught:
        nw.combine(frames, analysis)
    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
    assert "\n" not in str(caught.value)


def test_errors_of_resamples_name_the_table():
    """Table 1 alone has two distinct rows, one of which a resample may lack (sure, by the seed)."""
    frames = [pd.DataFrame({"x": [1.0] * 2}), pd.DataFrame({"x": [1.0, 2.0]})]

    def gap(table):
        return math.nan if table["x"].iloc[0] == table["x"].iloc[-1] == 2.0 else 1.0

    def failing(table):
        return 1 / (2.0 - float(table["x"].min()))

    def renamed(table):
        return {"low" if table["x"].min() == 1.0 else "high": 1.0}

    for analysis, words in (
        (gap, "a resample of table 1 has no finite estimate of 'estimate'"),
        (failing, "a resample of table 1 failed .ZeroDivisionError"),
        (renamed, "a resample of table 1 does not estimate what that of table 1 does: 'high'"),
    ):
        with pytest.raises(NoisewiseError, match=words):
            nw.combine(frames, analysis)


def test_arguments_are_checked():
    with pytest.raises(NoisewiseError, match="a variance for each of 2 tables' estimates, got 1"):
        nw.combine([1.0, 2.0], [0.1])
    with pytest.raises(NoisewiseError, match="level must be a number strictly between 0 and 1"):
        nw.combine([1.0, 2.0], [0.1, 0.1], level=95)
    with pytest.raises(NoisewiseError, match="share must be a positive number"):
        nw.combine([1.0, 2.0], [0.1, 0.1], share=0)
