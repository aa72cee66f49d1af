"""Every error that gpupool can answer with; each class has one stable public code.

The kind of an error is its base class:

    GpupoolError
      BadInput        the request is not valid                 (HTTP 400/422)
      Refused         the request is valid and is refused      (HTTP 409)
      NotLoggedIn / NoPermission / NotFound                      (401, 403, 404)
      Conflict        another write came first                 (409/412)
      Unavailable     the pool, its store or its disk cannot   (503/507)

A message says what happened, with the numbers; `hint` says what to type next. Only
`server.http.problems` turns these into HTTP, only `terminal.output` into terminal text.
Expected outcomes inside the scheduler are values (`model.claim.Rejection`), not errors.
"""

from __future__ import annotations

from gpupool.base.errors.failures import (
    BackupUnusable,
    CopiedPool,
    CudaCallFailure,
    DamagedRecord,
    DiskFull,
    EventsReset,
    ExpiredLease,
    IdempotencyMismatch,
    InternalError,
    LostLeadership,
    NativeMissing,
    PoolAlreadyRunning,
    PoolFull,
    PoolHeldElsewhere,
    PoolLost,
    PoolNotRunning,
    PortTaken,
    ProbeSuspended,
    ReplacedStore,
    ServiceUnavailable,
    StaleGeneration,
    StandbyServer,
    StateNewer,
    StateUnusable,
    StoreBusy,
    StoreCorrupt,
    TooManyConnections,
    TooManyRequests,
    VmUnreachable,
    WriteConflict,
)
from gpupool.base.errors.networks import (
    AddressTaken,
    BadAddress,
    BadBandwidth,
    BandwidthAboveCap,
    NetworkingUnavailable,
    OverlappingSubnets,
    SubnetFull,
    TooManyNetworks,
    UnknownNetwork,
)
from gpupool.base.errors.requests import (
    AccountIsAUser,
    ApiServerRejection,
    BadDuration,
    BadFraction,
    BadImage,
    BadInput,
    BadMachine,
    BadManifest,
    BadName,
    BadOption,
    BadQuantity,
    BadTrace,
    BeyondQuota,
    BodyTooLarge,
    CardNotReady,
    CommandNotFound,
    ContainerNotAllowed,
    ContainersUnavailable,
    ContradictoryManifest,
    DeviceClaimUnread,
    FactMissing,
    ForeignValue,
    GangTooLarge,
    GpupoolError,
    GuaranteedToOthers,
    HistoryTooShort,
    ImageNotFound,
    ImageRejection,
    InvalidBody,
    InvalidQuotaTree,
    IsolationNotOffered,
    KindUnread,
    LargerThanAnyCard,
    LedgerIncomplete,
    LedgerInUse,
    NameTaken,
    NoPermission,
    NoRoomNow,
    NotExpressible,
    NotFound,
    NotLoggedIn,
    NotOneJob,
    NoUnixUser,
    OutputIsPrivate,
    PastAdmission,
    PodRejection,
    RequestRejection,
    RouteNotFound,
    StillInUse,
    TokenMayNotMint,
    TokenOfAnAccount,
    TooManyCards,
    TooMuchPending,
    UnknownCohort,
    UnknownModel,
    UnknownPolicy,
    UnknownProfile,
    UnknownProject,
    UnknownTenant,
    UnknownWord,
    UnsupportedMethod,
    VmRejection,
    WrittenByGpupoolAlone,
    WrongState,
)

TYPE_CHECKING = False  # every command imports this module: typing is for type checkers only
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "AccountIsAUser",
    "AddressTaken",
    "ApiServerRejection",
    "BackupUnusable",
    "BadAddress",
    "BadBandwidth",
    "BadDuration",
    "BadFraction",
    "BadImage",
    "BadInput",
    "BadMachine",
    "BadManifest",
    "BadName",
    "BadOption",
    "BadQuantity",
    "BadTrace",
    "BandwidthAboveCap",
    "BeyondQuota",
    "BodyTooLarge",
    "CardNotReady",
    "CommandNotFound",
    "ContainerNotAllowed",
    "ContainersUnavailable",
    "ContradictoryManifest",
    "CopiedPool",
    "CudaCallFailure",
    "DamagedRecord",
    "DeviceClaimUnread",
    "DiskFull",
    "EventsReset",
    "ExpiredLease",
    "FactMissing",
    "ForeignValue",
    "GangTooLarge",
    "GpupoolError",
    "GuaranteedToOthers",
    "HistoryTooShort",
    "IdempotencyMismatch",
    "ImageNotFound",
    "ImageRejection",
    "InternalError",
    "InvalidBody",
    "InvalidQuotaTree",
    "IsolationNotOffered",
    "KindUnread",
    "LargerThanAnyCard",
    "LedgerInUse",
    "LedgerIncomplete",
    "LostLeadership",
    "NameTaken",
    "NativeMissing",
    "NetworkingUnavailable",
    "NoPermission",
    "NoRoomNow",
    "NoUnixUser",
    "NotExpressible",
    "NotFound",
    "NotLoggedIn",
    "NotOneJob",
    "OutputIsPrivate",
    "OverlappingSubnets",
    "PastAdmission",
    "PodRejection",
    "PoolAlreadyRunning",
    "PoolFull",
    "PoolHeldElsewhere",
    "PoolLost",
    "PoolNotRunning",
    "PortTaken",
    "ProbeSuspended",
    "ReplacedStore",
    "RequestRejection",
    "RouteNotFound",
    "ServiceUnavailable",
    "StaleGeneration",
    "StandbyServer",
    "StateNewer",
    "StateUnusable",
    "StillInUse",
    "StoreBusy",
    "StoreCorrupt",
    "SubnetFull",
    "TokenMayNotMint",
    "TokenOfAnAccount",
    "TooManyCards",
    "TooManyConnections",
    "TooManyNetworks",
    "TooManyRequests",
    "TooMuchPending",
    "UnknownCohort",
    "UnknownModel",
    "UnknownNetwork",
    "UnknownPolicy",
    "UnknownProfile",
    "UnknownProject",
    "UnknownTenant",
    "UnknownWord",
    "UnsupportedMethod",
    "VmRejection",
    "VmUnreachable",
    "WriteConflict",
    "WrittenByGpupoolAlone",
    "WrongState",
    "from_code",
    "list_error_classes",
]


def list_error_classes() -> dict[str, type[GpupoolError]]:
    """Return every public code with its class, in the order of codes."""
    found: dict[str, type[GpupoolError]] = {}
    queue: list[type[GpupoolError]] = [GpupoolError]
    while queue:
        cls = queue.pop(0)
        queue.extend(cls.__subclasses__())
        if cls is not GpupoolError:
            found[cls.code] = cls
    return dict(sorted(found.items()))


def from_code(code: str, message: str, hint: str = "", **details: Any) -> GpupoolError:
    """Make the error that a server's answer names. An unknown code of a newer server is kept."""
    cls = list_error_classes().get(code)
    if cls is not None:
        return cls(message, hint=hint, **details)
    error = GpupoolError(message, hint=hint, **details)
    error.code = code  # type: ignore[misc]  # an instance may carry a newer server's code
    return error
