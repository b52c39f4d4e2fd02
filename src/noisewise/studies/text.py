"""Markdown that every study's text is made of."""

from __future__ import annotations

__all__ = ["markdown_table"]


def markdown_table(lines: list[list[str]]) -> str:
    """The first line is the head.

    >>> print(markdown_table([["", "a"], ["x", "1"]]))
    |  | a |
    | --- | --- |
    | x | 1 |
    """
    head, *body = ("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n".join([head, "|" + " --- |" * len(lines[0]), *body])
