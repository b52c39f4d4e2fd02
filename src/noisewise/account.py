"""What a fit says about privacy: the number of rows it may use, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass

from noisewise._validate import NoisewiseError
from noisewise.data import PublicSample, Table
from noisewise.mechanism import Budget, Certificate, Release, issue
from noisewise.mechanism.certificate import KNOWN_SEED, NOISED_COUNT
from noisewise.mechanism.counting import count_release, noisy_count

__all__ = ["RowCount", "certified", "row_count"]


@dataclass(frozen=True)
class RowCount:
    """The number of rows as it may be used, where it came from, and what it cost."""

    public: int
    source: str
    releases: tuple[Release, ...]


def row_count(table: Table, budget: Budget, insecure_seed: int | None) -> RowCount:
    """Read, or bought with about one percent of the budget: then nothing may be refused after."""
    declared = table.schema.rows
    if declared is not None:
        if declared != len(table):
            raise NoisewiseError(
                f"the schema declares rows = {declared} but the table has another number: correct "
                "it, or leave rows out to have the number noised"
            )
        source = "declared public in the schema"
        if budget.adjacency == "add-remove":
            source += ", so that the guarantee is for tables of this size"
        return RowCount(declared, source, ())
    if budget.adjacency == "replace-one":
        return RowCount(len(table), "public under replace-one adjacency", ())
    release = count_release(budget)
    public = noisy_count(len(table), release, insecure_seed)
    return RowCount(public, NOISED_COUNT, (release,))


def certified(
    budget: Budget,
    releases: tuple[Release, ...],
    count: RowCount,
    source: str,
    public_sample: PublicSample | None,
    insecure_seed: int | None,
) -> Certificate:
    """The certificate of a fit; ``source`` says where clip norms and settings came from, and the
    row count's own release joins ``releases``."""
    secure = insecure_seed is None
    sources = {
        "bounds and categories": "declared in the schema",
        "clip norm and settings": source,
        "number of rows": count.source,
        "randomness": "AES-128-CTR keyed by the operating system" if secure else KNOWN_SEED,
        "sampling": "Poisson, no batch truncated",
        "noise": "rounded Gaussian on an integer grid",
    }
    if public_sample is not None:
        sources["covariates for simulation"] = (
            f"a sample of {len(public_sample)} rows, {public_sample.fingerprint()}, declared public"
        )
    reasons = (
        () if secure else (f"insecure_seed={insecure_seed}: whoever knows it can undo the noise",)
    )
    return issue(budget, (*releases, *count.releases), sources, reasons)
