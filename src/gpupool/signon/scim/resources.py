"""Between rows and resources of `scim2-models`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.signon.scim.library import build_policy, load_scim

Row = Any
#: Attributes that a row has columns for, or that the pool makes. Passwords are not kept.
_OWN: Final = frozenset(
    {"schemas", "id", "externalId", "userName", "active", "meta", "groups", "password"}
)


def build_user(row: Row, groups: Sequence[Row], base: str) -> Any:
    """Build the User of a person's row."""
    scim = load_scim()
    user = scim.User.model_validate(
        {**row.body, "schemas": [str(scim.User.__schema__)], "userName": row.user_name},
        scim_policy=build_policy(),
    )
    user.id = row.public_id
    user.external_id = row.external_id
    user.active = row.active
    user.groups = [
        scim.GroupMembership(
            value=group.public_id,
            display=group.display_name,
            ref=f"{base}/Groups/{group.public_id}",
        )
        for group in groups
    ] or None
    user.meta = _build_meta("User", row, f"{base}/Users/{row.public_id}")
    return user


def build_group(row: Row, members: Sequence[Row], base: str) -> Any:
    """Build the Group of a group's row."""
    scim = load_scim()
    group = scim.Group(id=row.public_id, external_id=row.external_id, display_name=row.display_name)
    group.members = [
        scim.GroupMember(
            value=one.public_id,
            display=one.user_name,
            type="User",
            ref=f"{base}/Users/{one.public_id}",
        )
        for one in members
    ] or None
    group.meta = _build_meta("Group", row, f"{base}/Groups/{row.public_id}")
    return group


def read_user_columns(user: Any) -> dict[str, Any]:
    """Read what a row keeps of a User.

    Raises the library's InvalidValueException where a name is too long.
    """
    name = _require_text(user.user_name, "userName")
    kept = user.model_dump(scim_ctx=load_scim().Context.DEFAULT, mode="json")
    return {
        "user_name": name,
        "name_key": name.lower(),
        "external_id": _read_external_id(user),
        "active": user.active is not False,
        "body": {key: value for key, value in kept.items() if key not in _OWN},
    }


def read_group_columns(group: Any) -> dict[str, Any]:
    """Read what a row keeps of a Group, without its members."""
    name = _require_text(group.display_name, "displayName")
    return {"display_name": name, "external_id": _read_external_id(group)}


def list_member_ids(group: Any) -> list[str]:
    """List the persons that a Group names."""
    return [str(member.value) for member in group.members or () if member.value]


def dump_resource(resource: Any, context: Any, parameters: Any = None) -> Mapping[str, Any]:
    """Return the JSON of a resource in an answer."""
    dumped: Mapping[str, Any] = resource.model_dump(
        scim_ctx=context, response_parameters=parameters, mode="json"
    )
    return dumped


def _require_text(text: str | None, attribute: str) -> str:
    if not text or len(text) > 255:
        detail = f"{attribute} has {len(text or '')} characters, expected 1 to 255"
        raise load_scim().InvalidValueException(detail=detail)
    return text


def _read_external_id(resource: Any) -> str | None:
    found = resource.external_id
    return None if not found else _require_text(found, "externalId")


def _build_meta(kind: str, row: Row, location: str) -> Any:
    return load_scim().Meta(
        resource_type=kind,
        created=datetime.fromtimestamp(row.created_ns // NANOS_PER_SECOND, UTC),
        last_modified=datetime.fromtimestamp(row.changed_ns // NANOS_PER_SECOND, UTC),
        location=location,
    )
