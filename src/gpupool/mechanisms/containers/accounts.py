"""Finds the Unix account of a container and its subordinate ids (subuid(5), subgid(5)).

A user namespace needs them: the container's root is the account itself, and every other user of the
image is one of the subordinate ids. The same holds for root, whose containers have no capability on
the host (decision 0063).
"""

from __future__ import annotations

import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Ids that images expect: 0 to 65535, of which 0 is the account.
USUAL_COUNT: Final = 65_536
#: Fewer than these, and `nobody` or the users of a distribution's packages are missing.
LEAST_COUNT: Final = 1_000


@dataclass(frozen=True)
class IdRange:
    """Consecutive user or group ids of the host."""

    first: int
    count: int


@dataclass(frozen=True)
class ContainerAccount:
    """The account under which Podman runs."""

    name: str
    uid: int
    gid: int
    home: str
    user_ids: IdRange
    group_ids: IdRange


@dataclass(frozen=True)
class MissingPart:
    """Why containers cannot run here, and what to type next."""

    reason: str
    hint: str


def parse_subordinate_ids(text: str, name: str, uid: int) -> IdRange | None:
    """Return the account's first range; None where it has none of a usable size.

    Args:
        text: The content of /etc/subuid or /etc/subgid.
        name: The account's name; a line may also have its number.
        uid: The account's number.
    """
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) != 3 or fields[0] not in (name, str(uid)):
            continue
        if fields[1].isdecimal() and fields[2].isdecimal() and int(fields[2]) >= LEAST_COUNT:
            return IdRange(int(fields[1]), min(int(fields[2]), USUAL_COUNT))
    return None


def find_account(uid: int, gid: int, etc: Path = Path("/etc")) -> ContainerAccount | MissingPart:
    """Find an account with its subordinate ids, or what it lacks."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return MissingPart(f"uid {uid} has no account on this node", "useradd -m NAME")
    users = parse_subordinate_ids(_read_text(etc / "subuid"), entry.pw_name, uid)
    groups = parse_subordinate_ids(_read_text(etc / "subgid"), entry.pw_name, uid)
    if users is None or groups is None:
        lacking = "subuid" if users is None else "subgid"
        return MissingPart(
            f"account {entry.pw_name} has no {LEAST_COUNT} subordinate ids in {etc}/{lacking}",
            _describe_addition(etc, entry.pw_name),
        )
    return ContainerAccount(entry.pw_name, uid, gid, entry.pw_dir, users, groups)


def find_free_id(text: str) -> int:
    """Return the first id above every range in /etc/subuid or /etc/subgid."""
    free = 100_000
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].isdecimal():
            free = max(free, int(fields[1]) + int(fields[2]))
    return free


def _describe_addition(etc: Path, name: str) -> str:
    first = max(find_free_id(_read_text(etc / file)) for file in ("subuid", "subgid"))
    last = first + USUAL_COUNT - 1
    return f"usermod --add-subuids {first}-{last} --add-subgids {first}-{last} {name}"


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
