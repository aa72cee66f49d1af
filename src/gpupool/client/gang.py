"""What `--gang` and `--gang-file` add to a submission: roles, groups, and how near together they
must be."""

from __future__ import annotations

from gpupool.base.errors import BadOption
from gpupool.client.submission import whole_number
from gpupool.model.gang import MEMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Members of a gang, as `wire.submissions.RoleIn` bounds them.
MOST = 10_000
#: Levels that can only be about the cards of one member.
INSIDE_A_NODE = ("nvlink", "nvswitch", "pcie-switch", "host-bridge", "numa")


def gang_body(
    count: str | int | None,
    minimum: str | int | None,
    file: str | None,
    within: dict[str, str] | None,
    *,
    array: bool,
    attached: bool,
) -> dict[str, Any]:
    """The parts of POST /jobs that describe a gang. Raises BadOption, BadInput's classes for the
    file."""
    if array or attached:
        raise BadOption(
            "a gang is neither an array nor attached to a terminal",
            hint="use  gpupool submit --gang N",
        )
    if file is not None:
        if count is not None or minimum is not None or within is not None:
            raise BadOption(
                "--gang-file says how many and how near by itself",
                hint="leave out the other gang options",
            )
        from gpupool.client.gang_file import read_gang

        return read_gang(file)
    if count is None:
        raise BadOption("--gang-min without --gang", hint="write --gang 8 --gang-min 4")
    members = whole_number(count, "--gang", "a number of members", MOST)
    role: dict[str, Any] = {"name": MEMBER, "count": members}
    if minimum is not None:
        role["minimum"] = whole_number(minimum, "--gang-min", "a number of members", members)
    group: dict[str, Any] = {"name": "gang", "parts": [role]}
    if within is None:
        return {"gang": group}
    if set(within.values()) & set(INSIDE_A_NODE):
        raise BadOption(
            f"--topology {next(iter(within.values()))} is inside a node, a gang's members are on many",
            hint="name it for one role in a --gang-file, or ask for node, rack, ...",
        )
    return {"gang": group | {"within": within}}
