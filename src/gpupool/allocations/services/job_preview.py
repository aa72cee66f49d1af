"""Previews of submissions: checked, planned and explained on a snapshot; nothing is written.

A preview takes a snapshot as the placer does and plans on it alone, outside the placer's lock: it
delays no placement, and no plan of the pool follows from it (decision 0099).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.budgeting.holds import RAISE_HINT, BudgetHold
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.idle_suspension.policy import IdleSuspensionPolicy
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.placement.start_view import build_start_fields
from gpupool.allocations.submission import validate
from gpupool.allocations.submission.advice_choice import (
    AdviceChoice,
    check_with_advice,
    choose_nothing,
)
from gpupool.allocations.submission.dependency_targets import add_dependencies
from gpupool.allocations.submission.idle_choice import reserve_moved_memory
from gpupool.allocations.submission.network_join import find_network_columns, is_network_wanted
from gpupool.allocations.submission.preview_budget import PreviewBudget
from gpupool.allocations.submission.queue_limits import PendingGate
from gpupool.allocations.submission.store import refuse_taken_name
from gpupool.allocations.submission.submission import Submission
from gpupool.allocations.views.capacity import describe_tenant_room
from gpupool.allocations.views.mechanism_plan import plan_mechanism
from gpupool.allocations.views.request_text import format_command, format_manifest
from gpupool.base.errors import BudgetSpent, GpupoolError, NoRoomNow
from gpupool.base.units import format_share
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.model.allocation import Seat
from gpupool.model.claim import SharingKind
from gpupool.model.tenant import Principal
from gpupool.scheduling import (
    FreeCapacity,
    JobPlacement,
    Snapshot,
    WaitingClass,
    cycle,
    explain_claim,
    is_model_match,
)
from gpupool.store.database import Store
from gpupool.tenancy.service import TenancyService
from gpupool.wire.fleet import RunAs
from gpupool.wire.jobs import SeatOut
from gpupool.wire.submissions import JobIn
from gpupool.wire.views.previews import PreviewCost, PreviewOut

#: Cards that an answer names.
MOST_SEATS = 64
#: Claims that the plan of a preview places before it: what a cycle of the placer does.
_BATCH = 64

_CARDS = (
    sa.select(devices.c.uuid, devices.c.idx, devices.c.model, nodes.c.name.label("node"))
    .join(nodes, nodes.c.id == devices.c.node_id)
    .where(devices.c.uuid.in_(sa.bindparam("cards", expanding=True)))
)


@dataclass(frozen=True)
class PricedRequest:
    """What a price depends on: the submission, and the models of the cards that it would get."""

    submission: Submission
    models: frozenset[str]


#: Returns what a submission costs; None: there is no price for it.
CostEstimate = Callable[[PricedRequest], PreviewCost | None]


class JobPreviewService:
    """Previews submissions. Thread-safe; reads in short transactions."""

    def __init__(
        self,
        store: Store,
        tenancy: TenancyService,
        cache: LedgerCache,
        placer: Placer,
        gate: PendingGate,
        idle_suspension: IdleSuspensionPolicy,
    ) -> None:
        self._store = store
        self._tenancy = tenancy
        self._cache = cache
        self._placer = placer
        self._gate = gate
        self._idle_suspension = idle_suspension
        self.budget = PreviewBudget(time.monotonic_ns)
        #: The package that holds the pool's price list sets it.
        self.estimate_cost: CostEstimate = _find_no_price
        #: The package that knows advice policies sets it.
        self.choose_advice: AdviceChoice = choose_nothing

    def preview_job(self, body: JobIn, principal: Principal, run_as: RunAs | None) -> PreviewOut:
        """Say what would become of a submission now.

        Args:
            body: The request, with limits applied.
            principal: The caller.
            run_as: The local user that would start the command.

        Raises:
            GpupoolError: The refusal of a real submission, with its numbers.
        """
        submission = self._check(body, principal, run_as)
        snapshot = self._placer.take_snapshot()
        if submission.wait is not None:
            answer = self._describe_request(body, submission, snapshot)
            # Without a start: when the ends that it waits for come is not known.
            answer |= {"outcome": "waits", "reason": submission.wait.sentence, "hints": []}
            request = PricedRequest(submission, _list_models(submission, snapshot))
            return PreviewOut(**answer, cost=self.estimate_cost(request))
        now_ns = self._store.clock.now_ns()
        hold = self._find_hold(submission, now_ns)
        if hold is not None:
            answer = self._describe_request(body, submission, snapshot)
            answer |= {"outcome": "waits", "reason": hold.sentence, "hints": [RAISE_HINT]}
            if not body.wait:
                answer |= {"outcome": "never", "code": BudgetSpent.code}
            request = PricedRequest(submission, _list_models(submission, snapshot))
            return PreviewOut(**answer, cost=self.estimate_cost(request))
        waiting = self._cache.planes.restrict_class(submission.build_waiting_class(now_ns))
        extended = replace(snapshot, waiting=(*snapshot.waiting, waiting))
        plan = cycle(extended, now_ns, limit=_BATCH, rules=self._placer.planner.list_rules(now_ns))
        mine = frozenset(waiting.job_ids)
        placed = [placement for placement in plan.placements if placement.job in mine]
        answer = self._describe_request(body, submission, snapshot)
        # A gang that starts with its least members is counted by these.
        if placed:
            answer |= self._describe_places(placed)
        else:
            answer |= self._explain_wait(snapshot, waiting, now_ns)
            if not body.wait:
                answer |= {"outcome": "never", "code": NoRoomNow.code}
        models = frozenset(seat.model for seat in answer.get("on", ())) or _list_models(
            submission, snapshot
        )
        cost = self.estimate_cost(PricedRequest(submission, models))
        return PreviewOut(**answer, cost=cost)

    def _find_hold(self, submission: Submission, now_ns: int) -> BudgetHold | None:
        with self._cache.lock:
            return self._cache.budgets.find_hold(submission.build_queue_entries(now_ns)[0])

    def describe_refusal(
        self, body: JobIn, principal: Principal, error: GpupoolError
    ) -> PreviewOut:
        """Describe a submission that this pool can never place, as its refusal has it."""
        shape = body.shape
        snapshot = self._cache.build_snapshot()
        return PreviewOut(
            outcome="never",
            code=error.code,
            reason=error.message,
            hints=[hint for hint in error.hint.split("; ") if hint],
            nearest=error.details.get("nearest"),
            gang=error.details.get("gang"),
            share=format_share(
                shape.gpu_milli,
                shape.memory_bytes,
                shape.count,
                unpromised=SharingKind(shape.sharing or SharingKind.FIXED).unpromised_text,
                profile=shape.profile,
            ),
            count=_count_jobs(body),
            quota=_describe_quota(snapshot, body.tenant or principal.tenant),
            command=format_command(body),
            manifest=format_manifest(body),
        )

    def _check(self, body: JobIn, principal: Principal, run_as: RunAs | None) -> Submission:
        """Check everything that a submission checks before it writes."""
        with self._store.read() as connection:
            tenant = self._tenancy.resolve_tenant(connection, principal, body.tenant)
            in_network = is_network_wanted(connection, tenant.id, body.launch)
        self._placer.refresh_cache()
        now_ns = self._store.clock.now_ns()

        def check(one: JobIn) -> Submission:
            reserved = reserve_moved_memory(one, self._idle_suspension.rules)
            return validate.check_submission(
                reserved, principal, tenant, run_as, self._cache, now_ns, in_network=in_network
            )

        submission = check_with_advice(body, principal, self.choose_advice, check)
        with self._gate.admit_submission(submission, principal), self._store.read() as connection:
            self._tenancy.project_id(connection, submission.tenant_id, submission.project)
            refuse_taken_name(connection, submission)
            find_network_columns(connection, submission)
            return add_dependencies(connection, submission, body, principal)

    def _describe_request(
        self, body: JobIn, submission: Submission, snapshot: Snapshot
    ) -> dict[str, Any]:
        shape = submission.shape
        plan: dict[str, Any] = {}
        # Mechanisms are ways to divide a card.
        if shape.count:
            plan = dict(plan_mechanism(snapshot, shape, submission.tenant))
        return {
            **plan,
            "share": str(shape),
            "count": submission.size,
            "quota": _describe_quota(snapshot, submission.tenant),
            "command": format_command(body),
            "manifest": format_manifest(body),
        }

    def _describe_places(self, placed: Sequence[JobPlacement]) -> dict[str, Any]:
        seats = list[Seat]()
        for placement in placed:
            seats += placement.seats
        return {
            "outcome": "fits",
            "reason": placed[0].why,
            "starts_now": len(placed),
            "on": self._describe_seats(seats[:MOST_SEATS]),
            "on_total": len(seats),
        }

    def _describe_seats(self, seats: Sequence[Seat]) -> list[SeatOut]:
        with self._store.read() as connection:
            rows = connection.execute(_CARDS, {"cards": [seat.device for seat in seats]})
            cards = {row.uuid: row for row in rows}
        found = list[SeatOut]()
        for seat in seats:
            card = cards.get(seat.device)
            # A card that was taken out of the pool since the snapshot.
            if card is None:
                continue
            piece = seat.partition
            found.append(
                SeatOut(
                    device=device_name(card.node, card.idx),
                    uuid=seat.device,
                    model=card.model,
                    gpu_milli=seat.gpu_milli,
                    memory_bytes=seat.memory_bytes,
                    profile=None if piece is None else piece.profile,
                    start=None if piece is None else piece.start,
                )
            )
        return found

    def _explain_wait(
        self, snapshot: Snapshot, waiting: WaitingClass, now_ns: int
    ) -> dict[str, Any]:
        planner = self._placer.planner
        rules = planner.list_rules(now_ns)
        book = planner.start_records.book
        first = waiting.job_ids[0]
        found = explain_claim(snapshot, waiting, now_ns, rules=rules, job=first, book=book)
        # Jobs of its own class that wait already come before it.
        ahead = found.ahead
        for known in snapshot.waiting:
            if known.key == waiting.key:
                ahead += known.count
        nearest = found.nearest
        return {
            "outcome": "waits",
            "reason": found.sentence,
            "hints": list(found.helps),
            "nearest": str(nearest) if nearest and nearest != waiting.shape else None,
            "ahead": ahead,
            **build_start_fields(found.start, found.chance_pct),
        }


def _count_jobs(body: JobIn) -> int:
    if body.gang is not None:
        return sum(role.count for role in body.gang.roles())
    return body.array or 1


def _describe_quota(snapshot: Snapshot, tenant: str) -> Any:
    # The tenant may be younger than the snapshot.
    if tenant not in snapshot.tenants:
        return None
    return describe_tenant_room(snapshot, FreeCapacity(snapshot.cards), tenant)


def _list_models(submission: Submission, snapshot: Snapshot) -> frozenset[str]:
    """List the models of which a claim that waits may get a card."""
    wanted = submission.shape.model
    if wanted is None:
        return frozenset(snapshot.cards.models)
    return frozenset(model for model in snapshot.cards.models if is_model_match(wanted, model))


def _find_no_price(_request: PricedRequest) -> PreviewCost | None:
    """Price nothing: the pool has no price list."""
    return None
