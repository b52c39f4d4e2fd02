"""One self-contained HTML page about a result: for a statistician, and for a privacy officer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise._validate import NoisewiseError

if TYPE_CHECKING:
    from noisewise.result import Result


def write_report(result: Result, path: Path) -> Path:
    """Write the page about `result`, whole or not at all; returns its path.

    The page needs nothing besides itself: no network, no scripts, no fonts. The parent folder is
    made where it is missing, and an existing file is replaced. Everything on the page is public or
    computed from released values, so the page may go wherever the result may go.
    """
    from noisewise.report.page import render

    return write_page(lambda: render(result), path)


def write_page(render: Callable[[], str], path: Path) -> Path:
    """Write what ``render`` gives, whole or not at all; a bad path is refused before it is called.

    For every page alike: the parent folder is made, an existing file replaced.
    """
    path = Path(path)
    if path.is_dir():
        raise NoisewiseError(f"{path} is a folder: name a file in it, such as {path / 'fit.html'}")
    html = render()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, html)
    except OSError as error:
        raise NoisewiseError(f"cannot write the report to {path}: {error.strerror}") from error
    return path


def _replace(path: Path, text: str) -> None:
    """Write into a temporary sibling and rename, so that no half-written page is ever seen."""
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(scratch, 0o644)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise
