"""Who writes the HTML page of an object: a registry, so that nothing has to import `report`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Writer = Callable[..., Path]
_WRITERS: dict[str, Callable[[], Writer]] = {}


def register_pages(writers: dict[str, Callable[[], Writer]]) -> None:
    """Say, by the name of a class, how to get the function that writes a page about its objects."""
    _WRITERS.update(writers)


def write_page_about(subject: Any, path: str | Path, **options: Any) -> Path:
    """Write one self-contained HTML page about the subject; returns its path."""
    return _WRITERS[type(subject).__name__]()(subject, Path(path), **options)
