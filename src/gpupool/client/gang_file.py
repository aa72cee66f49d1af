"""A gang described in a file: roles with shares and commands of their own, in groups. Errors name
the place in it.

Must not know the pool: what no pool could understand is refused here, what this one cannot give is
its own to refuse.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpupool.base.errors import BadInput, GpupoolError
from gpupool.client.submission import host_shape, parse_within, share_shape
from gpupool.client.yaml_text import BadYaml, read_documents
from gpupool.wire.common import Name


class _FilePart(BaseModel):
    # Extra keys are errors, not ignored: a misspelt `minn` would start a gang too small. YAML reads
    # `gpu: 0.5` as a number, and the parsers of amounts take text.
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


class ShareEntry(_FilePart):
    """What `--gpu`, `--memory` and their like say."""

    gpu: str | None = None
    memory: str | None = None
    count: int | None = Field(None, ge=1, le=100_000)
    profile: str | None = None
    model: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    sharing: str | None = None
    cpus: str | None = None
    host_memory: str | None = None
    topology: str | None = Field(None, description="of the cards of one member: nvlink, numa, ...")


class RoleEntry(_FilePart):
    name: Name
    members: int = Field(1, ge=1, le=10_000)
    min: int | None = Field(None, ge=1, le=10_000)
    launcher: bool = False
    share: ShareEntry | None = None
    command: str | list[str] | None = None


class GroupEntry(_FilePart):
    """Roles and groups; `topology` is how near together all of it must be."""

    name: Name = "gang"
    topology: str | None = None
    roles: list[RoleEntry] = Field(default_factory=list)
    groups: Annotated[list[GroupEntry], Field(max_length=1000)] = Field(default_factory=list)


def read_gang(path: str) -> dict[str, Any]:
    """The file's parts of POST /jobs. Raises BadInput with the place in the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        found = GroupEntry.model_validate(_read_one(path, text))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInput(
            f"{path} cannot be read: {why}", hint="gpupool submit --gang-file FILE"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(
            f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"]
        ).lstrip(".")
        said = "is not known here" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise BadInput(
            f"{path}: {where or 'the file'}: {said}",
            hint="docs/how-to/gangs.md shows what a file may say",
        ) from None
    body: dict[str, Any] = {"gang": _write_group(found, f"{path}: ")}
    return body if found.name == "gang" else body | {"name": found.name}


def _read_one(path: str, text: str) -> Any:
    """The value of the file's one document; None of an empty file. Raises BadInput."""
    try:
        found = [value for _, value in read_documents(text)]
    except BadYaml as error:
        where = "" if error.line is None else f", line {error.line}"
        hint = "indent with spaces; quote what holds a colon"
        raise BadInput(f"{path} is no YAML{where}: {error}", hint=hint) from None
    if len(found) > 1:
        raise BadInput(
            f"{path} has {len(found)} YAML documents, expected 1", hint="a file for each gang"
        )
    return found[0] if found else None


def _write_group(group: GroupEntry, where: str) -> dict[str, Any]:
    parts = [_write_role(role, f"{where}roles[{n}]") for n, role in enumerate(group.roles)]
    parts += [_write_group(inner, f"{where}groups[{n}].") for n, inner in enumerate(group.groups)]
    if not parts:
        raise BadInput(
            f"{where}group {group.name} has neither roles nor groups",
            hint="give it at least one role",
        )
    told: dict[str, Any] = {"name": group.name, "parts": parts}
    if group.topology is not None:
        told["within"] = _read_at(
            f"{where}topology", lambda text: parse_within(text), group.topology
        )
    return told


def _write_role(role: RoleEntry, where: str) -> dict[str, Any]:
    told: dict[str, Any] = {"name": role.name, "count": role.members, "launcher": role.launcher}
    if role.min is not None:
        if role.min > role.members:
            raise BadInput(
                f"{where}.min: {role.min} of {role.members} members", hint="min is at most members"
            )
        told["minimum"] = role.min
    if role.share is not None:
        told["shape"] = _read_at(f"{where}.share", _write_shape, role.share)
    if role.command is not None:
        told["argv"] = (
            _split_words(role.command, f"{where}.command")
            if isinstance(role.command, str)
            else role.command
        )
    return told


def _split_words(command: str, where: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        hint = "close the quotation, or write the command as a list of words"
        raise BadInput(f"{where}: {command!r} is no command: {error}", hint=hint) from None


def _write_shape(share: ShareEntry) -> dict[str, Any]:
    labels = [f"{key}={value}" for key, value in share.labels.items()]
    shape = share_shape(
        share.gpu, share.memory, share.count, share.model, labels, share.sharing, share.profile
    )
    shape |= host_shape(share.cpus, share.host_memory)
    return shape if share.topology is None else shape | {"within": parse_within(share.topology)}


def _read_at(where: str, read: Any, value: Any) -> Any:
    """What a reader says of a part of the file, with the place."""
    try:
        return read(value)
    except GpupoolError as error:
        error.message = f"{where}: {error.message}"
        raise
