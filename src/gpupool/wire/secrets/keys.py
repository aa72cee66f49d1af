"""Answers about the key of the pool's stored secrets. None of them holds a secret or a key."""

from __future__ import annotations

from pydantic import Field

from gpupool.wire.common import WireModel


class KeyProblem(WireModel):
    """Why secrets cannot be used now."""

    code: str
    text: str
    next: str


class SecretsOut(WireModel):
    """What is known of the stored secrets and of their key."""

    key_id: str | None = Field(description="encrypts them; null: no secret was ever stored")
    key_file: str = Field(description="on the server's machine")
    secrets: int = Field(description="values that are stored encrypted")
    older_keys: int = Field(description="other keys in the file, which open older backups")
    problem: KeyProblem | None = Field(description="null: secrets can be used")


class RotationIn(WireModel):
    """How the key is changed."""

    drop_old: bool = Field(
        False, description="forget older keys: secrets of older backups cannot be opened any more"
    )
    lost: bool = Field(
        False, description="give up secrets that no key opens: they must be set again"
    )
