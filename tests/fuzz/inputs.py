"""What is thrown at noisewise: tables, files, schemas, budgets, models, plans, results, commands.

Every maker takes a generator and a folder, and returns a call. Cells that could be somebody's are
the sentinels, so that they can be looked for in whatever is said.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import noisewise as nw
from noisewise.data import PublicSample
from noisewise.models import named_model
from noisewise.result.storage import digest

SENTINEL, TEXT = 7182818.25, "Zyxwvut"
SCHEMA = nw.Schema(
    (
        nw.Column(name="age", kind="real", bounds=(0, 100)),
        nw.Column(name="visits", kind="count", bounds=(0, 50)),
        nw.Column(name="ill", kind="binary"),
        nw.Column(name="sex", kind="category", categories=("f", "m")),
    )
)
Call = Callable[[], Any]

_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 0.5, 1e-320, 1e-300, 1e300, math.inf, -math.inf, math.nan, 10**20, -(10**20)),
    *(2**31, 2**63, 2**64, 10**400, True, False),
)
JUNK: tuple[Any, ...] = (
    *_NUMBERS,
    *("", "nan", "1", TEXT, "a\nb", "\x00", "é" * 300, None, [], {}, [[]], [None], {"a": {}}),
    *([1, 2], ["f", "m"], [math.nan, 1.0], [[1.0, 2.0], [3.0]], {"type": "real"}),
)


def _pick(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _cells(rng: np.random.Generator, count: int) -> Any:
    """A column: good, or wrong in one of many ways, with sentinels in it."""
    good = [rng.uniform(0, 50, count), rng.integers(0, 2, count), rng.choice(["f", "m"], count)]
    column = list(_pick(rng, good))
    kind = int(rng.integers(16))
    place = int(rng.integers(count))
    if kind < 6:
        column[place] = _pick(rng, (SENTINEL, TEXT, None, math.nan, 10**30, -SENTINEL))
    elif kind == 6:
        return np.full(count, SENTINEL).astype(_pick(rng, ("f2", "f8", "i8", "c16", "U9", "S9")))
    elif kind == 7:
        return [decimal.Decimal(_pick(rng, ("sNaN", "NaN", "Infinity", str(SENTINEL))))] * count
    elif kind == 8:
        return [_pick(rng, (datetime.timedelta(7182818), datetime.date(1918, 2, 8)))] * count
    elif kind == 9:
        return [[SENTINEL] * (1 + i % 2) for i in range(count)]
    elif kind == 10:
        return column[: count - 1]
    elif kind == 11:
        return np.full((count, 2), SENTINEL)
    elif kind == 12:
        return np.array(7182818.25)
    elif kind == 13:
        return pl.Series([10**30] * count, dtype=pl.Int128)
    elif kind == 14:
        return [{"x": SENTINEL}] * count
    return column


def table(rng: np.random.Generator, folder: Path) -> Call:
    """A data frame or a dictionary, in memory."""
    count = _pick(rng, (2, 3, 17))
    names = [name for name in SCHEMA.names if rng.random() > 0.05]
    if rng.random() < 0.1:
        names.append(_pick(rng, (TEXT, "7182818", "")))
    data = {name: _cells(rng, count) for name in names}
    shape = _pick(rng, (dict, pd.DataFrame, pl.DataFrame, pa.table, list, pd.Series))
    options = {"clamp": bool(rng.integers(2)), "ignore_undeclared": bool(rng.integers(2))}
    try:
        frame = shape({n: list(c) for n, c in data.items()}) if shape is pa.table else shape(data)
    except BaseException as error:  # the frame's own maker refuses it, or panics (polars)
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        frame = data
    kind = _pick(rng, (nw.Table, nw.Table, PublicSample))
    return lambda: kind(frame, SCHEMA, **(options if kind is nw.Table else {}))


def damaged(rng: np.random.Generator, raw: bytes) -> bytes:
    """Bytes with a few of them changed, cut, doubled, or replaced."""
    kind, text = int(rng.integers(6)), bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(max(1, len(text))))
        if kind == 0 and text:
            text[place % len(text)] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del text[place:]
        elif kind == 2:
            text[place:place] = _pick(rng, (b"\x00", b'"', b"\xff", b"\n", b",", "é".encode("l1")))
        elif kind == 3:
            text += text[place:]
        elif kind == 4:
            del text[place : place + int(rng.integers(1, 20))]
        else:
            text[place:place] = rng.bytes(8)
    return bytes(text)


def file(rng: np.random.Generator, folder: Path) -> Call:
    """A CSV or Parquet file with damage."""
    count = 12
    frame = pd.DataFrame(
        {
            "age": rng.uniform(0, 100, count),
            "visits": rng.integers(0, 50, count),
            "ill": rng.integers(0, 2, count),
            "sex": rng.choice(["f", "m"], count),
        }
    )
    wild = rng.random()
    if wild < 0.5:
        frame = frame.astype(object)
        where = int(rng.integers(count)), int(rng.integers(4))
        frame.iloc[where] = _pick(rng, (SENTINEL, TEXT, None, "", "7182818.25 EUR"))
    if wild < 0.3:
        frame = frame.astype(str)
    suffix = _pick(rng, (".csv", ".csv", ".csv.gz", ".parquet"))
    buffer = io.BytesIO()
    if suffix == ".parquet":
        frame.astype(str).to_parquet(buffer)
    else:
        frame.to_csv(buffer, index=False, header=rng.random() > 0.2)
    raw = buffer.getvalue()
    path = folder / f"people{suffix}"
    path.write_bytes(damaged(rng, raw) if rng.random() < 0.8 else raw)
    read = _pick(rng, (nw.Table.read, PublicSample.read))
    return lambda: read(path, SCHEMA)


def changed(rng: np.random.Generator, plain: Any) -> Any:
    """Nested plain data with one entry taken out, replaced or added somewhere."""
    if isinstance(plain, dict) and plain and rng.random() < 0.8:
        name = _pick(rng, list(plain))
        found = dict(plain)
        if rng.random() < 0.15:
            del found[name]
        else:
            found[name] = changed(rng, found[name])
        return found
    if isinstance(plain, list) and plain and rng.random() < 0.6:
        place = int(rng.integers(len(plain)))
        return [changed(rng, v) if i == place else v for i, v in enumerate(plain)]
    return _pick(rng, JUNK)


def toml_of(plain: Any) -> str:
    """As TOML where that is possible, else as something like it."""
    import tomli_w

    try:
        return tomli_w.dumps(plain)
    except Exception:  # TOML has no null, and a table at the top
        pairs = plain.items() if isinstance(plain, dict) else [("a", plain)]
        return "\n".join(f"{name} = {value!r}" for name, value in pairs)


def schema(rng: np.random.Generator, folder: Path) -> Call:
    """A declaration, as a dictionary or a file."""
    plain = changed(rng, SCHEMA.to_dict())
    if rng.random() < 0.5:
        return lambda: nw.Schema.from_dict(plain).fingerprint()
    path, text = folder / "people.toml", SCHEMA.to_toml()
    if isinstance(plain, dict) and rng.random() < 0.5:
        text = toml_of(plain)
    elif rng.random() < 0.02:
        text = "a = " + "[" * 5000
    path.write_bytes(damaged(rng, text.encode("utf-8", "replace")))
    return lambda: nw.Schema.from_toml(path).to_toml()


def budget(rng: np.random.Generator, folder: Path) -> Call:
    """Epsilon, delta and adjacency, from near to nonsense."""
    epsilon, delta = _pick(rng, (1.0, *JUNK)), _pick(rng, (1e-6, *JUNK))
    adjacency = _pick(rng, ("add-remove", "replace-one", *JUNK))
    return lambda: nw.Budget(epsilon=epsilon, delta=delta, adjacency=adjacency)


def model(rng: np.random.Generator, folder: Path) -> Call:
    """A model's name, or a file with a function."""
    names = ("logistic", "linear", "poisson", "mixture", "network", "probit", "cloglog", "a.py:f")
    inside = (
        "components=",
        "hidden=",
        "response=",
        "x",
        "3",
        "-1",
        "1e9",
        "poisson",
        ",",
        "(",
        "=",
    )
    name = _pick(rng, names)
    if rng.random() < 0.5:
        name += f"({''.join(_pick(rng, inside) for _ in range(int(rng.integers(5))))})"
    if rng.random() < 0.3:
        path = folder / "model.py"
        source = b"def f(X, y=None):\n    return X\n"
        path.write_bytes(damaged(rng, source) if rng.random() < 0.7 else b"raise ValueError('no')")
        name = f"{path}:{_pick(rng, ('f', 'g', '', 'os'))}"
    target = _pick(rng, ("ill", "age", "sex", "nobody", None, 3))
    return lambda: named_model(name if rng.random() < 0.95 else _pick(rng, JUNK), SCHEMA, target)


def plan_file(rng: np.random.Generator, folder: Path, text: str) -> Call:
    """A plan of ours, edited badly."""
    import tomllib

    path = folder / "plan.toml"
    if rng.random() < 0.7:
        path.write_bytes(toml_of(changed(rng, tomllib.loads(text))).encode("utf-8", "replace"))
    else:
        path.write_bytes(damaged(rng, text.encode()))

    def load() -> None:
        settings = nw.Plan.load(path).settings
        for name in ("shift", "stretch", "location"):
            value = getattr(settings, name, None)
            assert value is None or np.isfinite(value).all(), name

    return load


def result_folder(rng: np.random.Generator, folder: Path, files: dict[str, bytes]) -> Call:
    """A saved result, damaged, or edited with a digest that fits."""
    given = dict(files)
    if rng.random() < 0.6:
        plain = changed(rng, json.loads(given["result.json"]))
        given["result.json"] = json.dumps(plain).encode()
    elif rng.random() < 0.5:
        name = _pick(rng, list(given))
        given[name] = damaged(rng, given[name])
    else:
        arrays = dict(np.load(io.BytesIO(given["arrays.npz"])))
        name = _pick(rng, list(arrays))
        strange = (np.empty(0), np.array(3), np.array(["a"]), np.full((3, 2), np.nan), np.ones(7))
        arrays[_pick(rng, (name, "draws", "elsewhere/x"))] = _pick(rng, strange)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        given["arrays.npz"] = buffer.getvalue()
    if rng.random() < 0.8:
        parts = {name: given[name] for name in ("result.json", "arrays.npz")}
        given["digest.txt"] = f"{digest(parts)}\n".encode()
    for name, raw in given.items():
        (folder / name).write_bytes(raw)

    often = rng.random() < 0.03

    def load() -> None:
        found = nw.Result.load(folder)
        summary = found.summary()
        if found.status is not nw.Status.DIVERGED:
            assert np.isfinite(summary.to_numpy(float)).all()
        if often:
            found.privacy.verify()

    return load


def command(rng: np.random.Generator, folder: Path) -> list[str]:
    """A command line."""
    name = _pick(rng, ("fit", "plan", "coverage", "verify", "report", "synthesize", "fti"))
    places = [str(folder / n) for n in ("people.csv", "people.toml", "nowhere", "people.csv/x")]
    places += [str(folder), "", "x" * 400, "/proc/none/x.html", "a\x00b"]
    numbers = ("1", "0", "-1", "nan", "inf", "1e-320", "1e20", "10000000000000000000000", TEXT)
    options = {
        "--schema": places,
        "--epsilon": ("1", *numbers),
        "--delta": ("1e-6", *numbers),
        "--rows": ("100", *numbers),
        "--target": ("ill", "age", "nobody", ""),
        "--features": ("age", "age,sex", ",", "nobody"),
        "--model": ("logistic", "linear", "none", "a.py:b", places[0]),
        "--adjacency": ("add-remove", "friends"),
        "--steps": ("100", *numbers),
        "--simulations": ("10", *numbers),
        "--seed": ("0", *numbers),
        "--jobs": ("1", *numbers),
        "--backend": ("loky", "multiprocessing", ""),
        "--plan": places,
        "--public-sample": places,
        "-o": places,
    }
    usual = {"--schema": places[1], "--epsilon": "1", "--target": "ill", "-o": str(folder / "out")}
    first = [] if name == "fti" else [_pick(rng, (places[0], *places) if name == "fit" else places)]
    words = [name, *first]
    for flag, values in options.items():
        if flag in usual or rng.random() < 0.12:
            value = usual.get(flag) if rng.random() < 0.85 else None
            words += [flag, str(value or _pick(rng, values))]
    if name not in ("fit", "fti"):
        known = {"plan", "coverage"} if name in ("plan", "coverage") else set()
        drop = {"--schema"} | (set() if known else set(options) - {"-o"})
        kept = [words[:2]] + [words[i : i + 2] for i in range(2, len(words), 2)]
        words = [word for pair in kept for word in pair if pair[0] not in drop]
    return words
