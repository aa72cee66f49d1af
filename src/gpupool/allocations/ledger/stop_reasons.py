"""Reasons in `jobs.stop_requested`: their texts, and which of them requeue the job."""

from __future__ import annotations

from gpupool.model.deadlines import START_SECONDS

#: The reason of a stop by the search for overdue jobs; it writes an event of its own.
OVERDUE = "overdue"

#: The reason of an end because a dependency can no longer be met.
DEPENDENCY = "dependency"

#: The reason of an end because the job's service needs fewer replicas, or another one.
SERVICE = "service"

#: What `jobs.reason` says, by the value of `jobs.stop_requested`. The values are stored: one that a
#: release no longer writes must stay readable.
STOP_REASONS = {
    "user": "stopped by its user",
    "admin": "stopped by an administrator",
    OVERDUE: f"its node did not start it within {START_SECONDS} s",
    "lease": "its client went away and did not come back in time",
    "down": "stopped with the pool",
    "gang": "its gang ended with another member",
    "launcher": "its gang's launcher is done",
    "preempted": "preempted for a claim of higher priority",
    "recovered": "its card or node is not well",
    "moved": "moved to other cards",
    "regrouped": "another member of its gang has to wait again",
    "shrunk": "preempted; its gang goes on without it",
    "idle": "stopped by its idle policy: its share was not used",
    "budget": "its budget is spent, and it is preemptible",
    DEPENDENCY: "a job that it waits for did not end as asked for",
    SERVICE: "stopped by its service",
}

#: Reasons of a stop after which the job waits again.
REQUEUE_REASONS = frozenset({"preempted", "recovered", "regrouped", "moved", "shrunk", "budget"})

#: Reasons that are requested of all members of a gang at once, or of one that the others can do
#: without. A move concerns one member alone, so the others have to be stopped for it.
GANG_REQUEUE_REASONS = REQUEUE_REASONS - {"moved"}

#: Restarts of a job that was lost and asked for it. A job that kills its supervisor each time would
#: otherwise be restarted for ever.
MAX_RESTARTS_AFTER_LOSS = 3

#: Seconds between SIGTERM and SIGKILL of a job that is requeued, to save its work.
PREEMPTION_GRACE_SECONDS = 30

#: Seconds between SIGTERM and SIGKILL of a stop that names none, as in `wire.fleet.WorkOut`.
USUAL_GRACE_SECONDS = 10
