"""From public descriptions of a table to declarations: CSV on the Web, and Frictionless.

Both say of each column what it is called, of what type it is and which values it may take. See
https://www.w3.org/TR/tabular-metadata/ and https://datapackage.org/standard/table-schema/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from noisewise._validate import shown
from noisewise.data.errors import SchemaError
from noisewise.data.labels import label_of

Described = tuple[str, dict[str, Any], str]
"""Name, known keys of a declaration, and a remark on the rest."""

_REALS = ("number", "decimal", "float", "double", "numeric")
_WHOLE = (
    *("integer", "int", "long", "short", "byte"),
    *("nonNegativeInteger", "positiveInteger", "unsignedInt", "unsignedLong", "unsignedShort"),
)
_NO_SIGN = ("nonNegativeInteger", "positiveInteger", "unsignedInt", "unsignedLong", "unsignedShort")
_TEXTS = ("string", "normalizedString", "token", "any")
_ALTERNATIVES = re.compile(r"\^?\(?((?:[^|()\[\]{}.*+?\\^$]+\|)+[^|()\[\]{}.*+?\\^$]+)\)?\$?")


def described_columns(description: Mapping[str, Any]) -> tuple[str, list[Described]]:
    """The kind of description, and its columns.

    Args:
        description: What the JSON file holds.

    Raises:
        SchemaError: It is neither, or describes several tables, or none.
    """
    if "resources" in description or "fields" in description:
        fields = _list_of(_one_table(description, "resources", "schema"), "fields")
        return "Frictionless", [_frictionless(found) for found in fields]
    if "tables" in description or "tableSchema" in description:
        columns = _list_of(_one_table(description, "tables", "tableSchema"), "columns")
        kept = [column for column in columns if not column.get("virtual", False)]
        return "CSVW", [_csvw(column) for column in kept]
    raise SchemaError(
        "the description is neither CSVW metadata (tableSchema) nor a data package (resources) nor "
        "a table schema (fields): check that it is the right file"
    )


def _one_table(description: Mapping[str, Any], several: str, inside: str) -> Any:
    """What the description says of its columns, where it is of one table."""
    tables = description.get(several, [description])
    if not isinstance(tables, list) or len(tables) != 1:
        raise SchemaError(
            f"the description has {several} = {shown(tables)}: expected one table, so keep the "
            "entry of the table that is to be analysed"
        )
    table = tables[0]
    if isinstance(table, Mapping) and isinstance(table.get(inside), str):
        raise SchemaError(f"the description names another file for its {inside}: give that file")
    return table.get(inside, table) if isinstance(table, Mapping) else table


def _list_of(table: Any, key: str) -> list[Mapping[str, Any]]:
    found = table.get(key) if isinstance(table, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise SchemaError(f"the description has no list of {key}: check that it is the right file")
    if not found:
        raise SchemaError(f"the description's list of {key} is empty")
    return found


def _frictionless(found: Mapping[str, Any]) -> Described:
    name = _name(found.get("name"))
    limits = found.get("constraints")
    limits = limits if isinstance(limits, Mapping) else {}
    labels = limits.get("enum", found.get("categories"))
    if isinstance(labels, list):  # version 2 may give every category a value and a label
        labels = [one.get("value") if isinstance(one, Mapping) else one for one in labels]
    low = limits.get("minimum", limits.get("exclusiveMinimum"))
    high = limits.get("maximum", limits.get("exclusiveMaximum"))
    kind = found.get("type", "any")
    return name, *_declared(kind, low, high, labels, _said(found, "title", "description"))


def _csvw(found: Mapping[str, Any]) -> Described:
    titles = found.get("titles", found.get("name"))
    if isinstance(titles, Mapping):  # by language
        titles = next(iter(titles.values()), None)
    if isinstance(titles, list):
        titles = next(iter(titles), None)
    kind, low, high, labels = found.get("datatype", "string"), None, None, None
    if isinstance(kind, Mapping):
        low = kind.get("minimum", kind.get("minInclusive", kind.get("minExclusive")))
        high = kind.get("maximum", kind.get("maxInclusive", kind.get("maxExclusive")))
        pattern = kind.get("format")
        if isinstance(pattern, str) and (match := _ALTERNATIVES.fullmatch(pattern)):
            labels = match[1].split("|")
        kind = kind.get("base", "string")
    return _name(titles), *_declared(kind, low, high, labels, _said(found, "dc:description"))


def _declared(
    kind: Any, low: Any, high: Any, labels: Any, remark: str
) -> tuple[dict[str, Any], str]:
    """A declaration's keys from a type and what limits its values."""
    levels = [label_of(level) for level in labels or () if isinstance(level, str | int | float)]
    if len(levels) > 1 and kind != "boolean":
        return {"type": "category", "categories": levels}, remark
    bounds = [_number(low), _number(high)]
    given = {"bounds": bounds} if None not in bounds else {}
    half = (
        f"its {'minimum' if low is not None else 'maximum'} is {low if low is not None else high}"
    )
    if not given and (low is not None or high is not None):
        remark = f"{remark}; {half}" if remark else half
    if kind == "boolean":
        return {"type": "binary"}, remark
    if kind in _WHOLE:
        counted = kind in _NO_SIGN or (bounds[0] is not None and bounds[0] >= 0)
        return {"type": "count" if counted else "real", **given}, remark
    if kind in _REALS:
        return {"type": "real", **given}, remark
    if kind in _TEXTS:
        return {"type": "category"}, remark
    no_type = f"described as {shown(kind)}, which noisewise has no type for"
    return {}, f"{remark}; {no_type}" if remark else no_type


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"the description has a column without a name: got {shown(name)}")
    return name


def _number(value: Any) -> float | int | None:
    """A number, as which CSVW may write text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _said(found: Mapping[str, Any], *keys: str) -> str:
    """The first of these texts that there is."""
    texts = (found.get(key) for key in keys)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")
