"""The ledger: everything that was released of a table or of a registry of tables, in one account.

A fit writes what it is about to spend before it reads a row, in one transaction: its whole budget
at first, as one Gaussian release, and, once its settings are known and before its first step, the
releases that it will make. What was written stays spent, whatever becomes of the fit. All of it is
composed by privacy loss distributions, as within one fit; nothing is written that would pass the
total.
"""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from noisewise._pages import write_page_about
from noisewise._validate import shown
from noisewise.mechanism import ledger_file
from noisewise.mechanism.account import Account, Entry, read_account, whole_noise
from noisewise.mechanism.accounting import Release, compose
from noisewise.mechanism.budget import Budget
from noisewise.mechanism.certificate import Certificate
from noisewise.mechanism.ledger_file import LedgerError

_ROUNDING = 1 + 1e-6
_RESERVED = "all that is about to be released, at most, as one Gaussian"
_LONGEST = 500


def _login() -> str:
    """The account's name on this computer; containers have accounts without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


@dataclass(frozen=True)
class Ledger:
    """A table's ledger, and who spends from it now, for what.

    Make one with `Ledger.create` or ``noisewise ledger init``, and pass it, or its path, to
    `noisewise.fit` and to the estimators.

    Args:
        path: The SQLite file.
        purpose: What for; it is written beside every release.
        spender: Who spends; the account's name on this computer if not given. It is what the
            caller says: what keeps others out is the file's permissions.
    """

    path: str | Path
    purpose: str = ""
    spender: str = field(default_factory=_login)

    @classmethod
    def create(
        cls,
        path: str | Path,
        total: Budget,
        *,
        name: str = "",
        spenders: Sequence[str] = (),
        rehearsal: bool = False,
    ) -> Ledger:
        """A new ledger; an existing file is never overwritten.

        Args:
            path: The file.
            total: What may be spent in all, and on which adjacency; it cannot be changed.
            name: Of the table or registry, for people; the file's name if not given.
            spenders: Who may spend; if none is named, whoever can write the file.
            rehearsal: For a table that needs no protection: seeded fits are accepted, and every
                page says that nothing is guaranteed.
        """
        path = Path(path)
        body = {
            "name": _short("name", name or path.stem),
            "total": asdict(total),
            "spenders": [_short("spenders", one) for one in spenders],
            "rehearsal": bool(rehearsal),
        }
        ledger_file.create(path, "opened", body)
        return cls(path)

    @classmethod
    def of(cls, ledger: Ledger | str | Path) -> Ledger:
        """The ledger itself, or the one at a path.

        Args:
            ledger: A path is opened, a ledger returned as it is.
        """
        if isinstance(ledger, str | Path):
            return cls(ledger)
        if not isinstance(ledger, Ledger):
            raise LedgerError(f"ledger must be a noisewise.Ledger or a path, got {shown(ledger)}")
        return ledger

    def account(self) -> Account:
        """What it says now."""
        with ledger_file.opened(Path(self.path)) as log:
            return read_account(log.lines, Path(self.path))

    def reserve(
        self,
        budget: Budget,
        what: str,
        *,
        schema: str = "",
        unit: str = "",
        seeded: bool = False,
        fits: int = 1,
        tokens: Sequence[str] = (),
        reached: int = 0,
    ) -> Reservation:
        """Write down that this budget is about to be spent, or refuse in one line.

        Args:
            budget: Of all releases that will be made.
            what: What is fitted, in words.
            schema: Fingerprint of the table's schema.
            unit: The column that says whose rows are protected together; empty protects rows.
            seeded: Whether the noise comes from a known seed: only a rehearsal takes that.
            fits: How many fits, each with that budget.
            tokens: Of a checkpoint, the newest first: what was reserved under the one before is
                gone on with under the newest, and from then on under no other.
            reached: How far that checkpoint says that the fit came, see `Checkpoint.reached`.
        """
        path = Path(self.path)
        release = Release(what=_RESERVED, noise_multiplier=whole_noise(budget), times=fits)
        with ledger_file.opened(path, writing=True) as log:
            account = read_account(log.lines, path)
            for entry in account.entries:
                if not set(tokens).isdisjoint(entry.tokens):
                    _refuse_older_copy(entry, tokens, reached)
                    log.add("resumed", {"entry": entry.number, "token": tokens[0]})
                    return Reservation(self, entry.number, tokens[0])
            self._refuse(account, budget, seeded)
            self._refuse_another_unit(account, unit)
            after = account.after((release,))
            if after <= account.total.epsilon * _ROUNDING:
                number = len(account.entries) + 1
                body = {
                    "entry": number,
                    "spender": _short("spender", self.spender),
                    "purpose": _short("purpose", self.purpose),
                    "what": _short("what", what),
                    "schema": schema,
                    "unit": unit,
                    "tokens": list(tokens),
                    "budget": asdict(budget),
                    **_listed((release,)),
                }
                log.add("reserved", body)
                return Reservation(self, number, *tokens[:1])
        raise LedgerError(_too_much(path, account, budget, fits, after))

    def _refuse(self, account: Account, budget: Budget, seeded: bool) -> None:
        """Whatever is wrong but the amount."""
        total = account.total
        if account.spenders and self.spender not in account.spenders:
            raise LedgerError(
                f"{shown(self.spender)} may not spend from {self.path}: it names "
                f"{', '.join(account.spenders)}: fit under one of these accounts, or begin a "
                "ledger that names this one too (noisewise ledger init --spender)"
            )
        if budget.adjacency != total.adjacency:
            raise LedgerError(
                f"the ledger {self.path} is kept under {total.adjacency} adjacency and this is "
                f"{budget.adjacency}, which protects something else: use "
                f"adjacency='{total.adjacency}'"
            )
        if budget.delta > total.delta:
            raise LedgerError(
                f"delta={budget.delta:g} is above the {total.delta:g} of the whole ledger "
                f"{self.path}: use delta={total.delta:g} or less"
            )
        if seeded and not account.rehearsal:
            raise LedgerError(
                "noise from a known seed can be undone, which no ledger can account for: leave out "
                "insecure_seed, or for a public table make a rehearsal ledger (`noisewise ledger "
                "init --rehearsal`)"
            )

    def _refuse_another_unit(self, account: Account, unit: str) -> None:
        """What one release protects as a whole, another protects by parts: no sum is about both."""
        if account.unit not in (None, unit):
            kinds = (f"'{name}'" if name else "single rows" for name in (account.unit, unit))
            before, now = kinds
            raise LedgerError(
                f"the ledger {self.path} protects {before} and this would protect {now}, which "
                "cannot be added up: declare the same [unit], or keep a ledger of its own"
            )

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page about the ledger; returns its path.

        Args:
            path: Of the page.
        """
        return write_page_about(self, path)

    def export(self) -> dict[str, Any]:
        """Every line as plain data, for JSON: the account as it was written."""
        with ledger_file.opened(Path(self.path)) as log:
            account = read_account(log.lines, Path(self.path))
            lines = [line._asdict() for line in log.lines]
        return {
            "format": "noisewise-ledger",
            "name": account.name,
            "total": asdict(account.total),
            "epsilon_spent": account.spent,
            "digest": account.digest,
            "lines": lines,
        }


@dataclass(frozen=True)
class Reservation:
    """A fit's place in a ledger: reserved, then settled, then certified."""

    ledger: Ledger
    number: int
    token: str = ""
    """Under which the fit has it, where it keeps a checkpoint."""

    def settle(self, releases: tuple[Release, ...]) -> None:
        """Put what is really about to be released in place of what was reserved.

        Args:
            releases: All of them, those already made included.
        """
        path = Path(self.ledger.path)
        with ledger_file.opened(path, writing=True) as log:
            account = read_account(log.lines, path)
            entry = self._entry(account)
            if entry.settled and entry.releases == releases:
                return  # before the fit was stopped that goes on now
            changed = replace(entry, releases=releases, settled=True)
            others = tuple(entry for entry in account.entries if entry.number != self.number)
            after = replace(account, entries=(*others, changed)).spent
            if not after <= account.total.epsilon * _ROUNDING:
                raise LedgerError(
                    f"the releases would bring the ledger {path} to epsilon {after:.4g} of "
                    f"{account.total.epsilon:g}: more than was reserved for them, which stays spent"
                )
            log.add("settled", {"entry": self.number, **_listed(releases)})

    def certify(self, certificate: Certificate) -> None:
        """Keep the certificate beside the releases.

        Args:
            certificate: Of what was released.
        """
        path = Path(self.ledger.path)
        with ledger_file.opened(path, writing=True) as log:
            self._entry(read_account(log.lines, path))
            log.add("certified", {"entry": self.number, "certificate": certificate.to_dict()})

    def _entry(self, account: Account) -> Entry:
        """It, if nobody has gone on with a copy of the checkpoint: one entry pays for one fit."""
        (found,) = (entry for entry in account.entries if entry.number == self.number)
        if self.token not in (*found.tokens[:1], ""):
            raise LedgerError(
                f"a copy of this fit's checkpoint was gone on with meanwhile, and {self} pays for "
                "one of the two: this one's result is withheld; use the other's, or start anew"
            )
        return found

    def __str__(self) -> str:
        return f"entry {self.number} of {Path(self.ledger.path).name}"


def _listed(releases: tuple[Release, ...]) -> dict[str, Any]:
    """Releases as they are read back, and as dp-accounting writes their event."""
    return {"releases": [asdict(one) for one in releases], "event": str(compose(releases))}


def _refuse_older_copy(entry: Entry, tokens: Sequence[str], reached: int) -> None:
    """A checkpoint is written before the ledger is: one that lags behind was put back in place, and
    one that does not know under which name it was last gone on with is a copy from before."""
    behind = reached < entry.settled + (entry.certificate is not None)
    if behind or entry.tokens[0] not in tokens:
        raise LedgerError(
            f"the checkpoint is an older copy, for entry {entry.number} of the ledger is "
            f"{entry.state}: going on with it would spend twice; start anew, without it"
        )


def _too_much(path: Path, account: Account, budget: Budget, fits: int, after: float) -> str:
    total = account.total
    many = "this fit" if fits == 1 else f"these {fits} fits, each"
    left = "nothing is left"
    if account.left:
        left = f"at most epsilon {account.left:g} is left for one more fit"
    return (
        f"the ledger {path} allows epsilon {total.epsilon:g} in all (delta {total.delta:g}), of "
        f"which {account.spent:.3g} is spent: {many} at epsilon {budget.epsilon:g} would bring it "
        f"to {after:.3g}; {left}"
    )


def _short(name: str, text: str) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise LedgerError(f"{name} must be text of at most {_LONGEST} characters")
    return " ".join(text.split())
