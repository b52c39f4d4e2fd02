"""What a ledger's lines add up to: entries, what is spent, what is left, what more would cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from scipy.optimize import brentq

from noisewise.mechanism.accounting import (
    Release,
    discretisation,
    epsilon_spent,
    epsilons_on_the_way,
    gaussian_limit,
    merged,
)
from noisewise.mechanism.budget import Budget
from noisewise.mechanism.certificate import Certificate
from noisewise.mechanism.ledger_file import LedgerError, Line

FURTHER = (1, 2, 3, 5, 10)
"""Numbers of further fits whose cost is shown."""
_LEAST_LEFT = 1e-3


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What one fit spends: a line of the account."""

    number: int
    time: str
    spender: str
    purpose: str
    what: str
    """What is fitted, in words."""
    schema: str
    """Fingerprint of the table's schema."""
    budget: Budget
    releases: tuple[Release, ...]
    settled: bool = False
    """Whether the releases are those that were made; before that, an upper bound of them."""
    certificate: Certificate | None = None
    """As it was issued in the end; None for what was not finished, and is counted all the same."""
    unit: str = ""
    """The column that says whose rows are protected together; empty where rows are, one by one."""
    tokens: tuple[str, ...] = ()
    """By the first one a fit that was stopped finds its entry again; the others are its names from
    before it was last gone on with, which only older copies of its checkpoint have."""

    @property
    def state(self) -> str:
        """How far it came, in words."""
        if self.certificate is not None:
            return "certified"
        return "not finished" if self.settled else "reserved"


@dataclass(frozen=True, kw_only=True)
class Account:
    """What a ledger says at one moment."""

    name: str
    total: Budget
    spenders: tuple[str, ...]
    """Who may spend; nobody named is everybody who can write the file."""
    rehearsal: bool
    """Of a table that needs no protection: seeded fits count as if their noise were secret."""
    opened: str
    entries: tuple[Entry, ...]
    digest: str
    """Over all lines of the file."""

    @property
    def unit(self) -> str | None:
        """What all entries protect, as `Entry.unit`; None where there is no entry yet."""
        return self.entries[0].unit if self.entries else None

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """All that is spent, in as few releases as cost the same."""
        return merged(release for entry in self.entries for release in entry.releases)

    @cached_property
    def spent(self) -> float:
        """Epsilon of everything together, at the total's delta."""
        return self.after(())

    def after(self, more: Sequence[Release]) -> float:
        """Epsilon of everything and of further releases."""
        if not (self.releases or more):
            return 0.0
        total, more = self.total, merged(more)
        width = discretisation(total.epsilon)
        return epsilon_spent(self.releases, total.delta, total.adjacency, width, more)

    def after_fits(self, epsilon: float, fits: int) -> float:
        """What so many further fits would bring ``spent`` to, at most.

        Args:
            epsilon: Of each fit, at the ledger's delta.
            fits: How many.
        """
        return self.after((Release(what="fit", noise_multiplier=self._noise(epsilon), times=fits),))

    def over_time(self, most: int = 24) -> list[tuple[str, float]]:
        """Times, and the epsilon that was spent by then, so many at most.

        Args:
            most: Entries between two of these times are counted together.
        """
        if not self.entries:
            return []
        total, size = self.total, -(-len(self.entries) // most)
        starts = range(0, len(self.entries), size)
        groups = [self.entries[start : start + size] for start in starts]
        releases = [tuple(one for entry in group for one in entry.releases) for group in groups]
        width = discretisation(total.epsilon)
        found = epsilons_on_the_way(releases, total.delta, total.adjacency, width)
        return [(group[-1].time, spent) for group, spent in zip(groups, found, strict=True)]

    def fits_left(self, epsilon: float) -> int:
        """How many fits at this epsilon (and the ledger's delta) are surely left."""
        share = self._noise(epsilon) * self._signal_left / _factor(self.total)
        return math.floor(share**2 * (1 + 1e-9))

    @cached_property
    def left(self) -> float:
        """The largest epsilon of one more fit at the ledger's delta, rounded down."""
        if not self.entries:
            return self.total.epsilon
        signal = self._signal_left
        if not signal or gaussian_limit(_LEAST_LEFT, self.total.delta) > signal:
            return 0.0
        found = brentq(
            lambda e: gaussian_limit(e, self.total.delta) - signal, _LEAST_LEFT, self.total.epsilon
        )
        digits = 2 - math.floor(math.log10(found))
        return math.floor(found * (1 - 1e-4) * 10**digits) / 10**digits

    @cached_property
    def _signal_left(self) -> float:
        """The mu of the largest Gaussian release (by its noise under add-remove) that fits in."""
        total = self.total
        most = gaussian_limit(total.epsilon, total.delta) ** 2
        if not self.entries:
            return most**0.5
        # Squares of mu all but add up: a few looks find what is left to a thousandth, from below.
        square = most - gaussian_limit(max(self.spent, 1e-9), total.delta) ** 2
        while square > 1e-6 * most:
            release = Release(what="fit", noise_multiplier=_factor(total) / square**0.5)
            over = gaussian_limit(self.after((release,)), total.delta) ** 2 - most
            if -1e-3 * most < over <= 0:
                return square**0.5
            square -= over + 5e-4 * most
        return 0.0

    def _noise(self, epsilon: float) -> float:
        return whole_noise(replace(self.total, epsilon=epsilon))


def _factor(budget: Budget) -> float:
    """Under replace-one a release needs twice the noise."""
    return 2.0 if budget.adjacency == "replace-one" else 1.0


def whole_noise(budget: Budget) -> float:
    """The noise multiplier of one Gaussian release that takes the whole budget."""
    return _factor(budget) / gaussian_limit(budget.epsilon, budget.delta)


def read_account(lines: Sequence[Line], path: Path) -> Account:
    """The account that the lines add up to."""
    try:
        first, *others = lines
        entries: dict[int, Entry] = {}
        for line in others:
            number = int(line.body["entry"])
            if line.kind == "reserved":
                entries[number] = _reserved(line)
            else:
                entries[number] = replace(entries[number], **_change(line, entries[number]))
        return Account(
            name=first.body["name"],
            total=Budget(**first.body["total"]),
            spenders=tuple(first.body["spenders"]),
            rehearsal=bool(first.body["rehearsal"]),
            opened=first.time,
            entries=tuple(entries.values()),
            digest=lines[-1].digest,
        )
    except (KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise LedgerError(f"{path} is no ledger that this noisewise wrote ({reason})") from None


def _reserved(line: Line) -> Entry:
    body = line.body
    texts: Any = {name: str(body[name]) for name in ("spender", "purpose", "what", "schema")}
    return Entry(
        number=int(body["entry"]),
        time=line.time,
        budget=Budget(**body["budget"]),
        releases=tuple(Release(**one) for one in body["releases"]),
        unit=str(body.get("unit", "")),
        tokens=tuple(map(str, body.get("tokens", ()))),
        **texts,
    )


def _change(line: Line, entry: Entry) -> dict[str, Any]:
    """What a later line says of an entry."""
    if line.kind == "settled":
        releases = tuple(Release(**one) for one in line.body["releases"])
        return {"releases": releases, "settled": True}
    if line.kind == "certified":
        return {"certificate": Certificate.from_dict(line.body["certificate"])}
    if line.kind == "resumed":
        return {"tokens": (str(line.body["token"]), *entry.tokens)}
    raise ValueError(f"a line is of kind {line.kind}")
