"""Schedules of jobs for programs.

pool.schedules.add("nightly", "0 2 * * *", ["python", "eval.py"], gpu=1, max_time="1h")
for run in pool.schedules.runs("nightly"): ...
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpupool.client.messages import path_segment
from gpupool.client.paging import iterate_items
from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from gpupool.client.transport import Api
    from gpupool.wire.chains.schedules import ScheduleInstantsOut, ScheduleOut, ScheduleRunOut

#: From a command and the options of a share to the body of a job.
BuildJob = Callable[[str | Sequence[str], Mapping[str, Any]], dict[str, Any]]


class Schedules:
    """The schedules of a pool: iterate over those that the caller sees."""

    def __init__(self, api: Api, build_job: BuildJob) -> None:
        self._api = api
        self._build_job = build_job

    def __iter__(self) -> Iterator[ScheduleOut]:
        from gpupool.wire.chains.schedules import ScheduleOut

        for item in iterate_items(self._api, "schedules"):
            yield read_answer(ScheduleOut, item)

    def get(self, schedule: str) -> ScheduleOut:
        """Return a schedule by name or id. Raises UnknownSchedule."""
        return self._read("GET", _path(schedule))

    def add(
        self,
        name: str,
        cron: str,
        command: str | Sequence[str],
        *,
        time_zone: str = "UTC",
        overlap: str = "skip",
        deadline_seconds: int = 3600,
        **asked: Any,
    ) -> ScheduleOut:
        """Submit a command at each instant of a cron expression.

        Args:
            name: its name.
            cron: five fields, as `0 2 * * *`.
            command: as for `Pool.submit`.
            time_zone: of the tz database.
            overlap: skip, queue or replace, while the job of an earlier instant lives.
            deadline_seconds: an instant is missed if it is later than that.
            asked: options of `Pool.submit`, without `name`.
        """
        body = {
            "name": name,
            "cron": cron,
            "time_zone": time_zone,
            "overlap": overlap,
            "deadline_seconds": deadline_seconds,
            "job": self._build_job(command, asked),
        }
        return self._read("POST", "schedules", body)

    def change(
        self,
        schedule: str,
        cron: str,
        *,
        time_zone: str = "UTC",
        overlap: str = "skip",
        deadline_seconds: int = 3600,
    ) -> ScheduleOut:
        """Give a schedule other times, all of them as `add` takes them; its job stays as it is."""
        body = {
            "cron": cron,
            "time_zone": time_zone,
            "overlap": overlap,
            "deadline_seconds": deadline_seconds,
        }
        return self._read("PUT", _path(schedule), body)

    def instants(self, cron: str, *, time_zone: str = "UTC", count: int = 5) -> ScheduleInstantsOut:
        """Return the next instants of a cron expression, before a schedule has it."""
        from gpupool.wire.chains.schedules import ScheduleInstantsOut

        query = {"cron": cron, "time_zone": time_zone, "count": count}
        found = self._api.request("GET", "schedule-instants", query=query)
        return read_answer(ScheduleInstantsOut, found)

    def runs(self, schedule: str, *, limit: int = 50) -> list[ScheduleRunOut]:
        """List what became of the latest instants, the last one first."""
        from gpupool.wire.chains.schedules import ScheduleRunOut

        found = self._api.request("GET", _path(schedule, "/runs"), query={"limit": limit})
        return [read_answer(ScheduleRunOut, one) for one in found["items"]]

    def pause(self, schedule: str) -> ScheduleOut:
        """Let its instants pass. Idempotent."""
        return self._read("POST", _path(schedule, "/pause"), {})

    def resume(self, schedule: str) -> ScheduleOut:
        """Go on with the next instant. Idempotent."""
        return self._read("POST", _path(schedule, "/resume"), {})

    def run(self, schedule: str) -> ScheduleRunOut:
        """Submit its job now, whether it is paused or not."""
        from gpupool.wire.chains.schedules import ScheduleRunOut

        key = os.urandom(16).hex()
        path = _path(schedule, "/run")
        return read_answer(ScheduleRunOut, self._api.request("POST", path, {}, idempotency_key=key))

    def remove(self, schedule: str) -> None:
        """Remove it and its history; its jobs go on."""
        self._api.request("DELETE", _path(schedule))

    def _read(self, method: str, path: str, body: dict[str, Any] | None = None) -> ScheduleOut:
        from gpupool.wire.chains.schedules import ScheduleOut

        key = os.urandom(16).hex() if method == "POST" else None
        return read_answer(ScheduleOut, self._api.request(method, path, body, idempotency_key=key))


def _path(schedule: str, more: str = "") -> str:
    return f"schedules/{path_segment(schedule)}{more}"
