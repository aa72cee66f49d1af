"""Every error gpupool can answer with, each class with one stable public code.

The tree comes first: a kind says what sort of answer it is, a leaf says which one.

    GpupoolError
      BadInput        what was asked makes no sense            (HTTP 400/422)
      Refused         it makes sense and the answer is no      (HTTP 409)
      NotLoggedIn / NotAllowed / NotFound                      (401, 403, 404)
      Conflict        another write came first                 (409/412)
      Unavailable     the pool, its store or its disk cannot   (503/507)

A message says what happened, with the numbers; `hint` says what to type next. Only
`server.problems` turns these into HTTP, only `cli.output` into terminal text.
Expected outcomes inside the scheduler are values (`model.claim.Rejection`), not errors.
"""

from __future__ import annotations

TYPE_CHECKING = False  # every command imports this module: typing is for type checkers only
if TYPE_CHECKING:
    from typing import Any, ClassVar


class GpupoolError(Exception):
    """An answer with a stable code. `details` holds the numbers for programs, JSON-ready."""

    code: ClassVar[str] = "GP-5900"
    title: ClassVar[str] = "Internal error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f"\n  {self.hint}" if self.hint else "")


class BadInput(GpupoolError):
    code, title, exit_code = "GP-1000", "Bad input", 2


class BadQuantity(BadInput):
    code, title = "GP-1001", "Bad memory quantity"


class BadFraction(BadInput):
    code, title = "GP-1002", "Bad share of a card"


class BadName(BadInput):
    code, title = "GP-1003", "Bad name"


class BadDuration(BadInput):
    code, title = "GP-1004", "Bad duration or time"


class BadOption(BadInput):
    code, title = "GP-1005", "Bad option"


class CommandNotFound(BadInput):
    code, title, exit_code = "GP-1006", "Command not found", 127


class BadMachine(BadInput):
    code, title = "GP-1007", "Bad machine description"


class InvalidBody(BadInput):
    code, title = "GP-1010", "Invalid request"


class BodyTooLarge(BadInput):
    code, title = "GP-1011", "Request too large"


class UnknownModel(BadInput):
    code, title = "GP-1020", "Unknown card model"


class UnknownPolicy(BadInput):
    code, title = "GP-1021", "Unknown placement policy"


class UnknownProfile(BadInput):
    code, title = "GP-1022", "Unknown partition profile"


class BadTrace(BadInput):
    """`details` has the `line` and the `column`, where it is one cell."""

    code, title = "GP-1030", "Bad trace"


class BadManifest(BadInput):
    """`details` has the `path` of keys and indices to the place, where it is one."""

    code, title = "GP-1040", "Bad manifest"


class ForeignValue(BadManifest):
    code, title = "GP-1041", "A value that its system does not allow"


class Contradiction(BadManifest):
    code, title = "GP-1042", "Words that contradict each other"


class UnknownWord(BadManifest):
    code, title = "GP-1043", "A word that no known system has"


class FactMissing(BadManifest):
    """`details` has the `fact`: its name in a file of node facts."""

    code, title = "GP-1044", "Means something only with a fact about the node"


class Refused(GpupoolError):
    code, title, exit_code = "GP-2000", "Refused", 3


class LargerThanAnyCard(Refused):
    code, title = "GP-2001", "Larger than any card"


class QuotaExceeded(Refused):
    code, title = "GP-2002", "Beyond the tenant's quota"


class GuaranteedToOthers(Refused):
    """Nothing that ends would let the claim start: what it needs is guaranteed to other tenants, or kept by them."""

    code, title = "GP-2048", "Guaranteed to others"


class NoRoomNow(Refused):
    code, title = "GP-2003", "No room now"


class TooManyCards(Refused):
    code, title = "GP-2004", "More cards than any node has"


class NoUnixUser(Refused):
    code, title = "GP-2005", "No Unix user to run as"


class NameTaken(Refused):
    code, title = "GP-2006", "Name taken"


class WrongState(Refused):
    code, title = "GP-2007", "Not in a state that allows this"


class StillInUse(Refused):
    code, title = "GP-2008", "Still in use"


class TooMuchPending(Refused):
    """`details` has what waits, what was asked for and the limit."""

    code, title = "GP-2044", "Too much is waiting"


class NotOneJob(Refused):
    """`details` has the array's id and its number of jobs."""

    code, title = "GP-2045", "An array is many jobs"


class GangTooLarge(Refused):
    code, title = "GP-2015", "A gang or a topology that this pool could never start"


class NotExpressible(Refused):
    code, title = "GP-2016", "Nothing here keeps that promise"


class PodRefused(Refused):
    code, title = "GP-2017", "A pod that cannot have a share"


class ImageRefused(Refused):
    """Said by a program on the node (native/hook)."""

    code, title = "GP-2018", "An image in which a share cannot be fenced"


class UnknownProject(Refused):
    """`details` has the tenant's `projects`."""

    code, title = "GP-2052", "Unknown project"


class AccountIsAUser(Refused):
    code, title = "GP-2053", "A Unix account that is another user already"


class ApiRefused(Refused):
    """`details` has the server's own `status` and `reason` (404 NotFound, 409 Conflict, 422 Invalid)."""

    code, title = "GP-2030", "The cluster's API server refused"

    @property
    def gone(self) -> bool:
        return bool(self.details.get("status") == 404)

    @property
    def conflict(self) -> bool:
        """Another client wrote first; a JSON patch whose `test` fails is answered with 422 Invalid."""
        status = self.details.get("status")
        return status == 409 or (status == 422 and "the server rejected our request" in self.message)


class WrittenByGpupoolAlone(Refused):
    code, title = "GP-2031", "Written by gpupool alone"


class PastAdmission(Refused):
    code, title = "GP-2032", "A pod that did not go through admission"


class CardNotReady(Refused):
    code, title = "GP-2033", "A container waits for its card"


class LedgerIncomplete(Refused):
    code, title = "GP-2036", "Pods hold cards that the ledger does not know of"


class LedgerInUse(Refused):
    """Said by the API server, by a policy."""

    code, title = "GP-2037", "A ledger that holds cards"


class HistoryTooShort(Refused):
    """What a pool has written down says too little for advice, or more than can be looked at."""

    code, title = "GP-2038", "History too short"


class DeviceClaimUnread(Refused):
    """A claim of Dynamic Resource Allocation, for which there is no driver here."""

    code, title = "GP-2034", "A resource claim that gpupool cannot serve"


class KindUnread(Refused):
    """An object asks for cards at a place where gpupool does not read pods."""

    code, title = "GP-2035", "An object whose pods gpupool cannot read"


class QuotaTreeRefused(Refused):
    """`details` has the `node` whose limits do not fit, and the numbers."""

    code, title = "GP-2014", "The quota tree would not add up"


class NotLoggedIn(GpupoolError):
    code, title, exit_code = "GP-3001", "Not logged in", 4


class NotAllowed(GpupoolError):
    code, title, exit_code = "GP-3002", "Not allowed", 4


class NotFound(GpupoolError):
    code, title, exit_code = "GP-3003", "Not found", 5


class UnknownTenant(NotFound):
    code, title = "GP-3004", "Unknown tenant"


class TokenMayNotMint(NotAllowed):
    code, title = "GP-3010", "A token that may not make tokens"


class TokenOfAnAccount(NotAllowed):
    code, title = "GP-3011", "A token that would run code as another user's Unix account"


class OutputIsPrivate(NotAllowed):
    code, title = "GP-3012", "A job's output belongs to its user"


class UnknownCohort(NotFound):
    code, title = "GP-3009", "Unknown cohort"


class RouteNotFound(NotFound):
    code, title = "GP-3005", "No such route"


class MethodNotAllowed(BadInput):
    code, title = "GP-3006", "Method not allowed"


class Conflict(GpupoolError):
    code, title, exit_code = "GP-4000", "Conflict", 6


class StaleGeneration(Conflict):
    code, title = "GP-4001", "Stale generation"


class IdempotencyMismatch(Conflict):
    code, title = "GP-4002", "Idempotency key used for another request"


class PoolAlreadyRunning(Conflict):
    code, title = "GP-4003", "A pool is already running on this state"


class EventsReset(Conflict):
    """`details` has the log's `last_event` and `event_epoch`."""

    code, title = "GP-4004", "Not a position in this event log"


class PoolCopied(Conflict):
    """`details` has the path of the `original`."""

    code, title = "GP-4005", "State directory copied from another pool"


class PoolHeldElsewhere(Conflict):
    code, title = "GP-4006", "Another server holds the pool's database"


class Deposed(Conflict):
    """Another server has become the one that may write."""

    code, title = "GP-4007", "Another server leads this pool"


class Unavailable(GpupoolError):
    code, title, exit_code = "GP-5000", "Unavailable", 7


class PoolNotRunning(Unavailable):
    code, title = "GP-5001", "No pool is running"


class StateNewer(Unavailable):
    code, title = "GP-5002", "State directory of a newer version"


class StateUnusable(Unavailable):
    code, title = "GP-5003", "State directory unusable"


class RecordDamaged(StateUnusable):
    """What a node wrote down of an allocation is empty or torn: it is unknown how far its work went."""

    code, title = "GP-5037", "Damaged record of an allocation"


class StoreCorrupt(Unavailable):
    code, title = "GP-5004", "Database corrupt"


class StoreBusy(Unavailable):
    code, title = "GP-5005", "Database locked"


class DiskFull(Unavailable):
    code, title = "GP-5006", "Disk full"


class PortTaken(Unavailable):
    code, title = "GP-5007", "Port taken"


class PoolLost(Unavailable):
    code, title = "GP-5008", "The pool stopped answering"


class NativeMissing(Unavailable):
    code, title = "GP-5009", "Native part missing"


class StoreReplaced(Unavailable):
    """The files of a running pool's database were removed or replaced."""

    code, title = "GP-5023", "Database removed or replaced"


class TooManyConnections(Unavailable):
    """`details` has `open`, `most` and `retry_after_seconds`."""

    code, title = "GP-5032", "Too many connections of one caller"


class PoolFull(Unavailable):
    """`details` has `open`, `most` and `retry_after_seconds`."""

    code, title = "GP-5033", "The pool has no connection left"


class TooManyRequests(Unavailable):
    """`details` has `open`, `most` and `retry_after_seconds`."""

    code, title = "GP-5034", "Too many requests of one user at a time"


class BackupUnusable(Unavailable):
    code, title = "GP-5024", "Not a backup that can be restored"


class Standby(Unavailable):
    """This server does not lead; nothing was done. `details` has the `leader`'s address, where one is known."""

    code, title = "GP-5035", "This server does not lead"


class LeaseExpired(Unavailable):
    """The lease ended while a request was carried out: its effect is unknown, as if the answer had been lost."""

    code, title = "GP-5036", "The leader's lease expired before it answered"


class CudaRefused(GpupoolError):
    """`details` has the `function` and its `result`, a CUresult."""

    code, title = "GP-5010", "The CUDA driver refused a call"


class Internal(GpupoolError):
    code, title = "GP-5900", "Internal error"


def catalogue() -> dict[str, type[GpupoolError]]:
    """Every public code with its class, the tree walked; codes are unique (a test says so)."""
    found: dict[str, type[GpupoolError]] = {}
    queue: list[type[GpupoolError]] = [GpupoolError]
    while queue:
        cls = queue.pop(0)
        queue.extend(cls.__subclasses__())
        if cls is not GpupoolError:
            found[cls.code] = cls
    return dict(sorted(found.items()))


def from_code(code: str, message: str, hint: str = "", **details: Any) -> GpupoolError:
    """The error that a server's answer names; an unknown code (a newer server) keeps its text."""
    cls = catalogue().get(code)
    if cls is not None:
        return cls(message, hint=hint, **details)
    error = GpupoolError(message, hint=hint, **details)
    error.code = code  # type: ignore[misc]  # an instance may carry a newer server's code
    return error
