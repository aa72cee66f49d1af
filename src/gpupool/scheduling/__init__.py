"""The scheduler's public face: other packages import from here, not from the subpackages.

The scheduler decides and never acts: `plan = cycle(snapshot, now_ns)` is pure and deterministic.
See `README.md` in this folder for the order of the subpackages.
"""

from gpupool.scheduling.admission.claim import judge_claim
from gpupool.scheduling.admission.gang import judge_gang
from gpupool.scheduling.admission.reservation import describe_calendar_error, judge_reservation
from gpupool.scheduling.engine.cycle import cycle, cycle_with_state
from gpupool.scheduling.engine.fault_tolerant_cycles import FaultTolerantCycles
from gpupool.scheduling.engine.lazy_rejections import select_judged
from gpupool.scheduling.engine.promises import renumber_start
from gpupool.scheduling.explain.explain import Explanation, explain_claim
from gpupool.scheduling.explain.mechanism_survey import survey_mechanisms
from gpupool.scheduling.explain.reachability import find_quota_obstacle
from gpupool.scheduling.filtering.capacity_report import (
    ModelCapacity,
    ShapeFragments,
    compute_mean_fragment,
    find_owned_cards,
    list_model_capacities,
    list_shape_fragments,
)
from gpupool.scheduling.filtering.domains import NODE_LEVEL, list_levels
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit, is_model_match
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_library import (
    adopt_native_library,
    get_native_library_path,
)
from gpupool.scheduling.filtering.numa_affinity import order_by_numa_affinity
from gpupool.scheduling.filtering.partition_profiles import list_profile_names, resolve_profiles
from gpupool.scheduling.idle_suspension import (
    IdleJob,
    IdleVictims,
    KeptCard,
    ReturningJob,
    VictimRejection,
    describe_kept,
    describe_kept_card,
    describe_leaving,
    describe_shortage,
    describe_victims,
    empty_seats,
    find_idle_victims,
    find_kept_card,
    find_return_victims,
    find_victim_rejection,
    has_return_room,
    measure_kept_before,
    replace_suspended,
)
from gpupool.scheduling.mechanism_choice.allocation_plan import plan_allocation
from gpupool.scheduling.mechanism_choice.choice import MechanismOption, OfferedCard
from gpupool.scheduling.mechanism_choice.pool_survey import (
    CardGroup,
    describe_refusal,
    find_best_group,
    survey_cards,
)
from gpupool.scheduling.preemption.beneficiaries import EvictionBeneficiaries
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES, PreemptionRules
from gpupool.scheduling.quota.pool_size import measure_pool
from gpupool.scheduling.quota.queue_order import QuotaHeadroom, compute_share_micro
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import QuotaNode
from gpupool.scheduling.quota.usage_decay import (
    FORGOTTEN_HALF_LIVES,
    HALF_LIFE_S,
    MICRO_PER_CARD,
    DecayedUsage,
    compute_dominant_micro,
    integrate_decay,
)
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.reasons.help_messages import format_start, suggest_stop_holder
from gpupool.scheduling.reasons.reach_messages import ADMIN_HINT, format_resubmission
from gpupool.scheduling.rebalancing.automatic_defragment import (
    HOUR_SECONDS,
    DefragmentBudget,
    DefragmentSpending,
    is_quiet_time,
    plan_automatic_defragmentation,
)
from gpupool.scheduling.rebalancing.defragment import DefragmentPlan, plan_defragmentation
from gpupool.scheduling.rebalancing.defragment_cp_sat import make_cp_sat_solver
from gpupool.scheduling.rebalancing.load_balance import (
    LoadSpread,
    is_rebalanceable,
    plan_rebalancing,
)
from gpupool.scheduling.rebalancing.move_limits import RebalancingLimits
from gpupool.scheduling.rebalancing.workspace import (
    Move,
    is_movable,
    measure_unheld_capacity,
    take_seats,
)
from gpupool.scheduling.scoring.demand_knowledge import (
    FIRST_CLAIMS,
    REMEMBERED_CLAIMS,
    DemandKnowledge,
)
from gpupool.scheduling.scoring.guarded_policy import PolicyFault, make_policy_fault
from gpupool.scheduling.scoring.registry import DEFAULT_POLICY, POLICIES, find_policy
from gpupool.scheduling.snapshot.cards import (
    CARD_STATUS,
    CardStatus,
    CardTable,
    HostColumns,
    PartitionLayout,
    TopologyLevel,
)
from gpupool.scheduling.snapshot.claims import (
    ClassKey,
    ExpectedDemand,
    MigrationHold,
    RunningJob,
    SuspendedJob,
    WaitingClass,
)
from gpupool.scheduling.snapshot.columns import Floats, Ints
from gpupool.scheduling.snapshot.numa_nodes import NumaNodes, build_numa_nodes
from gpupool.scheduling.snapshot.plan import LEEWAY_NS, Eviction, JobPlacement, Plan, PlannedStart
from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsRegister
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.snapshot.topology_levels import build_levels
from gpupool.scheduling.timeline.reservations import ReservationOccurrence, iterate_occurrences
from gpupool.scheduling.timeline.resize_headroom import ResizeHeadroom
from gpupool.scheduling.timeline.runtime_estimates import RuntimeHistory
from gpupool.scheduling.timeline.start_records import (
    ESTIMATE,
    PROMISE,
    ForecastOutcome,
    ForecastTally,
    StartForecast,
    StartForecasts,
)
from gpupool.scheduling.timeline.timeline import NEVER
from gpupool.scheduling.timeline.unreserved_capacity import ReservedAmounts, UnreservedCapacity
from gpupool.scheduling.workspace.planning_state import PlanningState

__all__ = [
    "ADMIN_HINT",
    "CARD_STATUS",
    "DEFAULT_POLICY",
    "DEFAULT_PREEMPTION_RULES",
    "ESTIMATE",
    "FIRST_CLAIMS",
    "FITS",
    "FORGOTTEN_HALF_LIVES",
    "HALF_LIFE_S",
    "HOUR_SECONDS",
    "LEEWAY_NS",
    "MICRO_PER_CARD",
    "NEVER",
    "NODE_LEVEL",
    "POLICIES",
    "PROMISE",
    "REMEMBERED_CLAIMS",
    "CardGroup",
    "CardStatus",
    "CardTable",
    "ClaimFit",
    "ClassKey",
    "DecayedUsage",
    "DefragmentBudget",
    "DefragmentPlan",
    "DefragmentSpending",
    "DemandKnowledge",
    "Eviction",
    "EvictionBeneficiaries",
    "ExpectedDemand",
    "Explanation",
    "FaultTolerantCycles",
    "Floats",
    "ForecastOutcome",
    "ForecastTally",
    "FreeCapacity",
    "HostColumns",
    "IdleJob",
    "IdleVictims",
    "Ints",
    "JobPlacement",
    "KeptCard",
    "LoadSpread",
    "MechanismOption",
    "MigrationHold",
    "ModelCapacity",
    "Move",
    "NumaNodes",
    "OfferedCard",
    "PartitionLayout",
    "Plan",
    "PlannedStart",
    "PlanningState",
    "PolicyFault",
    "PreemptionRules",
    "QuotaHeadroom",
    "QuotaNode",
    "QuotaTree",
    "RebalancingLimits",
    "ReservationOccurrence",
    "ReservedAmounts",
    "ResizeHeadroom",
    "ReturningJob",
    "RunningJob",
    "RunningJobsRegister",
    "RuntimeHistory",
    "ShapeFragments",
    "Snapshot",
    "StartForecast",
    "StartForecasts",
    "SuspendedJob",
    "TenantView",
    "TopologyLevel",
    "UnreservedCapacity",
    "VictimRejection",
    "WaitingClass",
    "WorkingQuotas",
    "adopt_native_library",
    "build_levels",
    "build_numa_nodes",
    "compute_dominant_micro",
    "compute_mean_fragment",
    "compute_share_micro",
    "cycle",
    "cycle_with_state",
    "describe_calendar_error",
    "describe_kept",
    "describe_kept_card",
    "describe_leaving",
    "describe_refusal",
    "describe_shortage",
    "describe_victims",
    "empty_seats",
    "explain_claim",
    "find_best_group",
    "find_idle_victims",
    "find_kept_card",
    "find_owned_cards",
    "find_policy",
    "find_quota_obstacle",
    "find_return_victims",
    "find_victim_rejection",
    "format_resubmission",
    "format_start",
    "get_native_library_path",
    "has_return_room",
    "integrate_decay",
    "is_model_match",
    "is_movable",
    "is_quiet_time",
    "is_rebalanceable",
    "iterate_occurrences",
    "judge_claim",
    "judge_gang",
    "judge_reservation",
    "list_levels",
    "list_model_capacities",
    "list_profile_names",
    "list_shape_fragments",
    "make_cp_sat_solver",
    "make_policy_fault",
    "measure_kept_before",
    "measure_pool",
    "measure_unheld_capacity",
    "order_by_numa_affinity",
    "plan_allocation",
    "plan_automatic_defragmentation",
    "plan_defragmentation",
    "plan_rebalancing",
    "renumber_start",
    "replace_suspended",
    "resolve_profiles",
    "select_judged",
    "suggest_stop_holder",
    "survey_cards",
    "survey_mechanisms",
    "take_seats",
]
