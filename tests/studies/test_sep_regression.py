"""The DP-SEP paper's regressions, on a small table in the same format."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.mechanism import Budget, issue
from noisewise.studies import run_study
from noisewise.studies.dp_sep.regression_tables import (
    private_split,
    read_tables,
    standardised_split,
)

DATA = Path(__file__).parents[3] / "shared" / "data"
ROWS = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A parabola of two inputs; the target's column is not the last."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (ROWS, 2))
    y = 3 + 2 * X[:, 0] ** 2 + 0.3 * rng.standard_normal(ROWS)
    place = tmp_path_factory.mktemp("tables") / "parabola"
    place.mkdir()
    np.savetxt(place / "data.txt", np.column_stack([X[:, 0], y, X[:, 1]]))
    (place / "index_features.txt").write_text("0\n2\n")
    (place / "index_target.txt").write_text("1\n")
    orders = [rng.permutation(ROWS) for _ in range(2)]
    for name, part in (("train", slice(40, None)), ("test", slice(40))):
        text = "\n".join(" ".join(map(str, order[part])) for order in orders)
        with gzip.open(place / f"index_{name}.txt.gz", "wt") as file:
            file.write(text + "\n")
    (place / "bounds.txt").write_text("-2 0 -2\n2 15 2\n")
    return place.parent


def test_tables_are_read_with_splits_and_declared_bounds(folder):
    (table,) = read_tables(folder).values()
    assert (table.name, table.X.shape, len(table.train)) == ("parabola", (ROWS, 2), 2)
    assert sorted(np.concatenate([table.train[1], table.test[1]])) == list(range(ROWS))
    assert table.high.tolist() == [2, 2, 15]  # the target's last
    assert read_tables(folder / "parabola").keys() == {"parabola"}


def test_a_range_must_be_declared(folder, tmp_path):
    for path in (folder / "parabola").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "bounds.txt").write_text("-2 0\n2 15\n")
    with pytest.raises(NoisewiseError, match="2 lines of 3 numbers, got 2 x 2"):
        read_tables(tmp_path)
    (tmp_path / "bounds.txt").unlink()
    with pytest.raises(NoisewiseError, match=r"not declared: write .*bounds.txt"):
        read_tables(tmp_path)
    with pytest.raises(NoisewiseError, match="no table found"):
        read_tables(folder / "nothing")


def test_splits_are_scaled_and_lead_back_to_the_table(folder):
    (table,) = read_tables(folder).values()
    budget = Budget(epsilon=5.0, delta=1e-5)
    for split in (standardised_split(table, 1), private_split(table, 1, budget, 0)):
        back = split.centre + split.unit * split.y.astype(float)
        np.testing.assert_allclose(back, table.y[table.train[1]], rtol=1e-5)
        assert split.X.shape == (200, 2) and len(split.y_test) == 40
        # Noise at epsilon 5 moves these by a few hundredths.
        assert 0.7 < split.y.std() < 1.5 and 0.7 < split.X.std() < 1.5
    spent = issue(budget, split.releases, {})
    assert spent.verify().holds and spent.epsilon_spent < 2


def test_a_private_split_does_not_look_at_the_data_for_free(folder):
    """Another target value in one row changes nothing but the released moments' sums: with the same
    seed the noise is the same, so scales move by less than a record's share."""
    (table,) = read_tables(folder).values()
    budget = Budget(epsilon=5.0, delta=1e-5)
    one = private_split(table, 0, budget, 3)
    table.y[table.train[0][0]] = 14.9
    other = private_split(table, 0, budget, 3)
    assert one.unit != other.unit
    assert abs(one.unit / other.unit - 1) < 0.1


@pytest.mark.slow
def test_the_study_compares_on_every_table(folder):
    """A network against lines on a parabola, where no line can win: small, so no more than that."""
    result = run_study(
        "sep-regression",
        data=folder,
        fits=2,
        epochs=10,
        methods=("sep", "dp-sep", "vi", "line", "private-line"),
        epsilons=(0.5,),
        jobs=1,
    )
    found = {(line.panel, line.name): line for line in result.lines}
    assert {line.x for line in result.lines} == {("parabola",)}
    # The paper's budget needs no mention, another does; without privacy there is none.
    names = {name for _, name in found}
    assert names == {"sep", "vi", "dp-sep, ε = 0.5", "line", "private-line, ε = 0.5"}
    flat = found["rmse", "line"].mean[0]
    assert found["rmse", "sep"].mean[0] < 0.85 * flat
    assert np.isfinite(found["log-likelihood", "dp-sep, ε = 0.5"].values).all()
    assert found["log-likelihood", "sep"].mean[0] > found["log-likelihood", "line"].mean[0]
    text = result.to_markdown()
    assert "private linear regression" in text
    assert "not checked: goal: DP-SEP's RMSE on kin8nm" in text
    assert "Means over 2 splits" in text
    with pytest.raises(NoisewiseError, match="has 2 splits, 3 were requested: --fits 2 at most"):
        run_study("sep-regression", data=folder, fits=3, epochs=1, methods=("line",), jobs=1)
    with pytest.raises(NoisewiseError, match="--data DIR"):
        run_study("sep-regression", fits=2)


def test_clipping_has_a_line_for_every_norm(folder):
    """One short fit for each: which is best is not asked here."""
    result = run_study("sep-clipping", data=folder, fits=1, epochs=2, jobs=1)
    names = {line.name for line in result.lines if line.panel == "rmse"}
    assert names == {
        f"{method}, C = {c}" for method in ("dp-sep", "clipped-sep") for c in (1, 2, 3, 4, 5, 10)
    }
    values = {line.name: line.values[0, 0] for line in result.lines if line.panel == "rmse"}
    assert np.isfinite(list(values.values())).all()
    # The factor reaches the fits.
    assert len({value for name, value in values.items() if name.startswith("dp-sep")}) == 6
    assert values["clipped-sep, C = 1"] != values["clipped-sep, C = 10"]


def test_the_papers_tables_are_read():
    if not DATA.exists():
        pytest.skip(f"the paper's tables are not in {DATA}")
    tables = read_tables(DATA)
    shapes = {name: (table.X.shape, len(table.train)) for name, table in tables.items()}
    assert shapes == {
        "kin8nm": ((8192, 8), 20),
        "naval": ((11934, 16), 20),
        "wine": ((1599, 11), 20),
    }
    split = standardised_split(tables["wine"], 0)
    assert split.X.shape == (1439, 11)
    assert np.isfinite(standardised_split(tables["naval"], 0).X).all()  # constant columns
