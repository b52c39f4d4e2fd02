"""Categories in a formula: their contrasts, and which of them a term needs all levels of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from noisewise.data.column import Column
from noisewise.data.formulas.expressions import Arrays
from noisewise.data.gaps import filled


@dataclass(frozen=True)
class Category:
    """A factor of several levels, as it is coded."""

    text: str
    column: Column
    levels: tuple[str, ...]
    base: int = 0
    """The reference level."""
    sums: bool = False
    """Whether contrasts are against the levels' mean rather than the reference."""

    def codes(self, arrays: Arrays) -> np.ndarray:
        """Places among the levels.

        Args:
            arrays: In the form of `Table.rows`.
        """
        cells = filled(self.column, np.asarray(arrays[self.column.name])).astype(np.int64)
        return cells if self.column.bounds is None else cells - int(self.column.bounds[0])

    def contrasts(self, whole: bool) -> dict[str, np.ndarray]:
        """What stands for each level, by the columns' names.

        Args:
            whole: A column for every level, rather than one fewer.
        """
        every = np.eye(len(self.levels))
        if whole:
            return {f"{self.text}[{name}]": every[k] for k, name in enumerate(self.levels)}
        last = len(self.levels) - 1
        left_out = last if self.sums else self.base
        letter = "S" if self.sums else "T"
        return {
            f"{self.text}[{letter}.{name}]": every[k] - (every[last] if self.sums else 0)
            for k, name in enumerate(self.levels)
            if k != left_out
        }


def coded(
    terms: Sequence[tuple[frozenset[str], tuple[str, ...]]],
) -> list[list[dict[str, bool]]]:
    """How each term's categories are coded, so that no two terms say the same.

    A term of categories says, besides what is its own, all that its parts say (a table of two
    categories contains both margins). What earlier terms have said already is left out; the rest is
    put together in as few blocks as possible, with all levels of a category instead of contrasts
    where a block takes in a smaller one. This is the usual algorithm (S and patsy have it).

    Args:
        terms: Of each, its numbers' and its categories' names. Terms with the same numbers share
            what is said.

    Returns:
        Of each term, blocks of columns: for every category in it, whether it has all levels.

    >>> coded([(frozenset(), ()), (frozenset(), ("a",)), (frozenset({"x"}), ("a",))])
    [[{}], [{'a': False}], [{'a': True}]]
    """
    said: dict[frozenset[str], set[frozenset[str]]] = {}
    found = []
    for numbers, categories in terms:
        before = said.setdefault(numbers, set())
        parts = [
            part
            for size in range(len(categories) + 1)
            for part in combinations(categories, size)
            if frozenset(part) not in before
        ]
        before.update(map(frozenset, parts))
        blocks = [dict.fromkeys(part, False) for part in parts]
        while _merge(blocks):
            pass
        found.append(
            [{name: block[name] for name in categories if name in block} for block in blocks]
        )
    return found


def _merge(blocks: list[dict[str, bool]]) -> bool:
    """Put one block into another that has one category more; whether there was any to put."""
    for i, small in enumerate(blocks):
        for j in range(i + 1, len(blocks)):
            extra = set(blocks[j]) - set(small)
            if len(extra) == 1 and dict(blocks[j]) == small | dict.fromkeys(extra, False):
                blocks[j] = {**blocks[j], extra.pop(): True}
                del blocks[i]
                return True
    return False
