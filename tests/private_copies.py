"""Copies of private cells in what leaves the house, in every form that a slip would give them.

A cell that was drawn with many random digits is known by them: a double is, and so is a number in
text with nine digits or more that a cell rounds to. Singles, halves and numbers of six to eight
digits meet by chance. Of them it takes more to be a copy: two neighbouring singles or four
neighbouring halves, in the order of rows or of columns; or, in any order, 20 cells of one column.
Columns of codes (categories, yes and no, counts) have no such digits: of them, a stretch of 48
cells is known by its order, as integers and floats of any width, one-hot, packed into bits, as
text, or as the categories' names.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

STRETCH = 48
MANY = 20
_FEW_DIGITS, _MANY_DIGITS = 6, 9
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{64,}={0,2}")
_WIDTHS = ("i1", "i2", "i4", "i8", "f2", "f4", "f8")


@dataclass(frozen=True)
class PrivateCells:
    """What to look for, made from the rows in all the forms that they are held in."""

    doubles: np.ndarray
    """Cells with random digits, without their signs, sorted; with them what singles and halves keep
    of them."""
    columns: tuple[np.ndarray, ...]
    """The same in single precision, column by column."""
    eights: np.ndarray
    """Eight bytes each: a double, two singles, four halves; both orders of bytes."""
    stretches: dict[str, bytes]
    """Of codes, by what they are."""
    words: dict[str, str]
    """Of codes as text, one space between two, and of categories' names."""


def private_cells(
    arrays: Iterable[np.ndarray], names: Mapping[str, Iterable[str]] | None = None
) -> PrivateCells:
    """Of arrays with records first; ``names`` are the cells of columns that hold words."""
    columns, eights = [], [np.empty(0, np.uint64)]
    stretches: dict[str, bytes] = {}
    words: dict[str, str] = {}
    distinct = {(a.shape, a.dtype, a.tobytes()): a for a in map(np.asarray, arrays)}
    for number, array in enumerate(distinct.values()):
        table = array.reshape(len(array), -1)
        if table.dtype.kind == "f":
            eights += _eights(table)
        for place, column in enumerate(table.T):
            if not _is_code(column):
                columns.append(np.abs(column[_known(table)[:, place]].astype(float)))
                continue
            for name, codes in _as_codes(column):
                for start, some in _stretches(codes):
                    label = f"array {number}, column {place}, {name}, from {start}"
                    words[label] = " ".join(map(str, some.astype(int)))
                    stretches |= {f"{label}, {k}": v for k, v in _as_bytes(some)}
    for name, cells in (names or {}).items():
        for start, some in _stretches(np.asarray(list(cells))):
            words[f"{name} from {start}"] = " ".join(some)
    return PrivateCells(
        _with_coarser(np.concatenate([np.empty(0), *columns])),
        tuple(np.unique(column.astype(np.float32)) for column in columns),
        np.unique(np.concatenate(eights)),
        stretches,
        words,
    )


def _with_coarser(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        coarse = [values.astype(width).astype(float) for width in (np.float32, np.float16)]
    every = np.concatenate([values, *coarse])
    return np.unique(every[np.isfinite(every)])


def _known(table: np.ndarray) -> np.ndarray:
    """Which cells have digits to know them by: more than twelve bits, so no small whole numbers,
    halves, quarters, ...; and of their own, which no third record shares."""
    exact = table.astype(float)
    leading = np.frexp(exact)[0] * 2**12
    shared = np.zeros(table.shape, bool)
    for place, column in enumerate(exact.T):
        _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
        shared[:, place] = counts[inverse] > 2
    return np.isfinite(exact) & (leading != np.rint(leading)) & ~shared


def _eights(table: np.ndarray) -> Iterator[np.ndarray]:
    """As eight bytes, little- and big-endian, along columns and along rows."""
    exact = table.astype(float)
    known = _known(table)
    for order, (width, count) in product("<>", (("f8", 1), ("f4", 2), ("f2", 4))):
        with np.errstate(over="ignore"):
            cells = exact.astype(order + width)
        for grid, seen in ((cells.T, known.T), (cells, known)):
            lasts = grid.shape[1] - count + 1
            for start in range(lasts):
                some = np.ascontiguousarray(grid[:, start : start + count])
                fine = seen[:, start : start + count].all(1)
                yield some[fine].view("<u8").ravel().astype(np.uint64)


def _is_code(column: np.ndarray) -> bool:
    return column.dtype.kind in "biu" or len(np.unique(column)) <= 10


def _as_codes(column: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    whole = column.dtype.kind in "biu" or bool(np.all(column == np.rint(column)))
    codes = column.astype(np.int64) if whole else np.unique(column, return_inverse=True)[1]
    yield "codes", codes
    if 1 <= codes.max() < 10 and codes.min() >= 0:
        levels = np.arange(codes.max() + 1)
        hot = (codes[:, None] == levels).astype(np.int64)
        yield "one-hot", hot.ravel()
        yield "one-hot without the first", hot[:, 1:].ravel()
        for level in levels[1:]:
            yield f"indicator of {level}", hot[:, level]


def _stretches(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Long enough, and with enough in them, not to come about by chance."""
    for start in range(0, len(codes) - STRETCH + 1, STRETCH // 2):
        some = codes[start : start + STRETCH]
        runs = {tuple(some[i : i + 6]) for i in range(STRETCH - 6)}
        if len(runs) > STRETCH // 4:
            yield start, some


def _as_bytes(codes: np.ndarray) -> Iterator[tuple[str, bytes]]:
    for order, width in product("<>", _WIDTHS):
        if np.abs(codes).max() < 127:
            yield order + width, codes.astype(order + width).tobytes()
    if codes.max() <= 1:
        for order in ("big", "little"):
            yield f"bits, {order}", np.packbits(codes.astype(np.uint8), bitorder=order).tobytes()


def copies(cells: PrivateCells, content: Mapping[str, bytes]) -> list[str]:
    """Where cells were found: what and in which content."""
    found = []
    for name, blob in content.items():
        for inner, part, array in _unpacked(name, blob):
            found += [f"{inner}: {what}" for what in _in_bytes(cells, part)]
            if array is not None:
                found += [f"{inner}: {what}" for what in _in_array(cells, array)]
            else:
                found += [f"{inner}: {what}" for what in _in_text(cells, part)]
    return found


def files_under(*places: Path) -> dict[str, bytes]:
    """All files of these folders, and these files."""
    found = {}
    for place in places:
        files = [place] if place.is_file() else [p for p in place.rglob("*") if p.is_file()]
        found |= {str(path): path.read_bytes() for path in files}
    return found


def _unpacked(name: str, blob: bytes) -> Iterator[tuple[str, bytes, np.ndarray | None]]:
    """The content, and whatever is packed into it: archives, arrays, base64."""
    if blob[:6] == b"\x93NUMPY":
        array = np.load(io.BytesIO(blob), allow_pickle=False)
        yield name, array.tobytes(), array
        return
    if blob[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            for member in archive.namelist():
                yield from _unpacked(f"{name}/{member}", archive.read(member))
        return
    opened = _decompressed(blob)
    if opened is not None:
        yield from _unpacked(f"{name} (compressed)", opened)
        return
    yield name, blob, None
    inner = b"\0".join(_from_base64(part) for part in set(_BASE64.findall(blob)))
    if inner:
        yield f"{name} (base64)", inner, None


def _from_base64(part: bytes) -> bytes:
    try:
        return base64.b64decode(part + b"=" * (-len(part) % 4), validate=True)
    except binascii.Error:
        return b""


def _decompressed(blob: bytes) -> bytes | None:
    if blob[:2] == b"\x1f\x8b":
        return gzip.decompress(blob)
    if blob[:1] == b"\x78":
        try:
            return zlib.decompress(blob)
        except zlib.error:
            return None
    return None


def _in_bytes(cells: PrivateCells, blob: bytes) -> Iterator[str]:
    for shift in range(8 if len(cells.eights) else 0):
        here = np.frombuffer(blob, "<u8", max(len(blob) - shift, 0) // 8, min(shift, len(blob)))
        place = np.minimum(np.searchsorted(cells.eights, here), len(cells.eights) - 1)
        if (cells.eights[place] == here).any():
            yield "bytes of cells"
            break
    yield from (what for what, stretch in cells.stretches.items() if stretch in blob)


def _in_array(cells: PrivateCells, array: np.ndarray) -> Iterator[str]:
    if array.dtype.kind in "US":
        yield from _in_text(cells, " ".join(array.ravel().astype(str)).encode())
    if array.dtype.kind == "f":
        single = np.unique(np.abs(array.ravel()).astype(np.float32))
        for number, column in enumerate(cells.columns):
            count = np.isin(column, single).sum()
            if count >= MANY:
                yield f"{count} cells of column {number}"


def _in_text(cells: PrivateCells, blob: bytes) -> Iterator[str]:
    text = blob.decode("utf-8", errors="replace").replace("\N{MINUS SIGN}", "-")
    tokens = [t for t in set(_NUMBER.findall(text)) if _digits(t) >= _FEW_DIGITS]
    if tokens:
        yield from _among_numbers(cells, np.array(tokens))
    spaced = " ".join(re.findall(r"\w+", text))
    close = "".join(spaced.split())
    for what, stretch in cells.words.items():
        if stretch in spaced or stretch.replace(" ", "") in close:
            yield f"{what}, as text"


def _among_numbers(cells: PrivateCells, tokens: np.ndarray) -> Iterator[str]:
    """Tokens that cells round to: a single one that has many digits, or many."""
    numbers, reach = np.abs(tokens.astype(float)), np.array([_half_a_unit(t) for t in tokens])
    long = np.array([_digits(token) for token in tokens]) >= _MANY_DIGITS
    hit = _near(numbers[long], reach[long], cells.doubles)
    yield from (f"a cell as {token}" for token in tokens[long][hit])
    for number, column in enumerate(cells.columns):
        # Singles have seven digits or eight: what is rounded further is near them, too.
        slack = np.maximum(reach, 2.0**-23 * numbers)
        count = _near(numbers, slack, column.astype(float)).sum()
        if count >= MANY:
            yield f"{count} cells of column {number}, as text"


def _near(numbers: np.ndarray, reach: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Which numbers have a cell within reach."""
    if not len(cells):
        return np.zeros(len(numbers), bool)
    low = numbers - reach * (1 + 1e-9)
    nearest = cells[np.minimum(np.searchsorted(cells, low), len(cells) - 1)]
    return np.abs(nearest - numbers) <= reach * (1 + 1e-9)


def _digits(token: str) -> int:
    return len(re.sub(r"[eE].*|\D", "", token).lstrip("0"))


def _half_a_unit(token: str) -> float:
    """Of the last digit that is written."""
    mantissa, _, exponent = token.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def like(cells: PrivateCells, seed: int) -> PrivateCells:
    """As many others that lie as close together: what is found of them is found by chance."""
    rng = np.random.default_rng(seed)
    columns = []
    for column in cells.columns:
        # Anywhere between two neighbours.
        share = rng.random(max(len(column) - 1, 0))
        columns.append(column[:-1] + share * np.diff(column.astype(float)))
    # Other digits in the middle of the eight bytes, whatever they are.
    noise = rng.integers(1, 2**20, len(cells.eights), dtype=np.uint64)
    return PrivateCells(
        _with_coarser(np.concatenate([np.empty(0), *columns])),
        tuple(column.astype(np.float32) for column in columns),
        np.unique(cells.eights ^ (noise << np.uint64(22))),
        {},
        {},
    )
