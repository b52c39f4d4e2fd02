"""The one place where a certificate is made, and the number of rows that a fit may use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise._hosts import Hosts, refuse_unshared
from noisewise._validate import NoisewiseError
from noisewise.data import ONE_ROW, PublicSample, Table
from noisewise.mechanism import Budget, Certificate, Release, issue
from noisewise.mechanism.certificate import KNOWN_SEED, NOISED_COUNT, PROTECTS
from noisewise.mechanism.counting import count_release, noisy_count

SECURE = "AES-128-CTR keyed by the operating system"
ROUNDED = "rounded Gaussian on an integer grid"


@dataclass(frozen=True)
class PublicCount:
    """The number of rows as it may be used, where it came from, and what it cost."""

    value: int
    source: str
    releases: tuple[Release, ...]

    @property
    def noise_sd(self) -> float:
        """Of the number's own noise."""
        return max((release.noise_multiplier for release in self.releases), default=0.0)


def refuse_another_count(table: Table) -> None:
    """A declared number of rows must be the table's: to be asked before anything is spent.

    Args:
        table: The rows and their schema.
    """
    declared, unit = table.schema.public_count, table.schema.unit
    if declared is not None and declared != table.rows.true_count:
        what = "rows" if unit is None else "[unit] count"
        raise NoisewiseError(
            f"the schema declares {what} = {declared} but the table has another number: correct "
            f"it, or leave {what} out to have the number noised"
        )


def public_count(
    table: Table,
    budget: Budget,
    insecure_seed: int | None,
    bought: dict[str, np.ndarray] | None = None,
) -> PublicCount:
    """Read, or bought with about one percent of the budget: then nothing may be refused after.

    Args:
        table: Whose rows are counted.
        budget: The whole one.
        insecure_seed: Makes the noise repeatable, and therefore not private.
        bought: As `mechanism.release_sum` has it.
    """
    refuse_another_count(table)
    declared, true_count = table.schema.public_count, table.rows.true_count
    if declared is not None:
        source = "declared public in the schema"
        if budget.adjacency == "add-remove":
            source += ", so that the guarantee is for tables of this size"
        if table.schema.unit is not None:
            source = f"of units, {source}"
        return PublicCount(declared, source, ())
    if budget.adjacency == "replace-one":
        return PublicCount(true_count, "public under replace-one adjacency", ())
    release = count_release(budget)
    bought = {} if bought is None else bought
    if release.what not in bought:
        share = table.rows.share
        refuse_unshared(share)
        hosts = Hosts() if share is None else Hosts.joined()
        found = hosts.number_of_first(lambda: noisy_count(true_count, release, insecure_seed))
        bought[release.what] = np.array(found)
    return PublicCount(int(bought[release.what]), NOISED_COUNT, (release,))


def certify(
    budget: Budget,
    releases: tuple[Release, ...],
    *,
    settings: str,
    count: PublicCount | str,
    protects: str = ONE_ROW,
    public_sample: PublicSample | None = None,
    insecure_seed: int | None = None,
    not_private_because: tuple[str, ...] = (),
    more: dict[str, str] | None = None,
) -> Certificate:
    """The certificate of what was released.

    Args:
        budget: What was allowed.
        releases: What was released, the row count's own release aside.
        settings: Where clip norms and settings came from.
        count: The number of rows and its own release, or in words where it came from.
        protects: What is protected, in words: `Schema.protected`.
        public_sample: Rows of other people that covariates were simulated from.
        insecure_seed: The seed, if the noise came from one: whoever knows it can undo the noise.
        not_private_because: Whatever else voids the guarantee.
        more: Further sources, such as what was bought about covariates.
    """
    secure = insecure_seed is None
    counted = () if isinstance(count, str) else count.releases
    sources = {
        PROTECTS: protects,
        "bounds and categories": "declared in the schema",
        "clip norm and settings": settings,
        "number of rows": count if isinstance(count, str) else count.source,
        "randomness": SECURE if secure else KNOWN_SEED,
        "sampling": "Poisson, no batch truncated",
        "noise": ROUNDED,
    }
    if public_sample is not None:
        sources["covariates for simulation"] = (
            f"a sample of {len(public_sample)} rows, {public_sample.fingerprint()}, declared public"
        )
    sources |= more or {}
    reasons = (*not_private_because, *_seeded(insecure_seed))
    return issue(budget, (*releases, *counted), sources, reasons)


def certify_sums(
    budget: Budget,
    releases: tuple[Release, ...],
    *,
    bound: str,
    insecure_seed: int | None = None,
    more: dict[str, str] | None = None,
) -> Certificate:
    """The certificate of sums over all records, each released once.

    Args:
        budget: What was allowed.
        releases: What was released.
        bound: In words, why one record cannot add more than it may.
        insecure_seed: The seed, if the noise came from one: whoever knows it can undo the noise.
        more: Further sources.
    """
    sources = {
        "bounds and categories": "declared in the schema",
        "one record's contribution": bound,
        "randomness": SECURE if insecure_seed is None else KNOWN_SEED,
        "sampling": "none: every record is in every sum",
        "noise": ROUNDED,
    }
    return issue(budget, releases, sources | (more or {}), _seeded(insecure_seed))


def _seeded(insecure_seed: int | None) -> tuple[str, ...]:
    """Why noise from a known seed protects nobody."""
    if insecure_seed is None:
        return ()
    return (f"insecure_seed={insecure_seed}: whoever knows it can undo the noise",)
