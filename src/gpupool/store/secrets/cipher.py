"""Encrypts one text by AES-256-GCM, bound to its place. Pure but for random nonces.

An encrypted text is `gpenc1.KEY.BODY`: the id of its key, and nonce, ciphertext and tag in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from dataclasses import dataclass, field
from typing import Final

from gpupool.base.errors import SecretDamaged

#: AES-256.
KEY_BYTES: Final = 32
#: NIST SP 800-38D, 8.2.2: 96 random bits, for at most 2**32 texts of one key.
_NONCE_BYTES: Final = 12
_PREFIX: Final = "gpenc1."


@dataclass(frozen=True)
class SecretKey:
    """A key; its id tells nothing about it and is stored with each value."""

    material: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return hashlib.sha256(b"gpupool key id\0" + self.material).hexdigest()[:16]


def make_key() -> SecretKey:
    """Make a random key."""
    return SecretKey(os.urandom(KEY_BYTES))


def find_key_id(text: str) -> str | None:
    """Return the id of the key of an encrypted text; None: the text is not encrypted."""
    if not text.startswith(_PREFIX):
        return None
    return text.removeprefix(_PREFIX).partition(".")[0]


def encrypt_text(key: SecretKey, text: str, context: bytes) -> str:
    """Encrypt a text; the same text gives another result each time."""
    # Only pools with secrets need it: 20 ms of a start.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    sealed = nonce + AESGCM(key.material).encrypt(nonce, text.encode(), context)
    return f"{_PREFIX}{key.id}.{base64.urlsafe_b64encode(sealed).decode()}"


def decrypt_text(key: SecretKey, text: str, context: bytes) -> str:
    """Decrypt a text. Raises SecretDamaged where it was altered, or is of another place."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        sealed = base64.urlsafe_b64decode(text.rpartition(".")[2])
        body = sealed[_NONCE_BYTES:]
        return AESGCM(key.material).decrypt(sealed[:_NONCE_BYTES], body, context).decode()
    except (InvalidTag, ValueError, binascii.Error) as error:
        raise SecretDamaged(
            f"the secret of {context.decode()} was altered or moved in the database",
            hint="set the secret again: the value in the database cannot be used",
            place=context.decode(),
        ) from error
