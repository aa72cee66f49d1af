"""Reads work of a server that may be newer than the agent: what it cannot honour it refuses.

A field that this version does not know may be a limit or an isolation. Without it a job would have
more than it may. So only the part that has such a field is refused, with the field's name; the rest
of the page goes on, and whatever is to end ends (ADR 0096).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from gpupool.agent.jobs.finish import NOT_EXECUTABLE
from gpupool.agent.jobs.local_allocation import make_report
from gpupool.wire.answers import Path, format_path, read_demanding_answer
from gpupool.wire.fleet import ReportIn, WorkOut, WorkPage
from gpupool.wire.modes import ModeReport, ModeWork
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork

#: Characters of a reason at most (`NetworkEngineReport.reason`).
_REASON_LENGTH = 400

log = logging.getLogger(__name__)


class WorkReports(Protocol):
    """Where reports go; no call blocks."""

    def put(self, report: ReportIn) -> None: ...

    def put_modes(self, reports: Sequence[ModeReport]) -> None: ...

    def put_network(self, report: NetworkEngineReport) -> None: ...


class WorkReader:
    """Reads the pages of one agent, in one thread; `put_network` is called by any."""

    def __init__(self, reports: WorkReports) -> None:
        self._reports = reports
        #: Why the engine of networks does not do its last work; empty: it does.
        self._withheld = ""

    def read_page(self, answer: Any) -> WorkPage:
        """Read a page without the parts that this agent cannot honour, which are reported.

        Raises:
            pydantic.ValidationError: a field is missing or has another type.
        """
        page, unknown = read_demanding_answer(WorkPage, answer)
        if unknown:
            names = ", ".join(sorted({format_path(path) for path in unknown}))
            log.warning("the server is newer than this agent, which does not know %s", names)
        return page.model_copy(
            update={
                "work": self._choose_jobs(page.work, unknown),
                "modes": self._choose_modes(page.modes, unknown),
                "network": self._choose_network(page.network, unknown),
            }
        )

    def put_network(self, report: NetworkEngineReport) -> None:
        """Pass on a report of the engine, which is not well while work is withheld from it."""
        withheld = self._withheld
        if withheld:
            report = report.model_copy(update={"state": "failed", "reason": withheld})
        self._reports.put_network(report)

    def _choose_jobs(self, works: Collection[WorkOut], unknown: Collection[Path]) -> list[WorkOut]:
        chosen = list[WorkOut]()
        for index, work in enumerate(works):
            reason = _explain(unknown, ("work", index))
            # A job that runs was started by an agent that knew the field, and must also end.
            if not reason or work.want != "run" or work.started:
                chosen.append(work)
                continue
            log.warning("job %s cannot run: %s", work.job, reason)
            # An end, since a job that was only not started would be placed here again at once.
            facts = {"reason": reason, "exit_code": NOT_EXECUTABLE}
            self._reports.put(make_report(work.allocation, work.generation, "ended", **facts))
        return chosen

    def _choose_modes(
        self, works: Collection[ModeWork], unknown: Collection[Path]
    ) -> list[ModeWork]:
        chosen = list[ModeWork]()
        for index, work in enumerate(works):
            reason = _explain(unknown, ("modes", index))
            if not reason:
                chosen.append(work)
                continue
            report = ModeReport(uuid=work.uuid, mode=work.mode, state="failed", reason=reason)
            self._reports.put_modes([report])
        return chosen

    def _choose_network(
        self, work: NetworkEngineWork | None, unknown: Collection[Path]
    ) -> NetworkEngineWork | None:
        if work is None:
            return None
        self._withheld = _explain(unknown, ("network",)) if work.want == "run" else ""
        if not self._withheld:
            return work
        # The engine goes on with what it has; `put_network` says that this is not what is wanted.
        self.put_network(NetworkEngineReport(state="failed"))
        return None


def _explain(unknown: Collection[Path], part: Path) -> str:
    """Say which fields of a part the agent does not know; empty: it knows all of them."""
    inside = (path[len(part) :] for path in unknown if path[: len(part)] == part)
    names = sorted({format_path(path) for path in inside})
    if not names:
        return ""
    text = f"the agent of this node is older than the server and does not know {', '.join(names)}"
    return f"{text}: upgrade gpupool there"[:_REASON_LENGTH]
