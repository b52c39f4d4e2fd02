"""Who draws an object, on a page or in a notebook, and what else is done with it by later houses: a
registry, so that nothing has to import them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Writer = Callable[..., Path]
_WRITERS: dict[str, Callable[[], Writer]] = {}
_VIEWS: dict[str, Callable[[], Callable[[Any], Any]]] = {}
_CALLS: dict[str, Callable[[], Callable[..., Any]]] = {}


def register_pages(writers: dict[str, Callable[[], Writer]]) -> None:
    """Say, by the name of a class, how to get the function that writes a page about its objects."""
    _WRITERS.update(writers)


def write_page_about(subject: Any, path: str | Path, **options: Any) -> Path:
    """Write one self-contained HTML page about the subject; returns its path."""
    return _WRITERS[type(subject).__name__]()(subject, Path(path), **options)


def register_views(views: dict[str, Callable[[], Callable[[Any], Any]]]) -> None:
    """Say, by the name of a class, how to get the function that shows its objects in notebooks."""
    _VIEWS.update(views)


def view(name: str, subject: Any) -> Any:
    """What the named view makes of the subject."""
    return _VIEWS[name]()(subject)


def register_calls(calls: dict[str, Callable[[], Callable[..., Any]]]) -> None:
    """Say how to get the function of a later house that a method of an earlier one stands for."""
    _CALLS.update(calls)


def call(name: str, subject: Any, *arguments: Any, **options: Any) -> Any:
    """What the named function makes of the subject and what else it takes."""
    return _CALLS[name]()(subject, *arguments, **options)


class Shown:
    """Objects that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return str(view(type(self).__name__, self))
