"""Synthetic tables from a result that was made by hand."""

from __future__ import annotations

import pytest

import noisewise as nw
from synthetic.clinic import SCHEMA, clinic, made_result


@pytest.fixture(scope="session")
def clinic_schema() -> nw.Schema:
    return SCHEMA


@pytest.fixture(scope="session")
def clinic_result() -> nw.Result:
    return made_result(SCHEMA)


@pytest.fixture(scope="session")
def tables(clinic_result) -> nw.SyntheticTables:
    return nw.synthesize(clinic_result, model=clinic, copies=30, seed=3)
