"""Drafts of a schema: what a header or a codebook says, and comments on what is to be filled in."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from noisewise._files import read_json
from noisewise.data.column import Column
from noisewise.data.descriptions import described_columns
from noisewise.data.errors import SchemaError
from noisewise.data.header import StoredColumn, read_header
from noisewise.data.schema import toml_key, toml_value

_BOUNDS = "bounds = [?, ?]      # no value lies outside; from the codebook or common sense"
_GUESSES = (
    "mean = ?             # optional public guesses, both or neither: they scale the column",
    "sd = ?",
)
_CATEGORIES = (
    'categories = ["?", "?"]   # every label that may occur; the first is the reference',
    "shares = [?, ?]      # optional public guesses of the share of each, in that order",
)
_TO_FILL: dict[str | None, tuple[str, ...]] = {
    "real": (_BOUNDS, *_GUESSES),
    "count": (_BOUNDS, *_GUESSES),
    "binary": ("share = ?            # optional public guess of the share of ones",),
    "category": _CATEGORIES,
    None: (
        'type = "?"           # real, count (from 0, whole), binary (0 and 1), category or weight',
        _BOUNDS.replace("# no", "# real and count: no"),
        _CATEGORIES[0].replace("# every", "# category: every"),
    ),
}
_OF_STORAGE: dict[str | None, tuple[str | None, str]] = {
    None: (None, ""),
    "float": ("real", "stored as numbers"),
    "whole": ("count", "stored as whole numbers without a sign; codes of groups are a category"),
    "integer": (None, "stored as whole numbers: a count, a real, 0 and 1, or codes of groups"),
    "boolean": ("binary", "stored as true and false"),
    "text": ("category", "stored as text; what is free text or a name must not be declared"),
    "labels": ("category", "stored as a dictionary of labels, which were not read"),
    "date": (None, "stored as a date or time: turn it into a number since a public day first"),
    "vector": ("real", "stored as a list in every row: shape = [p] for p entries"),
}
_FROM_FILE = """\
# Made from the {what} of {columns} columns. No value was read: everything that is to be
# filled in has to come from outside the table (a codebook, a census, common sense). What is
# computed from the rows and written here leaves without noise, and unaccounted for.
"""
_FROM_FIRST_LINE = """\
# The names are the file's first line: if that is no header, they are somebody's cells, and this
# draft is to be deleted.
"""
_FROM_DESCRIPTION = """\
# Made from a {kind} description of {columns} columns; no data file was read. Bounds and categories
# are as the description has them: they are public only if whoever wrote it did not take them from
# these very rows. Take out what was.
"""
_HOW = """\
# Fill in the lines with a question mark, take the # away, and leave out columns that are not
# needed: names and numbers of persons above all. `noisewise schema check` says what is missing.

# rows = ?               # only if the number of rows is public; else a noisy one is bought
"""


@dataclass(frozen=True)
class DraftColumn:
    """A column as far as it is known.

    Attributes:
        name: As the table has it.
        known: Keys of a declaration that are known, `type` first.
        remark: What the source says that a declaration has no key for.
    """

    name: str
    known: dict[str, Any] = field(default_factory=dict)
    remark: str = ""

    def to_toml(self) -> str:
        """The column's section, with a comment for what is missing."""
        lines = [f"[columns.{toml_key(self.name)}]"]
        if self.remark:
            lines.append(f"# {' '.join(self.remark.split())}")
        lines += [f"{key} = {toml_value(value)}" for key, value in self.known.items()]
        wanted = _TO_FILL[self.known.get("type")]
        lines += [f"# {line}" for line in wanted if line.split(" =")[0] not in self.known]
        return "\n".join(lines) + "\n"


def draft_of_file(path: str | PathLike[str]) -> str:
    """A schema to be filled in, for a table or from a description of one.

    Of a table (.csv, .csv.gz, .parquet) names and storage types are taken, and no value is read. A
    description (.json) is CSV on the Web's metadata, or a data package or table schema of
    Frictionless: its types, bounds and categories are taken.

    Args:
        path: Of the table, or of its description.
    """
    if Path(path).suffix.lower() == ".json":
        kind, described = described_columns(read_json(path, "description"))
        columns = [_checked(DraftColumn(*column)) for column in described]
        head = _FROM_DESCRIPTION.format(kind=kind, columns=len(columns))
    else:
        stored = read_header(path)
        columns = [_of_stored(column) for column in stored]
        typed = any(column.storage is not None for column in stored)
        what = "names and storage types" if typed else "names"
        head = _FROM_FILE.format(what=what, columns=len(columns))
        head += "" if typed else _FROM_FIRST_LINE
    return "\n".join([head + _HOW, *(column.to_toml() for column in columns)])


def _of_stored(column: StoredColumn) -> DraftColumn:
    kind, remark = _OF_STORAGE.get(column.storage, (None, f"stored as {column.storage}"))
    return DraftColumn(column.name, {} if kind is None else {"type": kind}, remark)


def _checked(draft: DraftColumn) -> DraftColumn:
    """The draft without what a schema would refuse, which is said instead."""
    if not _is_complete(draft.known):
        return draft
    try:
        Column.from_dict(draft.name, draft.known)
    except SchemaError as error:
        kind = {"type": draft.known["type"]}
        said = f"{draft.remark}; {error}" if draft.remark else str(error)
        return DraftColumn(draft.name, kind, said)
    return draft


def _is_complete(known: dict[str, Any]) -> bool:
    needed = {"real": "bounds", "count": "bounds", "category": "categories", "binary": "type"}
    return "type" in known and needed[known["type"]] in known
