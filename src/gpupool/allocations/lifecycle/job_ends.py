"""How a job ended: its last state and the reason, from the report of its node."""

from __future__ import annotations

import signal as signals

from gpupool.allocations.ledger.stop_reasons import REQUEUE_REASONS, STOP_REASONS
from gpupool.model.job import JobState
from gpupool.wire.fleet import ReportIn


def judge_end(stop_requested: str | None, report: ReportIn) -> tuple[JobState, str]:
    """Return a job's last state and its reason from the report of its end.

    Args:
        stop_requested: Why its end was requested; None if its command ended by itself.
        report: The report of the node.
    """
    if stop_requested is not None:
        # A stored reason that this release does not know is shown as it is.
        return JobState.STOPPED, STOP_REASONS.get(stop_requested, stop_requested)
    if report.state == "lost":
        reason = report.reason or "its supervisor died; how the command ended is unknown"
        return JobState.LOST, reason
    if report.reason == "interrupted":
        return JobState.STOPPED, "interrupted (Ctrl-C, twice)"
    if report.reason and report.reason not in ("exited", "signalled"):
        known = {"max_time": "ran longer than its --max-time", "stopped": "stopped on its node"}
        return JobState.FAILED, known.get(report.reason, report.reason)
    if report.signal is not None:
        name = _name_signal(report.signal)
        # SIGINT is the user's Ctrl-C, SIGHUP a terminal that was closed: neither is a failure.
        if report.signal in (signals.SIGINT, signals.SIGHUP):
            return JobState.STOPPED, f"interrupted ({name})"
        return JobState.FAILED, f"killed by {name}"
    if report.exit_code == 0:
        return JobState.DONE, ""
    if report.exit_code is None:
        return JobState.FAILED, "ended"
    return JobState.FAILED, f"exit code {report.exit_code}"


def is_own_end(stop_requested: str | None, report: ReportIn) -> bool:
    """Return whether the command ended by itself, although its end was requested."""
    if stop_requested in REQUEUE_REASONS:
        return not is_stopped(report)
    return report.state == "ended" and report.reason in ("exited", "signalled")


def is_stopped(report: ReportIn) -> bool:
    """Return whether the command ended because its end was requested, not by itself before that."""
    return report.state != "ended" or report.reason == "stopped"


def _name_signal(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        # Real-time signals between SIGRTMIN and SIGRTMAX have no name.
        return f"signal {number}"
