"""A long history of jobs, written straight into the tables: lists are measured over it."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.allocations.store.tables import claims, jobs
from gpupool.tenancy.tables import projects, tenants, users

#: Users and tenants of the history; each user is of the tenant with its number modulo these.
USERS = 12
TENANTS = 4
#: Nanoseconds of the first submission, and between two.
FIRST_NS = 1_790_000_000 * 10**9
STEP_NS = 10**9
#: Of so many jobs one has failed, and one runs an image.
EVERY_FAILED = 50
EVERY_IMAGE = 500
_AT_ONCE = 5000


def fill_history(connection: sa.Connection, count: int) -> None:
    """Write so many jobs of `team-N` and `person-N`: ended ones, of which the last ten run."""
    now = {"created_ns": FIRST_NS}
    tenant_ids = list[int]()
    project_ids = list[int]()
    for number in range(TENANTS):
        tenant_ids.append(_insert(connection, tenants, name=f"team-{number}", **now))
        row = {"tenant_id": tenant_ids[-1], "name": "default", **now}
        project_ids.append(_insert(connection, projects, **row))
    user_ids = list[int]()
    for number in range(USERS):
        row = {"tenant_id": tenant_ids[number % TENANTS], "role": "user", **now}
        user_ids.append(_insert(connection, users, name=f"person-{number}", **row))
    claim_ids = dict[tuple[int, bool], int]()
    for number in range(USERS):
        for has_image in (False, True):
            claim = {
                "public_id": f"c-{number}-{int(has_image)}",
                "tenant_id": tenant_ids[number % TENANTS],
                "project_id": project_ids[number % TENANTS],
                "user_id": user_ids[number],
                "gpu_milli": 100 + number,
                "cards": 1,
                "labels": {},
                "sharing": "fixed",
                "priority": 0,
                "submitted_ns": FIRST_NS,
                "image": "registry.example/Llama:3" if has_image else None,
            }
            claim_ids[number, has_image] = _insert(connection, claims, **claim)
    for first in range(0, count, _AT_ONCE):
        rows = []
        for number in range(first, min(first + _AT_ONCE, count)):
            person = number % USERS
            at_ns = FIRST_NS + number * STEP_NS
            is_running = number >= count - 10
            rows.append(
                {
                    "public_id": f"j-{number:08d}",
                    "claim_id": claim_ids[person, number % EVERY_IMAGE == 7],
                    "tenant_id": tenant_ids[person % TENANTS],
                    "project_id": project_ids[person % TENANTS],
                    "user_id": user_ids[person],
                    "name": f"train-{number * 7919 % 1_000_003:07d}",
                    "state": "running"
                    if is_running
                    else "failed"
                    if number % EVERY_FAILED == 3
                    else "done",
                    "attached": False,
                    "command": ["true"],
                    "submitted_ns": at_ns,
                    "started_ns": at_ns + 5,
                    "ended_ns": None if is_running else at_ns + 30 * STEP_NS,
                    "total_milli": 100 + number * 31 % 900,
                }
            )
        connection.execute(sa.insert(jobs), rows)


def _insert(connection: sa.Connection, table: sa.Table, **values: object) -> int:
    key = connection.execute(sa.insert(table).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])
