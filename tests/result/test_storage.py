import dataclasses
import json
import stat
import sys

import numpy as np
import pytest

import noisewise as nw
from noisewise._validate import NoisewiseError
from noisewise.result.signature import make_keys


def test_a_result_survives_saving(result, tmp_path):
    folder = result.save(tmp_path / "deep" / "out")
    back = nw.Result.load(folder)
    assert back.privacy == result.privacy
    assert back.status is result.status
    assert back.request.to_dict() == json.loads(json.dumps(result.request.to_dict()))
    for group in ("draws", "noise_unaware", "trace"):
        ours, theirs = getattr(result, group), getattr(back, group)
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert back.summary().equals(result.summary())
    assert sorted(p.name for p in folder.iterdir()) == [
        "arrays.npz",
        "digest.txt",
        "result.json",
    ]
    assert back.digest == result.digest


def test_an_existing_folder_is_not_touched(result, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(NoisewiseError, match="exists already"):
        result.save(tmp_path / "out")
    with pytest.raises(NoisewiseError, match="is not a noisewise result: not overwritten"):
        result.save(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_our_own_result_may_be_overwritten_when_asked(result, tmp_path):
    result.save(tmp_path / "out")
    result.save(tmp_path / "out", overwrite=True)
    assert nw.Result.load(tmp_path / "out").status is result.status


def test_a_failed_save_leaves_nothing(result, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", broken)
    with pytest.raises((NoisewiseError, OSError), match="disk full"):
        result.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def damage_json(folder):
    (folder / "result.json").write_text("{")


def foreign(folder):
    (folder / "result.json").write_text('{"format": "something else"}')


def future(folder):
    plain = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**plain, "version": 99}))


def missing_key(folder):
    plain = json.loads((folder / "result.json").read_text())
    del plain["privacy"]
    (folder / "result.json").write_text(json.dumps(plain))


def changed_arrays(folder):
    raw = bytearray((folder / "arrays.npz").read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / "arrays.npz").write_bytes(bytes(raw))


def no_digest(folder):
    (folder / "digest.txt").unlink()


def no_arrays(folder):
    (folder / "arrays.npz").unlink()


def no_json(folder):
    (folder / "result.json").unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (damage_json, "is not valid JSON"),
        (foreign, "was not written by noisewise"),
        (future, "has result version 99"),
        (missing_key, "was changed since it was written"),
        (changed_arrays, "was changed since it was written"),
        (no_arrays, "was changed since it was written"),
        (no_digest, "was changed since it was written"),
        (no_json, "holds no noisewise result"),
    ],
)
def test_corrupt_and_foreign_results_are_refused(result, tmp_path, harm, message):
    folder = result.save(tmp_path / "out")
    harm(folder)
    with pytest.raises(NoisewiseError) as caught:
        nw.Result.load(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def small(result):
    """The shared result with a hundred draws: flips are seldom lost in megabytes of them."""

    def first(arrays):
        return {name: values[:100] for name, values in arrays.items()}

    return dataclasses.replace(
        result, draws=first(result.draws), noise_unaware=first(result.noise_unaware)
    )


def test_every_flipped_bit_is_noticed(small, key_pair, tmp_path):
    """In every file of a signed result: 200 flips each, fixed seed, none loads."""
    folder = small.sign(key_pair / "private.pem").save(tmp_path / "out")
    rng = np.random.default_rng(0)
    names = ("arrays.npz", "digest.txt", "result.json", "signature.json")
    assert sorted(path.name for path in folder.iterdir()) == list(names)
    nw.Result.load(folder)
    for name in names:
        whole = (folder / name).read_bytes()
        for place, bit in zip(
            rng.integers(0, len(whole), 200), rng.integers(0, 8, 200), strict=True
        ):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << int(bit)
            (folder / name).write_bytes(flipped)
            with pytest.raises(NoisewiseError) as caught:
                nw.Result.load(folder)
            assert "\n" not in str(caught.value)
        (folder / name).write_bytes(whole)
    nw.Result.load(folder)


def test_the_files_follow_from_the_result_alone(small, tmp_path):
    one, two = (small.save(tmp_path / name) for name in ("one", "two"))
    again = nw.Result.load(one).save(tmp_path / "again")
    for name in ("arrays.npz", "digest.txt", "result.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes() == (again / name).read_bytes()


@pytest.fixture(scope="module")
def key_pair(tmp_path_factory):
    pytest.importorskip("cryptography")
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder)
    return folder


def test_a_signature_is_of_one_result_by_one_key(small, key_pair, tmp_path):
    make_keys(tmp_path / "other")
    signed = small.sign(key_pair / "private.pem")
    back = nw.Result.load(signed.save(tmp_path / "out"))
    for found in (signed, back):
        assert found.signed_by(key_pair / "public.pem")
        assert not found.signed_by(tmp_path / "other" / "public.pem")
    assert not small.signed_by(key_pair / "public.pem")
    # Whoever changes the result can make its digest fit, and cannot sign it.
    forged = dataclasses.replace(back, notes=("all is well",))
    assert not forged.signed_by(key_pair / "public.pem")
    with pytest.raises(NoisewiseError, match="changed since it was signed"):
        forged.save(tmp_path / "forged")
    moved = back.signature._replace(digest=forged.digest)
    passed_off = nw.Result.load(
        dataclasses.replace(forged, signature=moved).save(tmp_path / "forged")
    )
    assert not passed_off.signed_by(key_pair / "public.pem")


def test_a_signature_is_ed25519s_as_cryptography_has_it(small, key_pair):
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    found = small.sign(key_pair / "private.pem").signature
    public = load_pem_public_key((key_pair / "public.pem").read_bytes())
    public.verify(bytes.fromhex(found.value), f"noisewise result {small.digest}".encode())
    assert public.public_bytes_raw().hex() == found.public_key


def test_keys_are_their_owners_and_never_overwritten(key_pair):
    private, public = key_pair / "private.pem", key_pair / "public.pem"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    before = private.read_bytes(), public.read_bytes()
    with pytest.raises(NoisewiseError, match="never overwritten"):
        make_keys(key_pair)
    assert (private.read_bytes(), public.read_bytes()) == before


def test_what_is_no_key_is_said(small, key_pair, tmp_path):
    (tmp_path / "text").write_text("hello")
    for key in (tmp_path / "text", key_pair / "public.pem", tmp_path / "none"):
        with pytest.raises(NoisewiseError, match=r"no Ed25519 private key|cannot read the key"):
            small.sign(key)
    signed = small.sign(key_pair / "private.pem")
    with pytest.raises(NoisewiseError, match="no Ed25519 public key"):
        signed.signed_by(key_pair / "private.pem")


def test_without_cryptography_it_is_said_what_to_install(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(NoisewiseError, match="pip install"):
        small.sign("private.pem")


def test_verify_holds_the_releases_against_the_settings(result):
    """The shared result is seeded, which is reason enough; the rest is that of a private one."""
    private = dataclasses.replace(
        result.privacy,
        not_private_because=(),
        sources=result.privacy.sources | {"randomness": "secure"},
    )
    whole = dataclasses.replace(result, privacy=private)
    assert not result.verify().holds and whole.verify().holds

    def reasons(certificate):
        return dataclasses.replace(whole, privacy=certificate).verify().reasons

    def without(what):
        kept = tuple(one for one in private.releases if one.what != what)
        return dataclasses.replace(private, releases=kept)

    assert "it lists no release" in reasons(dataclasses.replace(private, releases=()))
    assert reasons(without("gradients")) == (
        "no release accounts for 1000 steps at sampling rate 0.1",
    )
    assert any("number of rows" in reason for reason in reasons(without("number of rows")))
    unpaid = dataclasses.replace(
        without("products of pairs of covariates"),
        sources=private.sources | {"pairs of covariates": "their mean products were bought"},
    )
    assert reasons(unpaid) == ("its pairs of covariates were bought, and no release pays for them",)
