"""Errors of a request: not valid (400, 422), not permitted or not found (401 to 405), rejected (409)."""

from __future__ import annotations

TYPE_CHECKING = False  # every command imports this module: typing is for type checkers only
if TYPE_CHECKING:
    from typing import Any, ClassVar


class GpupoolError(Exception):
    """An answer with a stable code.

    Attributes:
        code: The public code, like "GP-1042"; unique.
        title: The error in a few words, for the reference of errors.
        exit_code: The exit code of a command that ends with it.
        message: What happened, with the numbers.
        hint: What to type next.
        details: The numbers for programs; JSON can represent them.
    """

    code: ClassVar[str] = "GP-5900"
    title: ClassVar[str] = "Internal error"
    exit_code: ClassVar[int] = 1

    def __init_subclass__(
        cls, *, code: str | None = None, title: str | None = None, exit_code: int | None = None
    ) -> None:
        """Set what a subclass declares; what it leaves out is its base's."""
        super().__init_subclass__()
        if code is not None:
            cls.code = code
        if title is not None:
            cls.title = title
        if exit_code is not None:
            cls.exit_code = exit_code

    def __init__(self, message: str, *, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f"\n  {self.hint}" if self.hint else "")


# 2 is the exit code of a wrong command line, as argparse has it.
class BadInput(GpupoolError, code="GP-1000", title="Bad input", exit_code=2):
    """Bad input."""


class BadQuantity(BadInput, code="GP-1001", title="Bad memory quantity"):
    """Bad memory quantity."""


class BadFraction(BadInput, code="GP-1002", title="Bad share of a card"):
    """Bad share of a card."""


class BadName(BadInput, code="GP-1003", title="Bad name"):
    """Bad name."""


class BadDuration(BadInput, code="GP-1004", title="Bad duration or time"):
    """Bad duration or time."""


class BadOption(BadInput, code="GP-1005", title="Bad option"):
    """Bad option."""


# 127 is what sh(1) exits with for a command that it does not find.
class CommandNotFound(BadInput, code="GP-1006", title="Command not found", exit_code=127):
    """Command not found."""


class BadMachine(BadInput, code="GP-1007", title="Bad machine description"):
    """Bad machine description."""


class InvalidBody(BadInput, code="GP-1010", title="Invalid request"):
    """Invalid request."""


class BodyTooLarge(BadInput, code="GP-1011", title="Request too large"):
    """Request too large."""


class UnknownModel(BadInput, code="GP-1020", title="Unknown card model"):
    """Unknown card model."""


class UnknownPolicy(BadInput, code="GP-1021", title="Unknown placement policy"):
    """Unknown placement policy."""


class UnknownProfile(BadInput, code="GP-1022", title="Unknown partition profile"):
    """Unknown partition profile."""


class IsolationNotOffered(BadInput, code="GP-1023", title="No card isolates as asked"):
    """No card isolates as the claim demands."""


class BadTrace(BadInput, code="GP-1030", title="Bad trace"):
    """`details` has the `line` and the `column`, where it is one cell."""


class BadManifest(BadInput, code="GP-1040", title="Bad manifest"):
    """`details` has the `path` of keys and indices to the place, where it is one."""


class ForeignValue(BadManifest, code="GP-1041", title="A value that its system does not allow"):
    """A value that its system does not allow."""


class ContradictoryManifest(BadManifest, code="GP-1042", title="Words that contradict each other"):
    """Words that contradict each other."""


class UnknownWord(BadManifest, code="GP-1043", title="A word that no known system has"):
    """A word that no known system has."""


class FactMissing(
    BadManifest, code="GP-1044", title="Means something only with a fact about the node"
):
    """`details` has the `fact`: its name in a file of node facts."""


class BadImage(BadInput, code="GP-1050", title="Not a disk image of a virtual machine"):
    """Not a disk image of a virtual machine."""


class NotLoggedIn(GpupoolError, code="GP-3001", title="Not logged in", exit_code=4):
    """Not logged in."""


class NoPermission(GpupoolError, code="GP-3002", title="Not allowed", exit_code=4):
    """Not allowed."""


class NotFound(GpupoolError, code="GP-3003", title="Not found", exit_code=5):
    """Not found."""


class UnknownTenant(NotFound, code="GP-3004", title="Unknown tenant"):
    """Unknown tenant."""


class TokenMayNotMint(NoPermission, code="GP-3010", title="A token that may not make tokens"):
    """A token that may not make tokens."""


class TokenOfAnAccount(
    NoPermission, code="GP-3011", title="A token that would run code as another user's Unix account"
):
    """A token that would run code as another user's Unix account."""


class OutputIsPrivate(NoPermission, code="GP-3012", title="A job's output belongs to its user"):
    """A job's output belongs to its user."""


class UnknownCohort(NotFound, code="GP-3009", title="Unknown cohort"):
    """Unknown cohort."""


class RouteNotFound(NotFound, code="GP-3005", title="No such route"):
    """No such route."""


class UnsupportedMethod(BadInput, code="GP-3006", title="Method not allowed"):
    """Method not allowed."""


class RequestRejection(GpupoolError, code="GP-2000", title="Refused", exit_code=3):
    """Refused."""


class LargerThanAnyCard(RequestRejection, code="GP-2001", title="Larger than any card"):
    """Larger than any card."""


class BeyondQuota(RequestRejection, code="GP-2002", title="Beyond the tenant's quota"):
    """Beyond the tenant's quota."""


class GuaranteedToOthers(RequestRejection, code="GP-2048", title="Guaranteed to others"):
    """Nothing that ends would let the claim start: what it needs is guaranteed to other tenants, or
    kept by them."""


class NoRoomNow(RequestRejection, code="GP-2003", title="No room now"):
    """No room now."""


class TooManyCards(RequestRejection, code="GP-2004", title="More cards than any node has"):
    """More cards than any node has."""


class NoUnixUser(RequestRejection, code="GP-2005", title="No Unix user to run as"):
    """No Unix user to run as."""


class NameTaken(RequestRejection, code="GP-2006", title="Name taken"):
    """Name taken."""


class WrongState(RequestRejection, code="GP-2007", title="Not in a state that allows this"):
    """Not in a state that allows this."""


class StillInUse(RequestRejection, code="GP-2008", title="Still in use"):
    """Still in use."""


class TooMuchPending(RequestRejection, code="GP-2044", title="Too much is waiting"):
    """`details` has what waits, what was asked for and the limit."""


class NotOneJob(RequestRejection, code="GP-2045", title="An array is many jobs"):
    """`details` has the array's id and its number of jobs."""


class GangTooLarge(
    RequestRejection, code="GP-2015", title="A gang or a topology that this pool could never start"
):
    """A gang or a topology that this pool could never start."""


class NotExpressible(RequestRejection, code="GP-2016", title="Nothing here keeps that promise"):
    """Nothing here keeps that promise."""


class PodRejection(RequestRejection, code="GP-2017", title="A pod that cannot have a share"):
    """A pod that cannot have a share."""


class ImageRejection(
    RequestRejection, code="GP-2018", title="An image in which a share cannot be fenced"
):
    """Said by a program on the node (native/hook)."""


class ImageNotFound(RequestRejection, code="GP-2060", title="No such image on this machine"):
    """No such image on this machine."""


class ContainerNotAllowed(
    RequestRejection, code="GP-2061", title="An image that the pool does not allow"
):
    """An image that the pool does not allow."""


class ContainersUnavailable(
    RequestRejection, code="GP-2062", title="Containers cannot run on this machine"
):
    """Podman, or what it needs, is missing."""


class UnknownProject(RequestRejection, code="GP-2052", title="Unknown project"):
    """`details` has the tenant's `projects`."""


class AccountIsAUser(
    RequestRejection, code="GP-2053", title="A Unix account that is another user already"
):
    """A Unix account that is another user already."""


class ApiServerRejection(
    RequestRejection, code="GP-2030", title="The cluster's API server refused"
):
    """`details` has the server's own `status` and `reason` (404 NotFound, 409 Conflict, 422
    Invalid)."""

    @property
    def is_not_found(self) -> bool:
        return bool(self.details.get("status") == 404)

    @property
    def is_conflict(self) -> bool:
        """Another client wrote first; a JSON patch whose `test` fails is answered with 422
        Invalid."""
        status = self.details.get("status")
        return status == 409 or (
            status == 422 and "the server rejected our request" in self.message
        )


class WrittenByGpupoolAlone(RequestRejection, code="GP-2031", title="Written by gpupool alone"):
    """Written by gpupool alone."""


class PastAdmission(
    RequestRejection, code="GP-2032", title="A pod that did not go through admission"
):
    """A pod that did not go through admission."""


class CardNotReady(RequestRejection, code="GP-2033", title="A container waits for its card"):
    """A container waits for its card."""


class LedgerIncomplete(
    RequestRejection, code="GP-2036", title="Pods hold cards that the ledger does not know of"
):
    """Pods hold cards that the ledger does not know of."""


class LedgerInUse(RequestRejection, code="GP-2037", title="A ledger that holds cards"):
    """Said by the API server, by a policy."""


class HistoryTooShort(RequestRejection, code="GP-2038", title="History too short"):
    """What a pool has written down says too little for advice, or more than can be looked at."""


class DeviceClaimUnread(
    RequestRejection, code="GP-2034", title="A resource claim that gpupool cannot serve"
):
    """A claim of Dynamic Resource Allocation, for which there is no driver here."""


class KindUnread(
    RequestRejection, code="GP-2035", title="An object whose pods gpupool cannot read"
):
    """An object asks for cards at a place where gpupool does not read pods."""


class VmRejection(
    RequestRejection, code="GP-2070", title="A virtual machine that cannot start here"
):
    """A virtual machine that cannot start here."""


class InvalidQuotaTree(RequestRejection, code="GP-2014", title="The quota tree would not add up"):
    """`details` has the `node` whose limits do not fit, and the numbers."""
