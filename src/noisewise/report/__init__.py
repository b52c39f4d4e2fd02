"""Self-contained HTML pages about results, plans, coverage and synthetic tables."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from noisewise._validate import NoisewiseError


def write_page(render: Callable[[], str], path: Path) -> Path:
    """Write what ``render`` gives, whole or not at all; a bad path is refused before it is called.

    Args:
        render: makes the page.
        path: the page's; its folder is made, an existing file replaced.
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
