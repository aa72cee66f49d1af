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

# ruff: noqa: I001  (it would give each exported name a statement of its own)

from gpupool.base.errors.delivery import (
    BundleDamaged as BundleDamaged,
    BundleUnreadable as BundleUnreadable,
    BundleUntrusted as BundleUntrusted,
    ForeignUnit as ForeignUnit,
    SystemdUnusable as SystemdUnusable,
)
from gpupool.base.errors.failures import (
    BackupUnusable as BackupUnusable,
    CopiedPool as CopiedPool,
    CudaCallFailure as CudaCallFailure,
    DamagedRecord as DamagedRecord,
    DiskFull as DiskFull,
    EventsReset as EventsReset,
    ExpiredLease as ExpiredLease,
    IdempotencyMismatch as IdempotencyMismatch,
    InternalError as InternalError,
    LostLeadership as LostLeadership,
    NativeMissing as NativeMissing,
    PoolAlreadyRunning as PoolAlreadyRunning,
    PoolFull as PoolFull,
    PoolHeldElsewhere as PoolHeldElsewhere,
    PoolLost as PoolLost,
    PoolNotRunning as PoolNotRunning,
    PortTaken as PortTaken,
    ProbeSuspended as ProbeSuspended,
    ReplacedStore as ReplacedStore,
    ServiceUnavailable as ServiceUnavailable,
    StaleGeneration as StaleGeneration,
    StandbyServer as StandbyServer,
    StateNewer as StateNewer,
    StateUnusable as StateUnusable,
    StoreBusy as StoreBusy,
    StoreCorrupt as StoreCorrupt,
    TooManyConnections as TooManyConnections,
    TooManyLogins as TooManyLogins,
    TooManyRequests as TooManyRequests,
    VmUnreachable as VmUnreachable,
    WriteConflict as WriteConflict,
)
from gpupool.base.errors.networks import (
    AddressTaken as AddressTaken,
    BadAddress as BadAddress,
    BadBandwidth as BadBandwidth,
    BadPlaneInventory as BadPlaneInventory,
    BandwidthAboveCap as BandwidthAboveCap,
    NetworkingUnavailable as NetworkingUnavailable,
    OverlappingSubnets as OverlappingSubnets,
    SubnetFull as SubnetFull,
    TooManyNetworks as TooManyNetworks,
    UnknownNetwork as UnknownNetwork,
    UnknownPlane as UnknownPlane,
)
from gpupool.base.errors.people import (
    AuditBeginMissing as AuditBeginMissing,
    AuditChainBroken as AuditChainBroken,
    AuditFileUnusable as AuditFileUnusable,
    AuditHeadMissing as AuditHeadMissing,
    BadService as BadService,
    BadTemplate as BadTemplate,
    BadTemplateValue as BadTemplateValue,
    BudgetBelowSpent as BudgetBelowSpent,
    BudgetSpent as BudgetSpent,
    CardStillFailed as CardStillFailed,
    CrossSiteRequest as CrossSiteRequest,
    DeliveryNotDead as DeliveryNotDead,
    DocumentUnavailable as DocumentUnavailable,
    ForbiddenReceiver as ForbiddenReceiver,
    HandoverRefused as HandoverRefused,
    IdleLadderContradicts as IdleLadderContradicts,
    IncidentOver as IncidentOver,
    JobUnreachable as JobUnreachable,
    KeepTooLong as KeepTooLong,
    KeepsSpent as KeepsSpent,
    LeaverPolicyContradicts as LeaverPolicyContradicts,
    LoginLocked as LoginLocked,
    LooserIdlePolicy as LooserIdlePolicy,
    MonthNotOver as MonthNotOver,
    NoIdleRule as NoIdleRule,
    NothingProposed as NothingProposed,
    PastEnergyFactor as PastEnergyFactor,
    ProgramMissing as ProgramMissing,
    ProviderUnreachable as ProviderUnreachable,
    RepairBlocked as RepairBlocked,
    ReplicaSilent as ReplicaSilent,
    SealedMonth as SealedMonth,
    SecretDamaged as SecretDamaged,
    SecretKeyMissing as SecretKeyMissing,
    SecretKeyUnusable as SecretKeyUnusable,
    SecretKeyWrong as SecretKeyWrong,
    ServiceBusy as ServiceBusy,
    ServiceNotReady as ServiceNotReady,
    ShippedTemplate as ShippedTemplate,
    NotScimAccount as NotScimAccount,
    ScimUnavailable as ScimUnavailable,
    SignonFailed as SignonFailed,
    SignonRefused as SignonRefused,
    SignonUnavailable as SignonUnavailable,
    TemplateDisabled as TemplateDisabled,
    TemplateVersionTaken as TemplateVersionTaken,
    TooManyServices as TooManyServices,
    TooManySubscriptions as TooManySubscriptions,
    TooManyTemplates as TooManyTemplates,
    TwoCredentials as TwoCredentials,
    UnknownBudget as UnknownBudget,
    UnknownDelivery as UnknownDelivery,
    UnknownEnergyFactor as UnknownEnergyFactor,
    UnknownIdlePolicy as UnknownIdlePolicy,
    UnknownIncident as UnknownIncident,
    UnknownLeaverPolicy as UnknownLeaverPolicy,
    UnknownPriceList as UnknownPriceList,
    UnknownProvider as UnknownProvider,
    UnknownService as UnknownService,
    UnknownSubscription as UnknownSubscription,
    UnknownTemplate as UnknownTemplate,
    UnknownXid as UnknownXid,
    WrongPassword as WrongPassword,
)
from gpupool.base.errors.requests import (
    AccountIsAUser as AccountIsAUser,
    ApiServerRejection as ApiServerRejection,
    BadDuration as BadDuration,
    BadFraction as BadFraction,
    BadImage as BadImage,
    BadInput as BadInput,
    BadMachine as BadMachine,
    BadManifest as BadManifest,
    BadName as BadName,
    BadOption as BadOption,
    BadQuantity as BadQuantity,
    BadTrace as BadTrace,
    BeyondQuota as BeyondQuota,
    BodyTooLarge as BodyTooLarge,
    CardNotReady as CardNotReady,
    CommandNotFound as CommandNotFound,
    ContainerNotAllowed as ContainerNotAllowed,
    ContainersUnavailable as ContainersUnavailable,
    ContradictoryManifest as ContradictoryManifest,
    DeviceClaimUnread as DeviceClaimUnread,
    FactMissing as FactMissing,
    ForeignValue as ForeignValue,
    GangTooLarge as GangTooLarge,
    GpupoolError as GpupoolError,
    GuaranteedToOthers as GuaranteedToOthers,
    HistoryTooShort as HistoryTooShort,
    ImageNotFound as ImageNotFound,
    ImageRejection as ImageRejection,
    InvalidBody as InvalidBody,
    InvalidQuotaTree as InvalidQuotaTree,
    IsolationNotOffered as IsolationNotOffered,
    KindUnread as KindUnread,
    LargerThanAnyCard as LargerThanAnyCard,
    LedgerIncomplete as LedgerIncomplete,
    LedgerInUse as LedgerInUse,
    NameTaken as NameTaken,
    NoPermission as NoPermission,
    NoRoomNow as NoRoomNow,
    NotExpressible as NotExpressible,
    NotFound as NotFound,
    NotLoggedIn as NotLoggedIn,
    NotOneJob as NotOneJob,
    NoUnixUser as NoUnixUser,
    OutputIsPrivate as OutputIsPrivate,
    PastAdmission as PastAdmission,
    PodRejection as PodRejection,
    RequestRejection as RequestRejection,
    RouteNotFound as RouteNotFound,
    StillInUse as StillInUse,
    TokenMayNotMint as TokenMayNotMint,
    TokenOfAnAccount as TokenOfAnAccount,
    TooManyCards as TooManyCards,
    TooMuchPending as TooMuchPending,
    UnknownCohort as UnknownCohort,
    UnknownModel as UnknownModel,
    UnknownPolicy as UnknownPolicy,
    UnknownProfile as UnknownProfile,
    UnknownProject as UnknownProject,
    UnknownTenant as UnknownTenant,
    UnknownWord as UnknownWord,
    UnsupportedMethod as UnsupportedMethod,
    VmRejection as VmRejection,
    WrittenByGpupoolAlone as WrittenByGpupoolAlone,
    WrongState as WrongState,
)
from gpupool.base.errors.submissions import (
    BadDependency as BadDependency,
    BadRetry as BadRetry,
    BadSchedule as BadSchedule,
    DependencyNeverMet as DependencyNeverMet,
    TooManySchedules as TooManySchedules,
    UnknownAttempt as UnknownAttempt,
    UnknownSchedule as UnknownSchedule,
)

TYPE_CHECKING = False  # every command imports this module: typing is for type checkers only
if TYPE_CHECKING:
    from typing import Any


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
