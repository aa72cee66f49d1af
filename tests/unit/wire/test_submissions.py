"""Bodies of a submission: what no node could start is refused before it is accepted."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gpupool.model.launch import LARGEST_LAUNCH
from gpupool.wire.submissions import GroupIn, JobIn, LaunchIn, RoleIn

JOB: dict[str, Any] = {"shape": {"gpu_milli": 300}, "launch": {"argv": ["train"]}}
#: Thirty of them fit into one description, and thirty more do not.
LONG = "x" * (LARGEST_LAUNCH // 31)


def job(**more: Any) -> JobIn:
    return JobIn.model_validate({**JOB, **more})


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("argv", ["a\0b"], "NUL character"),
        ("argv", [], "at least 1 item"),
        ("cwd", "relative", "expected an absolute path"),
        ("env", {"A=B": "x"}, "a name without '='"),
        ("limits", {"nofiles": (1, 1)}, "unknown limit 'nofiles'"),
        ("limits", {"nofile": (2, 1)}, "soft 2 above hard 1"),
        ("umask", 0o1000, "less than or equal to 511"),
    ],
)
def test_launch_that_no_node_could_start_is_refused(field: str, value: object, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        LaunchIn.model_validate({"argv": ["train"], field: value})


def test_launch_that_fits_no_description_is_refused() -> None:
    LaunchIn(argv=[LONG] * 30)
    with pytest.raises(ValidationError, match="command and environment: got"):
        LaunchIn(argv=[LONG] * 20, env={f"A{number}": LONG for number in range(20)})


def test_role_has_its_own_command_beside_the_jobs_environment() -> None:
    launch = {"argv": ["train"], "env": {f"A{number}": LONG for number in range(20)}}
    gang = {"name": "all", "parts": [{"name": "w", "count": 1, "argv": [LONG] * 20}]}
    job(launch=launch)
    job(gang=gang)
    with pytest.raises(ValidationError, match="command and environment: got"):
        job(launch=launch, gang=gang)


def test_roles_of_nested_groups_come_in_order() -> None:
    inner = GroupIn(name="rack", parts=[RoleIn(name="b", count=1), RoleIn(name="c", count=2)])
    outer = GroupIn(name="all", parts=[RoleIn(name="a", count=1), inner, RoleIn(name="d", count=1)])
    assert [role.name for role in outer.roles()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_seconds", 0),
        ("max_seconds", 10 * 366 * 86400 + 1),
        ("array", 0),
        ("array", 1_000_001),
        ("gang", {"name": "g", "parts": []}),
        ("gang", {"name": "g", "parts": [{"name": "w", "count": 10_001}]}),
        ("colour", "red"),
    ],
)
def test_job_beyond_its_bounds_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        job(**{field: value})
