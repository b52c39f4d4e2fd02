"""Self-contained HTML pages about results, plans, coverage and synthetic tables."""

from collections.abc import Callable
from pathlib import Path

from noisewise._files import check_writable, whole_file


def write_page(render: Callable[[], str], path: Path) -> Path:
    """Write what ``render`` gives, whole or not at all; a bad path is refused before it is called.

    Args:
        render: makes the page.
        path: the page's; its folder is made, an existing file replaced.
    """
    path = Path(path)
    check_writable(path)
    html = render()
    with whole_file(path) as scratch:
        scratch.write_text(html, encoding="utf-8", newline="\n")
    return path
