"""The Adult table as the authors' code prepares it, and as it is declared."""

from pathlib import Path

import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.models import bind
from noisewise.models.glm import logistic
from noisewise.studies.core.adult import (
    authors_design,
    declared_arrays,
    declared_schema,
    outcome,
    read_adult,
)

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "adult"
here = pytest.mark.skipif(not FOLDER.exists(), reason="UCI Adult is not in ../shared/data/adult")


@pytest.fixture(scope="module")
def adult():
    return read_adult(FOLDER)


@here
def test_rows_and_columns_are_the_authors(adult):
    train, test = authors_design(adult)
    assert train.shape == (30_162, 57)
    assert test.shape == (15_060, 57)
    # Seven one-hot groups less the dropped columns: six a row, and the ones.
    assert np.unique((train == 1).sum(1).clip(max=7)).tolist() == [7]
    assert outcome(adult.train).mean() == pytest.approx(0.2489, abs=1e-4)


@here
def test_declared_rows_stay_within_their_bounds(adult):
    schema = declared_schema(adult)
    view = bind(logistic(), schema, "income")
    rows = view.encode(declared_arrays(schema, adult.train))
    other = view.encode(declared_arrays(schema, adult.test))
    assert rows["X"].shape[1] == other["X"].shape[1] == len(view.feature_names)
    assert np.isfinite(rows["X"]).all()
    np.testing.assert_array_equal(rows["y"], outcome(adult.train))
    known = adult.train["sex"] == "Male"
    np.testing.assert_array_equal(rows["X"][:, view.feature_names.index("sex=Male")], known)


def test_a_folder_without_the_files_is_refused_in_one_line(tmp_path):
    with pytest.raises(NoisewiseError, match=r"has no adult.data or adult.data.gz: name the"):
        read_adult(tmp_path)
