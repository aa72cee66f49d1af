"""A snapshot and its plan as text, so that a change of behaviour is a change of lines that a reader
sees."""

from gpupool.base.units import format_gpu, format_mib
from gpupool.model.claim import SharingKind
from gpupool.model.gang import GangGroup, GangRole
from gpupool.model.quota import Quota
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView


def render(before: Snapshot, plan: Plan) -> str:
    parts = [
        "POOL",
        *_pool(before),
        *_running(before),
        "",
        "TENANTS",
        *_tenants(before),
        "",
        "QUEUE",
        *_queue(before),
    ]
    parts += [
        "",
        "PLAN",
        *_placements(plan),
        *_evictions(plan),
        "",
        "STILL WAITING",
        *_rejections(plan),
        "",
    ]
    return "\n".join(parts)


def _pool(before: Snapshot) -> list[str]:
    cards, lines = before.cards, list[str]()
    for node, name in enumerate(cards.nodes):
        labels = " ".join(
            f"{key}={value}" for key, value in sorted(cards.node_labels[node].items())
        )
        labels += " ".join(level.domains[level.of_node[node]] for level in cards.levels)
        lines.append(f"{name} {labels}".rstrip())
        lines += [_card(before, row) for row in range(len(cards)) if cards.node[row] == node]
    return lines


def _card(before: Snapshot, row: int) -> str:
    cards, status = before.cards, CARD_STATUS[before.cards.status[row]]
    free = f"{format_gpu(int(cards.free_milli[row]))} GPU {format_mib(int(cards.free_bytes[row]))} free"
    closed = "" if status is CardStatus.OPEN else f"  {status}"
    return f"  {cards.uuids[row]:9} {cards.models[cards.model[row]]:9} {free:>26}{closed}"


def _tenants(before: Snapshot) -> list[str]:
    return [_tenant(name, view) for name, view in sorted(before.tenants.items())]


def _tenant(name: str, view: TenantView) -> str:
    held = f"holds {format_gpu(view.held.gpu_milli)} GPU {format_mib(view.held.memory_bytes)}"
    return f"  {name:7} {held}, {_quota(view.quota)}"


def _quota(quota: Quota) -> str:
    def milli(value: int | None) -> str:
        return "any" if value is None else format_gpu(value)

    return f"nominal {milli(quota.nominal_milli)} borrowing {milli(quota.borrowing_milli)}"


def _queue(before: Snapshot) -> list[str]:
    return [
        f"  {_class(w)}  heads {' '.join(w.job_ids)} of {w.count}, since {w.oldest_ns}"
        for w in before.waiting
    ]


def _class(w: WaitingClass) -> str:
    return f"{w.tenant:7} {w.priority:4} {_asked(w) if w.gang is None else _gang(w.gang.root)}"


def _asked(w: WaitingClass) -> str:
    burst = " burst" if w.shape.sharing is SharingKind.BURST else ""
    kind = ([w.shape.model] if w.shape.model else []) + [
        f"{key}={value}" for key, value in w.shape.labels
    ]
    return f"{w.shape}{burst} {' '.join(kind)}".rstrip()


def _running(before: Snapshot) -> list[str]:
    uuids = before.cards.uuids
    lines = [
        f"  {job.job:7} {job.tenant} {job.priority} {job.shape} on {' '.join(uuids[row] for row in job.rows)}"
        f", since {job.started_ns // 10**9} s{', preemptible' if job.preemptible else ''}"
        for job in before.running
    ]
    return ["", "RUNNING", *lines] if lines else []


def _evictions(plan: Plan) -> list[str]:
    lines = [f"  {one.job} loses {one.lost_seconds} s: {one.why}" for one in plan.evictions]
    return ["", "EVICTIONS", *lines] if lines else []


def _gang(group: GangGroup) -> str:
    near = [f"in one {group.within.required}"] if group.within.required else []
    near += [f"best in one {group.within.preferred}"] if group.within.preferred else []
    parts = [
        f"{one.minimum} to {one.desired} {one.name} of {one.shape}"
        if isinstance(one, GangRole)
        else _gang(one)
        for one in group.parts
    ]
    return f"[{'; '.join((*near, *parts))}]"


def _placements(plan: Plan) -> list[str]:
    lines = list[str]()
    for placement in plan.placements:
        seats = ", ".join(
            f"{seat.device} {format_gpu(seat.gpu_milli)} GPU {format_mib(seat.memory_bytes)}"
            for seat in placement.seats
        )
        lines += [f"  {placement.job}: {seats}", f"      {placement.why}"]
    return lines or ["  nothing"]


def _rejections(plan: Plan) -> list[str]:
    lines = [
        f"  {key.tenant} {key.priority} {key.shape}\n      {said.sentence}"
        for key, said in plan.rejections.items()
    ]
    return lines or ["  nothing"]
