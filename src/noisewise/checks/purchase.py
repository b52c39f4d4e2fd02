"""Sums over a table's rows after a fit: refused first, written down, bought, certified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisewise._shapes import Float
from noisewise._validate import LARGEST_SEED, NoisewiseError, integer_at_least, shown
from noisewise.data import Rows, Table
from noisewise.engine import certify_sums
from noisewise.mechanism import Budget, Certificate, Ledger, Release, calibrate, release_sum
from noisewise.result import Result


class Bought(NamedTuple):
    """Noisy sums, and what they cost."""

    total: Float[np.ndarray, " size"]
    noise_sd: float
    certificate: Certificate


def rehearse_purchase(
    result: Result,
    table: Table,
    budget: Budget,
    ledger: Ledger | str | Path | None,
    insecure_seed: int | None,
) -> Ledger | None:
    """Refuse what is wrong with the arguments, before anything is spent; returns the ledger.

    Args:
        result: Of a fit.
        table: Its rows.
        budget: Of the purchase.
        ledger: The table's.
        insecure_seed: As `release_sum` takes it.
    """
    if not isinstance(result, Result):
        raise NoisewiseError(
            f"result must be a noisewise.Result, got {type(result).__name__}: "
            "nw.Result.load(folder) reads a saved one"
        )
    if not isinstance(table, Table):
        raise NoisewiseError(f"table must be a noisewise.Table, got {type(table).__name__}")
    if not isinstance(budget, Budget):
        raise NoisewiseError(f"budget must be a noisewise.Budget, got {shown(budget)}")
    if insecure_seed is not None:
        integer_at_least("insecure_seed", insecure_seed, 0, LARGEST_SEED)
    if table.schema.fingerprint() != result.request.schema.fingerprint():
        raise NoisewiseError(
            "the table's schema is not the one that was fitted: read the table with "
            "result.request.schema"
        )
    if table.schema.unit is not None:
        raise NoisewiseError(
            "checks and comparisons are bought of single rows, and the schema declares a [unit], "
            f"{table.schema.unit.column}: they do not know whole units yet"
        )
    book = None if ledger is None else Ledger.of(ledger)
    if book is not None:
        book.account()
    return book


def buy_sums(
    table: Table,
    contributions: Callable[[Rows], Rows],
    sensitivity: float,
    budget: Budget,
    *,
    what: str,
    bound: str,
    ledger: Ledger | None,
    insecure_seed: int | None,
) -> Bought:
    """The noisy sum of what all records contribute, for the whole of the budget.

    Args:
        table: The records.
        contributions: Record by record, one column of vectors.
        sensitivity: The most that a vector may measure, in L2 norm.
        budget: All of it is spent.
        what: How the certificate names the release.
        bound: In words, why a record contributes no more.
        ledger: Where it is written down first.
        insecure_seed: Makes the noise repeatable, and therefore not private.
    """
    release = Release(what=what, noise_multiplier=calibrate(budget, 1.0, 1))
    entry = None
    if ledger is not None:
        entry = ledger.reserve(
            budget, what, schema=table.schema.fingerprint(), seeded=insecure_seed is not None
        )
        entry.settle((release,))
    found = release_sum(
        table.rows.map(contributions),
        sensitivity,
        budget,
        what=what,
        insecure_seed=insecure_seed,
    )
    certificate = certify_sums(
        budget,
        (found.release,),
        bound=bound,
        insecure_seed=insecure_seed,
        more={} if entry is None else {"ledger": str(entry)},
    )
    if entry is not None:
        entry.certify(certificate)
    return Bought(found.total, found.noise_sd, certificate)
