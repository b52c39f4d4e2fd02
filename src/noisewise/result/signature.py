"""Signatures of results: Ed25519, by the package cryptography, which only who signs needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from noisewise._validate import NoisewiseError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PRIVATE, PUBLIC = "private.pem", "public.pem"


class Signature(NamedTuple):
    """Of one result, by one key."""

    digest: str
    """Of what was signed: `Result.digest`."""
    public_key: str
    """Whose signature it says it is, in hexadecimal: only a key from elsewhere can tell."""
    value: str


def make_keys(folder: Path) -> tuple[Path, Path]:
    """A new key pair: ``private.pem``, which only its owner may read, and ``public.pem``."""
    key = _crypto().private.generate()
    serial = _crypto().serialization
    private, public = folder / PRIVATE, folder / PUBLIC
    texts = {
        private: key.private_bytes(
            serial.Encoding.PEM, serial.PrivateFormat.PKCS8, serial.NoEncryption()
        ),
        public: key.public_key().public_bytes(
            serial.Encoding.PEM, serial.PublicFormat.SubjectPublicKeyInfo
        ),
    }
    for path in texts:
        if path.exists():
            raise NoisewiseError(f"{path} exists already, and a key is never overwritten")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            mode = 0o600 if path == private else 0o644
            # Made with its mode and only if it is new: no moment in which others can read it.
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(text)
    except OSError as error:
        raise NoisewiseError(f"cannot write keys into {folder}: {error.strerror}") from None
    return private, public


def sign(digest: str, key: str | Path | Ed25519PrivateKey) -> Signature:
    """The digest, signed.

    Args:
        digest: Of a result.
        key: A private key, or the file of one.
    """
    private = read_private(key) if isinstance(key, str | Path) else key
    return Signature(digest, _name(private.public_key()), private.sign(_message(digest)).hex())


def holds(signature: Signature, key: str | Path | Ed25519PublicKey) -> bool:
    """Whether the signature is by the owner of this public key."""
    public = read_public(key) if isinstance(key, str | Path) else key
    try:
        public.verify(bytes.fromhex(signature.value), _message(signature.digest))
    except (_crypto().invalid, ValueError):
        return False
    return True


def read_private(path: str | Path) -> Ed25519PrivateKey:
    """The private key in a file."""
    return _read(Path(path), _crypto().private, "private")


def read_public(path: str | Path) -> Ed25519PublicKey:
    """The public key in a file."""
    return _read(Path(path), _crypto().public, "public")


def _read(path: Path, kind: Any, name: str) -> Any:
    crypto = _crypto()
    try:
        raw = path.read_bytes()
        load = {
            "private": lambda: crypto.serialization.load_pem_private_key(raw, None),
            "public": lambda: crypto.serialization.load_pem_public_key(raw),
        }[name]
        key = load()
    except OSError as error:
        raise NoisewiseError(f"cannot read the key {path}: {error.strerror}") from None
    except (ValueError, TypeError, crypto.unsupported):
        key = None
    if not isinstance(key, kind):
        raise NoisewiseError(
            f"{path} is no Ed25519 {name} key without a password: `noisewise keys` makes one"
        )
    return key


def _message(digest: str) -> bytes:
    """Signed with what it is for: no signature of something else can be passed off as one."""
    return f"noisewise result {digest}".encode()


def _name(key: Ed25519PublicKey) -> str:
    return key.public_bytes_raw().hex()


class _Crypto(NamedTuple):
    private: Any
    public: Any
    serialization: Any
    invalid: type[Exception]
    unsupported: type[Exception]


def _crypto() -> _Crypto:
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise NoisewiseError(
            "signatures need the package cryptography: pip install 'noisewise[sign]'"
        ) from None
    keys = (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)
    return _Crypto(*keys, serialization, InvalidSignature, UnsupportedAlgorithm)
