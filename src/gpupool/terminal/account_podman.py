"""Podman of an account, for commands: what is missing becomes an error with the next step."""

from __future__ import annotations

from gpupool.base.errors import ContainersUnavailable
from gpupool.mechanisms.containers.accounts import MissingPart, find_account
from gpupool.mechanisms.containers.images import AccountPodman
from gpupool.mechanisms.containers.podman import find_podman


def open_podman(uid: int, gid: int) -> AccountPodman:
    """Return the Podman of an account. Raises ContainersUnavailable."""
    installation = find_podman()
    if isinstance(installation, MissingPart):
        raise ContainersUnavailable(installation.reason, hint=installation.hint)
    account = find_account(uid, gid)
    if isinstance(account, MissingPart):
        raise ContainersUnavailable(account.reason, hint=account.hint)
    return AccountPodman(installation, account)
