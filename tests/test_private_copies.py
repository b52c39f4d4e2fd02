"""The search for copies finds every kind of them, and nothing else."""

import base64
import gzip
import json
import zlib
from itertools import product

import numpy as np
import pytest
from private_copies import copies, files_under, like, private_cells

N = 150


def drawn(seed):
    rng = np.random.default_rng(seed)
    return {
        "income": rng.uniform(2e5, 9e5, N),
        "level": rng.uniform(-1, 1, N),
        "ward": rng.integers(0, 4, N),
        "ill": rng.integers(0, 2, N),
        "visits": rng.poisson(2.0, N),
    }


@pytest.fixture(scope="module")
def people():
    return drawn(11)


@pytest.fixture(scope="module")
def cells(people):
    design = np.column_stack([np.ones(N), people["income"], people["level"], people["ill"]])
    sexes = {"sex": np.where(people["ill"], "male", "female")}
    arrays = (*people.values(), design.astype(np.float32))
    return private_cells(arrays, sexes)


def text(values, form):
    return "\n".join(format(value, form) for value in values)


def one_hot(codes, dtype):
    return np.eye(codes.max() + 1, dtype=dtype)[codes]


PLANTED = {
    "as written": lambda p: "\n".join(map(repr, p["income"].tolist())),
    "JSON": lambda p: json.dumps({"level": p["level"].tolist()}, indent=2),
    "JSON of singles": lambda p: json.dumps(p["level"].astype(np.float32).astype(float).tolist()),
    "six digits": lambda p: text(p["income"], ".6g"),
    "eight digits": lambda p: text(p["level"], ".8g"),
    "eight digits and an exponent": lambda p: text(p["income"], ".7e"),
    "six decimals in HTML": lambda p: "".join(f"<td>{v:.6f}</td>" for v in p["income"]),
    "one cell in a sentence": lambda p: f"row 17 has income={p['income'][17]!r}, refused",
    "one cell, its minus a minus sign": lambda p: f"{p['level'].min():.9f}".replace("-", "−"),
    "one double among others": lambda p: b"\0" * 37 + p["level"][9:10].tobytes() + b"\0" * 5,
    "base64": lambda p: base64.b64encode(p["level"].astype("<f4").tobytes()),
    "zlib": lambda p: zlib.compress(p["income"].astype("<f4").tobytes()),
    "gzip": lambda p: gzip.compress(text(p["income"], ".17g").encode()),
    "rows of singles": lambda p: np.column_stack([p["income"], p["level"]]).astype("<f4").tobytes(),
    "codes": lambda p: ", ".join(map(str, p["ward"])),
    "codes in JSON": lambda p: json.dumps(p["visits"].tolist(), indent=1),
    "codes in one word": lambda p: "".join(map(str, p["ill"])),
    "bits": lambda p: np.packbits(p["ill"]).tobytes(),
    "bits, the other way round": lambda p: np.packbits(p["ill"], bitorder="little").tobytes(),
    "one-hot": lambda p: one_hot(p["ward"], np.int8).tobytes(),
    "one-hot without the first": lambda p: one_hot(p["ward"], "<f4")[:, 1:].tobytes(),
    "one indicator": lambda p: (p["ward"] == 2).astype("<f4").tobytes(),
    "names": lambda p: ",".join(np.where(p["ill"], "male", "female")),
} | {
    f"{name} as {order}{width}": lambda p, n=name, d=order + width: p[n].astype(d).tobytes()
    for name, order, width in (
        *product(["income", "level"], "<>", ["f4", "f8"]),
        *product(["level"], "<>", ["f2"]),
        *product(["ill", "ward", "visits"], "<>", ["i1", "i2", "i4", "i8", "f2", "f4", "f8"]),
    )
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_copy_is_found(kind, people, cells, tmp_path):
    made = PLANTED[kind](people)
    (tmp_path / "planted").write_bytes(made.encode() if isinstance(made, str) else made)
    assert copies(cells, files_under(tmp_path))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: p["income"],
        lambda p: p["level"].astype(np.float32),
        lambda p: p["level"].astype(np.float16),
        lambda p: p["level"].astype(np.float32).astype(float),
        lambda p: p["level"][33:34].astype(np.float32),
        lambda p: -p["income"].reshape(-1, 3),
        lambda p: p["ward"].astype(np.int8),
        lambda p: np.array([f"{v:.6f}" for v in p["level"]]),
    ],
)
def test_a_copy_in_an_archive_is_found(save, make, people, cells, tmp_path):
    save(tmp_path / "arrays.npz", fine=np.linspace(0, 1, 9), planted=make(people))
    assert copies(cells, files_under(tmp_path / "arrays.npz"))


def test_others_are_not_found(people, cells, tmp_path):
    """Another table of the same law, in all these forms but the coarsest: of 150 numbers with six
    digits some are a cell's by chance (one in 30 tables). Fixed seed."""
    other = drawn(12)
    for number, (kind, make) in enumerate(PLANTED.items()):
        if kind != "six digits":
            made = make(other)
            written = made.encode() if isinstance(made, str) else made
            (tmp_path / f"{number}").write_bytes(written)
    assert copies(cells, files_under(tmp_path)) == []


def test_cells_made_like_these_are_others(cells):
    for seed in range(5):
        other = like(cells, seed)
        assert len(np.intersect1d(other.eights, cells.eights)) == 0
        assert len(np.intersect1d(other.values, cells.values)) == 0
