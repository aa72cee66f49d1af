"""Errors of lost races (HTTP 409, 412), of a pool that cannot work (503, 507), and inside it."""

from __future__ import annotations

from gpupool.base.errors.requests import GpupoolError


class WriteConflict(GpupoolError, code="GP-4000", title="Conflict", exit_code=6):
    """Conflict."""


class StaleGeneration(WriteConflict, code="GP-4001", title="Stale generation"):
    """Stale generation."""


class IdempotencyMismatch(
    WriteConflict, code="GP-4002", title="Idempotency key used for another request"
):
    """Idempotency key used for another request."""


class PoolAlreadyRunning(
    WriteConflict, code="GP-4003", title="A pool is already running on this state"
):
    """A pool is already running on this state."""


class EventsReset(WriteConflict, code="GP-4004", title="Not a position in this event log"):
    """`details` has the log's `last_event` and `event_epoch`."""


class CopiedPool(WriteConflict, code="GP-4005", title="State directory copied from another pool"):
    """`details` has the path of the `original`."""


class PoolHeldElsewhere(
    WriteConflict, code="GP-4006", title="Another server holds the pool's database"
):
    """Another server holds the pool's database."""


class LostLeadership(WriteConflict, code="GP-4007", title="Another server leads this pool"):
    """Another server has become the one that may write."""


class ServiceUnavailable(GpupoolError, code="GP-5000", title="Unavailable", exit_code=7):
    """Unavailable."""


class PoolNotRunning(ServiceUnavailable, code="GP-5001", title="No pool is running"):
    """No pool is running."""


class StateNewer(ServiceUnavailable, code="GP-5002", title="State directory of a newer version"):
    """State directory of a newer version."""


class StateUnusable(ServiceUnavailable, code="GP-5003", title="State directory unusable"):
    """State directory unusable."""


class DamagedRecord(StateUnusable, code="GP-5037", title="Damaged record of an allocation"):
    """What a node wrote down of an allocation is empty or torn: it is unknown how far its work
    went."""


class StoreCorrupt(ServiceUnavailable, code="GP-5004", title="Database corrupt"):
    """Database corrupt."""


class StoreBusy(ServiceUnavailable, code="GP-5005", title="Database locked"):
    """Database locked."""


class DiskFull(ServiceUnavailable, code="GP-5006", title="Disk full"):
    """Disk full."""


class PortTaken(ServiceUnavailable, code="GP-5007", title="Port taken"):
    """Port taken."""


class PoolLost(ServiceUnavailable, code="GP-5008", title="The pool stopped answering"):
    """The pool stopped answering."""


class NativeMissing(ServiceUnavailable, code="GP-5009", title="Native part missing"):
    """Native part missing."""


class ReplacedStore(ServiceUnavailable, code="GP-5023", title="Database removed or replaced"):
    """The files of a running pool's database were removed or replaced."""


class TooManyConnections(
    ServiceUnavailable, code="GP-5032", title="Too many connections of one caller"
):
    """`details` has `open`, `most` and `retry_after_seconds`."""


class PoolFull(ServiceUnavailable, code="GP-5033", title="The pool has no connection left"):
    """`details` has `open`, `most` and `retry_after_seconds`."""


class TooManyRequests(
    ServiceUnavailable, code="GP-5034", title="Too many requests of one user at a time"
):
    """`details` has `open`, `most` and `retry_after_seconds`."""


class TooManyLogins(
    ServiceUnavailable, code="GP-3062", title="Too many failed logins from one address"
):
    """`details` has `failures` and `retry_after_seconds`."""


class BackupUnusable(ServiceUnavailable, code="GP-5024", title="Not a backup that can be restored"):
    """Not a backup that can be restored."""


class StandbyServer(ServiceUnavailable, code="GP-5035", title="This server does not lead"):
    """This server does not lead; nothing was done. `details` has the `leader`'s address, where one
    is known."""


class ExpiredLease(
    ServiceUnavailable, code="GP-5036", title="The leader's lease expired before it answered"
):
    """The lease ended while a request was carried out: its effect is unknown, as if the answer had
    been lost."""


class VmUnreachable(ServiceUnavailable, code="GP-5045", title="A virtual machine does not answer"):
    """A virtual machine does not answer."""


class ProbeSuspended(
    ServiceUnavailable, code="GP-5011", title="Cards are not read while a step needs their driver"
):
    """A step needs the driver of the cards closed. What was known of them holds."""


class CudaCallFailure(GpupoolError, code="GP-5010", title="The CUDA driver refused a call"):
    """`details` has the `function` and its `result`, a CUresult."""


class InternalError(GpupoolError, code="GP-5900", title="Internal error"):
    """Internal error."""
