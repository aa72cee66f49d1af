"""What holds for users that are programs: they belong to one tenant and log in by tokens that end."""

from __future__ import annotations

from typing import Final

from gpupool.base.errors import BadOption
from gpupool.base.units import format_duration

#: A program's token is renewed at least once a year.
LONGEST_SERVICE_SECONDS: Final = 365 * 86400
#: Roles inside a tenant, and those of the pool's own programs.
SERVICE_ROLES: Final = frozenset(
    {"tenant-admin", "user", "viewer", "agent", "scrape", "meter", "scim"}
)


def check_service_account(name: str, kind: str, role: str, unix_uid: int | None) -> None:
    """Refuse a service account with a role of the whole pool or a Unix account on the socket.

    Raises:
        BadOption: it has one.
    """
    if kind != "service":
        return
    if role not in SERVICE_ROLES:
        raise BadOption(
            f"{name} is a service account, which belongs to one tenant: it cannot have the role "
            f"{role}",
            hint=f"give one of {', '.join(sorted(SERVICE_ROLES))}",
        )
    if unix_uid is not None:
        raise BadOption(
            f"{name} is a service account, which logs in by tokens alone: no Unix account is it",
            hint="leave --unix-user out; --run-as says which account its jobs run as",
        )


def bound_service_token(kind: str, seconds: int | None) -> int | None:
    """Return how long a token of a user of this kind lives; a program's at most 365 days.

    Raises:
        BadOption: longer was asked for.
    """
    if kind != "service":
        return seconds
    if seconds is not None and seconds > LONGEST_SERVICE_SECONDS:
        raise BadOption(
            f"the token of a service account lives at most 365 days, not {format_duration(seconds)}",
            hint="--expires 365d, and make the next one in time",
            most_seconds=LONGEST_SERVICE_SECONDS,
        )
    return LONGEST_SERVICE_SECONDS if seconds is None else seconds
