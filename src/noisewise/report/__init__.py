"""One self-contained HTML page about a result: for a statistician, and for a privacy officer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise._files import check_writable, whole_file

if TYPE_CHECKING:
    from noisewise.result import Result

__all__ = ["write_page", "write_report"]


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
    check_writable(path)
    html = render()
    with whole_file(path) as scratch:
        scratch.write_text(html, encoding="utf-8", newline="\n")
    return path
