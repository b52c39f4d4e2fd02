"""Checks and comparisons on disk: one JSON file each, no pickles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noisewise._files import read_json, whole_file
from noisewise._validate import NoisewiseError

_VERSION = 1


def write(path: Path, what: str, plain: dict[str, Any]) -> Path:
    """Write plain data, whole or not at all.

    Args:
        path: Of the file; one that is there is replaced.
        what: The kind of thing it is, in a word.
        plain: The data.
    """
    head = {"format": f"noisewise-{what}", "version": _VERSION}
    with whole_file(path) as scratch:
        scratch.write_text(f"{json.dumps(head | plain, indent=2)}\n", encoding="utf-8")
    return path


@contextmanager
def reading(path: Path, what: str) -> Iterator[dict[str, Any]]:
    """What `write` wrote; a foreign or damaged file is refused in one line.

    Args:
        path: Of the file.
        what: The kind of thing that is expected.
    """
    plain = read_json(path, what)
    if plain.pop("format", None) != f"noisewise-{what}" or plain.pop("version", None) != _VERSION:
        raise NoisewiseError(f"{path} is no {what} that this noisewise wrote")
    try:
        yield plain
    except (KeyError, TypeError, ValueError) as error:
        raise NoisewiseError(f"the {what} {path} is damaged: {error}") from error
