"""A ledger on disk: lines in one SQLite file that are only ever added to.

Every line bears a digest over itself and all lines before it, and the last one's digest is kept
apart: a damaged, removed or reordered line is noticed. (Whoever may write the file can write other
lines with digests that fit: this finds damage, and no forgery.) A writer holds SQLite's lock from
before it reads until it has written, so that two processes never decide on the same lines.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from noisewise._validate import NoisewiseError, shown

_APPLICATION, _VERSION = 0x6E77_6C67, 1  # "nwlg"
_PATIENCE = 600.0
"""Seconds to wait for another process: composing hundreds of releases takes a while."""
_TABLES = """
CREATE TABLE lines (number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL,
                    body TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE head (number INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TRIGGER no_update BEFORE UPDATE ON lines
    BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON lines
    BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
INSERT INTO head VALUES (0, '');
"""


class LedgerError(NoisewiseError):
    """A ledger that cannot be read or written, or that does not allow what was requested."""


class Line(NamedTuple):
    """One line of the file."""

    number: int
    time: str
    kind: str
    body: dict[str, Any]
    digest: str


class Log:
    """The lines, and a way to add to them while the file is open for writing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.lines = _checked(connection)

    def add(self, kind: str, body: dict[str, Any]) -> Line:
        """Another line at the end."""
        number, time = len(self.lines) + 1, datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps(body, sort_keys=True, allow_nan=False)
        digest = _digest(self.lines[-1].digest if self.lines else "", number, time, kind, text)
        values = (number, time, kind, text, digest)
        self._connection.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", values)
        self._connection.execute("UPDATE head SET number = ?, digest = ?", (number, digest))
        self.lines.append(Line(number, time, kind, body, digest))
        return self.lines[-1]


def create(path: Path, kind: str, body: dict[str, Any]) -> None:
    """A new file with a first line, whole or not at all; one that exists is left alone."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
            scratch = Path(folder) / "ledger"
            with closing(sqlite3.connect(scratch, isolation_level=None)) as connection:
                connection.executescript(f"PRAGMA application_id = {_APPLICATION}; {_TABLES}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                Log(connection).add(kind, body)
            os.link(scratch, path)  # unlike a renaming, this never replaces a file
    except FileExistsError:
        raise LedgerError(
            f"{path} exists already, and a ledger is never overwritten: choose another file"
        ) from None
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"cannot make the ledger {path} ({_reason(error)}): choose a folder that can be written"
        ) from None


@contextmanager
def opened(path: Path, *, writing: bool = False) -> Iterator[Log]:
    """The lines of a ledger; with ``writing`` nobody else can add to them meanwhile, and what was
    added is kept if the block ends without an error."""
    try:
        if not path.is_file():
            raise LedgerError(f"there is no ledger {path}: make one with `noisewise ledger init`")
        where = f"{path.resolve().as_uri()}?mode=rw"
        with closing(
            sqlite3.connect(where, uri=True, timeout=_PATIENCE, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")  # a power cut forgets no release
            connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
            _check_kind(connection, path)
            yield Log(connection)
            connection.execute("COMMIT" if writing else "ROLLBACK")
    except LedgerError:
        raise
    except sqlite3.OperationalError as error:
        raise LedgerError(f"cannot use the ledger {path}: {_advice(error)}") from None
    except (sqlite3.Error, OSError, UnicodeError, json.JSONDecodeError, _Damaged) as error:
        raise LedgerError(
            f"{path} is damaged or no ledger ({_reason(error)}): go back to a copy of it, and "
            "count what was released since"
        ) from None


class _Damaged(Exception):
    """Lines that do not fit their digests."""


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise LedgerError(f"{path} is no ledger: make one with `noisewise ledger init`")
    if version != _VERSION:
        raise LedgerError(
            f"{path} is a ledger of version {version}, this noisewise reads version {_VERSION}"
        )


def _checked(connection: sqlite3.Connection) -> list[Line]:
    """All lines, if they are as they were written."""
    found: list[Line] = []
    columns = "number, time, kind, body, digest"
    last = ""
    for row in connection.execute(f"SELECT {columns} FROM lines ORDER BY number"):
        number, time, kind, text, digest = row
        if number != len(found) + 1 or digest != _digest(last, number, time, kind, text):
            raise _Damaged(f"line {len(found) + 1} was changed")
        found.append(Line(number, time, kind, json.loads(text), digest))
        last = digest
    if connection.execute("SELECT number, digest FROM head").fetchall() != [(len(found), last)]:
        raise _Damaged("lines are missing at its end")
    return found


def _digest(last: str, number: int, time: str, kind: str, text: str) -> str:
    return hashlib.sha256(f"{last}\n{number}\n{time}\n{kind}\n{text}".encode()).hexdigest()


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or shown(error)


def _advice(error: sqlite3.OperationalError) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY"):
        return f"another process has been writing it for {_PATIENCE:g} s: try again"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return "you may not write it, and a release is written before it happens"
    return f"{_reason(error)}; nothing was released"
