"""The JSON Schema of schema files, for editors: completion, and faults as one types."""

from __future__ import annotations

from importlib.resources import files


def json_schema_text() -> str:
    """The JSON Schema that ships with noisewise, as text.

    >>> import json
    >>> json.loads(json_schema_text())["title"]
    'noisewise schema'
    """
    return files("noisewise.data").joinpath("schema.schema.json").read_text(encoding="utf-8")
