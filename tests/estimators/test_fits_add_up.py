"""Cross-validation and grid search: with a ledger they spend what they spend, without one the
estimators say that fits add up."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import noisewise as nw
from noisewise._validate import NoisewiseError
from noisewise.dpvi import Settings
from noisewise.estimators import DPLogisticRegression

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

_ROWS = 120


@pytest.fixture(autouse=True)
def unplanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits with settings that suit any small table: nothing is simulated or bought for them."""
    settings = Settings(
        clip_norm=0.5,
        sampling_rate=1.0,
        steps=50,
        contraction_rate=0.1,
        curvature=50 * np.eye(2),
        prior_precision=np.eye(2),
    )

    def fit(model: Any, table: nw.Table, *, steps: Any, **asked: Any) -> nw.Result:
        return nw.fit(model, table, plan=settings, **asked)

    monkeypatch.setattr("noisewise.estimators.base.fit", fit)


@pytest.fixture
def people() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, (_ROWS, 1))
    return X, (X[:, 0] + rng.normal(size=_ROWS) > 5).astype(int)


def estimator(**changes: Any) -> DPLogisticRegression:
    settings = {"epsilon": 0.1, "bounds": (0, 10), "draws": 100, "adjacency": "replace-one"}
    return DPLogisticRegression(classes=(0, 1), **(settings | changes))


@pytest.fixture
def ledger(tmp_path) -> nw.Ledger:
    """Room for five fits, which are 0.236, and not for six, which are 0.261."""
    total = nw.Budget(epsilon=0.25, delta=1e-6, adjacency="replace-one")
    return nw.Ledger.create(tmp_path / "people.db", total)


def test_a_grid_search_spends_all_its_fits(ledger, people):
    search = GridSearchCV(estimator(ledger=ledger), {"prior_scale": [0.5, 1.0]}, cv=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search.fit(*people)
    assert not [one for one in said if "other fits" in str(one.message)]
    account = ledger.account()
    assert [entry.state for entry in account.entries] == ["certified"] * 5
    assert account.spent == pytest.approx(0.2364, abs=2e-4)
    certificate = search.best_estimator_.privacy_
    assert certificate.sources["ledger"] == "entry 5 of people.db"
    # The next fit is refused before it reads a row, also inside of scikit-learn.
    with pytest.raises(NoisewiseError, match=r"allows epsilon 0\.25 in all"):
        cross_val_score(estimator(ledger=str(ledger.path)), *people, cv=2, error_score="raise")
    assert ledger.account() == account


def test_without_a_ledger_a_search_says_that_its_fits_add_up(people):
    search = GridSearchCV(estimator(insecure_seed=1), {"prior_scale": [0.5, 1.0]}, cv=2)
    with pytest.warns(UserWarning, match=r"other fits: 4 before this one, .* pass ledger="):
        search.fit(*people)
    said = search.best_estimator_.privacy_.sources["other fits"]
    assert said.startswith("4 before this one") and "adds up" in said


def test_a_refitted_estimator_says_so_before_it_fits_again(people):
    once = estimator(insecure_seed=1).fit(*people)
    assert "other fits" not in once.privacy_.sources
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(UserWarning, match="other fits: 1 before this one"):
            once.fit(*people)
        # Another one, made by itself, has no other fits; a copy has the first one's.
        estimator(insecure_seed=2).fit(*people)
        with pytest.raises(UserWarning, match="other fits: 1 before"):
            clone(once).fit(*people)


def test_copies_that_other_processes_fit_know_that_they_are_copies(people):
    first = estimator(insecure_seed=1)
    copies = [clone(first) for _ in range(4)]
    with pytest.warns(UserWarning, match="other fits: 2 before"):
        copies[3].fit(*people)  # as a worker does, which has heard of no other fit


def test_a_search_that_chooses_by_scores_voids_its_choice(people):
    """Scores of held-out rows have no noise: what was chosen by them is not private."""
    search = GridSearchCV(estimator(), {"prior_scale": [0.5, 1.0]}, cv=2)
    with pytest.warns(UserWarning, match="NOT PRIVATE: GridSearchCV chose its parameters by"):
        search.fit(*people)
    certificate = search.best_estimator_.privacy_
    assert not certificate.private and not certificate.verify().holds


def test_where_there_is_no_choice_nothing_is_void(people):
    search = GridSearchCV(estimator(), {"prior_scale": [0.5]}, cv=2).fit(*people)
    assert search.best_estimator_.privacy_.verify().holds
    scores = cross_validate(estimator(), *people, cv=2, return_estimator=True)
    assert all(one.privacy_.verify().holds for one in scores["estimator"])


@pytest.mark.parametrize("how", ["scaler", "labels"])
def test_a_ledger_takes_no_fit_beside_which_rows_are_read_without_noise(ledger, people, how):
    model = estimator(ledger=ledger, bounds=(-10, 10))
    if how == "labels":
        asked, said = model.set_params(classes=None), "labels were read from y"
    else:
        asked, said = make_pipeline(StandardScaler(), model), "StandardScaler before it learned"
    with pytest.raises(NoisewiseError, match=rf"{said}.*no ledger can account for"):
        asked.fit(*people)
    assert ledger.account().entries == ()
