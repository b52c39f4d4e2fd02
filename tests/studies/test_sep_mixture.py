"""The DP-SEP paper's mixture: its reference, its measures, its parts. Seeds are fixed."""

import math
from itertools import pairwise

import numpy as np
import pytest

from noisewise.studies.core.lines import Line
from noisewise.studies.core.study import Column, Options, Part
from noisewise.studies.dp_sep import mixture_fits
from noisewise.studies.dp_sep.mixture import (
    GOALS,
    SEP_MIXTURE,
    draw_clusters,
    measured,
    one_step,
)
from noisewise.studies.dp_sep.mixture_fits import (
    COMPONENTS,
    ROWS,
    SD,
    WIDTH,
    Fitted,
    MixtureTables,
    Posteriors,
    Prepared,
    aligned,
    divergences,
    gibbs,
    mixture_tables,
    norms,
)

METHODS = SEP_MIXTURE.methods
OPTIONS = Options(methods=METHODS, columns=(Column(1.0), Column(5.0)), fits=2, epochs=100)


def apart(distance):
    """Two tables whose centres are corners of a cube with this edge, and nothing else changed."""
    corners = distance * np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], float)
    made = mixture_tables(2, seed=3)
    around = made.X - np.take_along_axis(made.centres, made.labels[..., None], axis=1)
    return made._replace(
        X=(around + corners[made.labels]).astype("f4"), centres=corners[None][[0, 0]]
    )


def told(tables: MixtureTables) -> Posteriors:
    """The posterior of somebody who is told the labels: conjugate."""
    members = np.eye(COMPONENTS)[tables.labels]
    variances = 1 / (1 + members.sum(1) / SD**2)
    means = np.einsum("tnk,tni->tki", members, tables.X) / SD**2 * variances[..., None]
    return Posteriors(means, variances[..., None, None] * np.eye(WIDTH))


def test_tables_follow_the_model():
    tables = mixture_tables(3, seed=5)
    assert tables.X.shape == (3, ROWS, WIDTH)
    around = tables.X - np.take_along_axis(tables.centres, tables.labels[..., None], axis=1)
    # 12,000 normals: five standard errors of their sd, one false alarm in a million.
    assert around.std() == pytest.approx(SD, abs=5 * SD / 24_000**0.5)
    assert not np.array_equal(tables.centres[0], tables.centres[1])
    np.testing.assert_array_equal(mixture_tables(4, seed=5).X[:3], tables.X)


def test_the_reference_is_exact_where_labels_are_plain_to_see():
    tables = apart(20.0)
    found = gibbs(tables, seed=0, sweeps=100)
    means, covariances = norms(found, told(tables))
    np.testing.assert_array_less(means, 1e-3)
    np.testing.assert_array_less(covariances, 1e-5)


def test_the_reference_is_not_told_the_labels():
    """Centres 1.5 sds apart: the posterior is several times as wide as with known labels, and two
    chains agree on it far better than on either's distance from that one."""
    tables = apart(1.5 * SD)
    one, other = (gibbs(tables, seed=seed, sweeps=2000) for seed in (0, 1))
    widths = [np.trace(each.covariances, axis1=-2, axis2=-1) for each in (one, told(tables))]
    assert (widths[0] > 2 * widths[1]).all()
    assert (norms(one, other)[1] < 0.3 * norms(one, told(tables))[1]).all()


def test_components_have_no_order():
    reference = told(apart(2.0))
    order = [2, 0, 3, 1]
    turned = Posteriors(reference.means[:, order], reference.covariances[:, order])
    np.testing.assert_array_equal(norms(turned, reference), 0)
    np.testing.assert_allclose(divergences(reference, turned), 0, atol=1e-9)
    np.testing.assert_array_equal(aligned(turned, reference.means).means, reference.means)


def test_measures_by_hand():
    reference = Posteriors(np.zeros((1, 4, 4)), np.tile(np.eye(4), (1, 4, 1, 1)))
    reference.means[0, :, 0] = 10 * np.arange(4)
    moved = Posteriors(reference.means + 0.5, 4 * reference.covariances)
    means, covariances = norms(moved, reference)
    assert means == pytest.approx(0.5 * 16**0.5)
    assert covariances == pytest.approx(3 * 16**0.5)
    # Each of 16 coordinates: log(2/1) + (1 + 0.25)/8 - 1/2.
    assert divergences(reference, moved) == pytest.approx(16 * (math.log(2) + 1.25 / 8 - 0.5))
    failed = Posteriors(np.full_like(moved.means, np.nan), moved.covariances)
    assert np.isnan(norms(failed, reference)[0]).all()


def test_expectation_propagation_finds_the_reference_and_a_tight_clip_does_not(monkeypatch):
    """Few passes: starts are near, and a record's full step needs no more."""
    monkeypatch.setattr(mixture_fits, "_EP_PASSES", 3)
    monkeypatch.setattr(mixture_fits, "_SEP_PASSES", 4)
    monkeypatch.setattr(mixture_fits, "CLIPPED", {1.0: "clipped-sep, C = 1"})
    tables = apart(4.0)
    starts = (tables.centres + 0.3).reshape(2, -1).astype("f4")
    prepared = Prepared(tables, starts, told(tables))
    (ep,) = _only("mean", SEP_MIXTURE.run(Part("ep"), OPTIONS, prepared))
    (clipped,) = _only("mean", SEP_MIXTURE.run(Part("clipped-sep"), OPTIONS, prepared))
    assert (ep.name, ep.x, ep.values.shape) == ("ep", (math.inf,), (1, 2))
    # A posterior sd of all 16 coordinates together is 0.13; labels at 8 sds are plain to see.
    assert (ep.values < 0.01).all()
    assert clipped.name == "clipped-sep, C = 1"
    assert clipped.values.min() > 0.5


def test_em_at_a_large_budget_comes_close_and_spends_it():
    """Noise of 0.3 of a record's clip on sums over 250 of them moves no mean by 0.1."""
    tables = apart(2.0)
    starts = (tables.centres + 0.1).reshape(2, -1).astype("f4")
    prepared = Prepared(tables, starts, told(tables))
    lines = SEP_MIXTURE.run(Part("dp-em"), OPTIONS._replace(columns=(Column(30.0),)), prepared)
    (mean,), (spent,) = _only("mean", lines), _only("spent", lines)
    assert (mean.values < 0.4).all()
    assert spent.x == (30.0,)
    np.testing.assert_allclose(spent.values, 30.0, rtol=1e-3)


def _only(panel, lines):
    return [line for line in lines if line.panel == panel]


def test_the_papers_bound_is_above_the_truth_and_both_grow_with_the_noise():
    reference = told(apart(2.0))
    low, high = (one_step(1.0, noise, reference) for noise in (0.5, 2.0))
    for lines in (low, high):
        truth, bound = (next(n for n in lines if n.name == f"{w}, γ = 1") for w in WORDS)
        assert (truth.values > 0).all() and (truth.values < bound.values).all()
    assert all((a.values < b.values).all() for a, b in zip(low, high, strict=True))


WORDS = ("Monte Carlo", "Theorem 4.1")


def test_algorithm_three_has_a_part_for_every_budget():
    parts = SEP_MIXTURE.parts(OPTIONS)
    assert [part.label for part in parts] == [*METHODS[:-1], "literal-1", "literal-5"]
    assert SEP_MIXTURE.parts(OPTIONS._replace(methods=("dp-em",))) == [Part("dp-em")]


def goal_lines(factor):
    """DP-SEP at so many times its goals, everything else far away; one fit of five lost its way."""
    places = tuple(GOALS["mean"])
    lines = []
    for panel in ("mean", "covariance"):
        level = factor * np.array([[goal] for goal in GOALS[panel].values()])
        values = level * np.array([0.9, 0.95, 1.0, 1.1, 100.0])
        lines.append(Line(panel, "dp-sep", places, values))
    return lines


def test_goals_are_the_issues_and_can_be_missed():
    goals = [check for words, check in SEP_MIXTURE.claims.items() if "goal" in words]
    assert [check(goal_lines(0.99)).held for check in goals] == [True, True]
    assert [check(goal_lines(1.01)).held for check in goals] == [False, False]
    assert all(check(()).held is None for check in SEP_MIXTURE.claims.values())


def test_the_papers_table_is_beside_ours():
    mean, covariance = SEP_MIXTURE.panels[:2]
    assert mean.paper["dp-sep"] == {1.0: 82.9746, 5.0: 12.1623, 50.0: 2.2411}
    assert covariance.paper["clipped-sep, C = 1"] == {math.inf: 0.0459}
    # The paper's orderings: less clipping is better, and so is a larger budget for DP-SEP.
    clips = [mean.paper[f"clipped-sep, C = {clip}"][math.inf] for clip in (1, 10, 20)]
    assert all(tight > wide for tight, wide in pairwise(clips))


def test_the_cluster_figure_shows_every_method_once(tmp_path):
    tables = mixture_tables(1, seed=1)
    fits = [
        Fitted("ep", math.inf, told(tables)),
        Fitted("dp-sep", 1.0, told(tables)),
        Fitted("dp-sep, noise-aware", 1.0, told(tables)),
        Fitted("literal, γ = 1", 1.0, told(tables)),
    ]
    lines = [line for fitted in fits for line in measured(fitted, told(tables))]
    shown = {(line.panel, line.name) for line in lines}
    assert ("mean", "dp-sep") in shown and ("mean", "dp-sep, noise-aware") not in shown
    (path,) = draw_clusters(lines, 1, tmp_path)
    assert path.name == "sep-mixture-clusters.png"
    assert path.stat().st_size > 20_000
