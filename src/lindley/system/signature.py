"""Signatures of system files: who vouches for a system.

The digest inside a system file finds accidents, and no intent: whoever changes the file can write a new digest. A signature is
made with a private key that stays in the laboratory, and checked with the public key that belongs to it. It stands in a file
beside the system, ``glass.safetensors.sig``, so that the system itself stays as it is. Ed25519, by the package ``cryptography``
(the extra ``signing``).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lindley.errors import LindleyError
from lindley.files import require_name, write_atomically
from lindley.shown import read_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["make_keys", "sign", "signature_file", "signed_with", "verify"]

FORMAT = "lindley-signature/1"
LARGEST = 10_000
"""Bytes of a key or a signature: either is a few hundred."""


def make_keys(name: Path) -> tuple[Path, Path]:
    """Write a new pair of keys, ``NAME.private.pem`` and ``NAME.public.pem``; nothing is written over."""
    _require_package()
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = (name.with_name(f"{name.name}.{which}.pem") for which in ("private", "public"))
    require_name(private)
    if there := [path for path in (private, public) if path.exists()]:
        raise LindleyError(f"{there[0]} is there already, and systems may be signed with it. Give another name.")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    try:
        with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
    except OSError as error:
        raise LindleyError(f"{private} cannot be written ({error.strerror or error}).") from error
    write_atomically(public, key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def sign(data: bytes, system: Path, key: Path) -> tuple[Path, str]:
    """Write the signature of a system file that holds ``data``: its place, and the fingerprint of the key."""
    private = _private(key)
    public = _fingerprint(private.public_key())
    digest = hashlib.sha256(data).hexdigest()
    signature = base64.b64encode(private.sign(_message(digest))).decode("ascii")
    content = {"format": FORMAT, "sha256": digest, "key": public, "signature": signature}
    place = signature_file(system)
    write_atomically(place, (json.dumps(content, indent=1) + "\n").encode("ascii"))
    return place, public


def verify(data: bytes, system: Path, key: Path) -> str:
    """The fingerprint of the public key, if the signature beside the system was made with its private key, of this ``data``.

    Raises:
        LindleyError: if it was not, or if there is no signature; it says which.
    """
    public = _public(key)
    said, place = _read(system), signature_file(system)
    ours = _fingerprint(public)
    if said["sha256"] != hashlib.sha256(data).hexdigest():
        raise LindleyError(
            f"{system.name} is not what was signed: it was changed or trained again after {place.name} was written. Do not use "
            "it before you know why."
        )
    if said["key"] != ours:
        raise LindleyError(
            f"{system.name} was signed with another key ({said['key']}) than {key.name} ({ours}). Do not use it before you "
            "know whose that is."
        )
    from cryptography.exceptions import InvalidSignature

    try:
        signature = base64.b64decode(said["signature"], validate=True)
        if base64.b64encode(signature).decode("ascii") != said["signature"]:
            raise ValueError("its last letter is another one for the same bits")
        public.verify(signature, _message(said["sha256"]))
    except (InvalidSignature, ValueError) as error:
        raise LindleyError(
            f"{place.name} was not made with the private key of {key.name}: it is forged or damaged. Do not use {system.name} "
            "before you know why."
        ) from error
    return ours


def signature_file(system: Path) -> Path:
    """Where the signature of a system stands."""
    return system.with_name(f"{system.name}.sig")


def signed_with(system: Path) -> str | None:
    """The fingerprint of the key that a signature beside the system names, which anybody can write; nothing is checked."""
    return _read(system)["key"] if signature_file(system).exists() else None


def _read(system: Path) -> dict[str, str]:
    place = signature_file(system)
    try:
        content = read_json(_content(place))
    except FileNotFoundError:
        raise LindleyError(
            f"{system.name} is not signed: there is no {place.name} beside it. 'lindley sign' writes it."
        ) from None
    except ValueError:
        content = None
    keys = ("format", "sha256", "key", "signature")
    if not isinstance(content, dict) or not all(isinstance(content.get(key), str) for key in keys):
        raise LindleyError(f"{place.name} is not a signature of lindley, or it is damaged.")
    if content["format"] != FORMAT or not all(content[key].isascii() and content[key].isprintable() for key in keys):
        raise LindleyError(f"{place.name} is not a signature that this version of lindley reads ({FORMAT}).")
    return {key: content[key] for key in keys}


def _message(digest: str) -> bytes:
    return f"{FORMAT}\n{digest}\n".encode("ascii")


def _fingerprint(key: Ed25519PublicKey) -> str:
    """What people compare: the first half of the SHA-256 of the public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]


def _private(path: Path) -> Ed25519PrivateKey:
    _require_package()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data = _key(path)
    if b"PUBLIC KEY" in data:
        raise LindleyError(f"{path} is a public key, which checks signatures: sign with the private one.")
    try:
        key: Any = serialization.load_pem_private_key(data, password=None)
    except TypeError as error:
        raise LindleyError(f"{path} is protected with a password, and lindley reads keys without one.") from error
    except Exception as error:  # ValueError, UnsupportedAlgorithm …
        _no_key(path, error)
    return key if isinstance(key, Ed25519PrivateKey) else _no_key(path)


def _public(path: Path) -> Ed25519PublicKey:
    _require_package()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    data = _key(path)
    if b"PRIVATE KEY" in data:
        raise LindleyError(
            f"{path} is a private key, which belongs nowhere but where systems are signed: give the public one."
        )
    try:
        key: Any = serialization.load_pem_public_key(data)
    except Exception as error:
        _no_key(path, error)
    return key if isinstance(key, Ed25519PublicKey) else _no_key(path)


def _key(path: Path) -> bytes:
    try:
        return _content(path)
    except FileNotFoundError:
        raise LindleyError(f"there is no key {path}. 'lindley keys' makes a pair.") from None


def _no_key(path: Path, error: Exception | None = None) -> NoReturn:
    raise LindleyError(f"{path} is not an Ed25519 key in PEM form, as 'lindley keys' writes it.") from error


def _content(path: Path) -> bytes:
    """Of a small file.

    Raises:
        FileNotFoundError: if there is none.
    """
    if path.exists() and not path.is_file():
        raise LindleyError(f"{path} is not a file.")
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LindleyError(f"{path} cannot be read ({error.strerror or error}).") from error
    if len(data) > LARGEST:
        raise LindleyError(f"{path} is too large for a key or a signature.")
    return data


def _require_package() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise LindleyError(
            "signatures need the package cryptography, which is not installed: pip install 'lindley[signing]'."
        ) from None
