"""What `explain` promises comes true in the model: if the condition that it names comes about, the
claim starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.model.quota import GPU, UNLIMITED, Quota, QuotaBranch, QuotaLimit, ResourceAmount
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.explain.explain import Explanation, explain_claim
from gpupool.scheduling.explain.reachability import SHORT_SECONDS, find_obstacle, remove_jobs
from gpupool.scheduling.reasons.help_messages import WAIT
from gpupool.scheduling.snapshot.cards import CardStatus
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from tests.support.properties import whole_pools
from tests.support.scheduling_builders import cards, snapshot, waiting

NOW = 1_000_000 * SECOND
TENANTS = ("nlp", "vision", "speech")

often = settings(whole_pools, max_examples=80)

shapes = st.builds(
    Shape, st.sampled_from([300, 500, WHOLE]), st.sampled_from([None, 4 * GIB]), st.sampled_from([1, 1, 2, 4]),
    st.sampled_from([None, None, "T4", "L40S"]),
)  # fmt: skip
parts = st.sampled_from([None, 0, 1000, 2000, 4000, 6000])


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    nominal = draw(parts)
    if nominal is None:
        return UNLIMITED
    borrowing, lending = (
        draw(st.sampled_from([None, 0, 2000])),
        draw(st.sampled_from([None, None, 0, 1000])),
    )
    return Quota.from_limits({GPU: QuotaLimit(nominal, borrowing, lending)})


@st.composite
def pools(draw: st.DrawFn) -> tuple[Snapshot, WaitingClass]:
    """A pool on which a while ago somebody's jobs were placed, and a claim that finds no room or
    has no turn."""
    status = {
        "node-1/0": draw(st.sampled_from([CardStatus.OPEN, CardStatus.OPEN, CardStatus.UNHEALTHY]))
    }
    columns = cards(
        draw(st.sampled_from(["1x2xL40S", "2x2xL40S", "1x4xL40S+1x2xT4"])), status=status
    )
    cohorts = {"lab": QuotaBranch(None, draw(quotas()))} if draw(st.booleans()) else {}
    views: dict[str, TenantView] = {}
    for name in TENANTS:
        within = "lab" if cohorts and draw(st.booleans()) else None
        views[name] = TenantView(draw(quotas()), ResourceAmount(), within)
    empty = replace(snapshot(columns, tenants=views), cohorts=cohorts)
    queue = []
    for number, (want, name, preemptible) in enumerate(
        draw(st.lists(st.tuples(shapes, st.sampled_from(TENANTS), st.booleans()), max_size=7))
    ):
        queue.append(
            replace(
                waiting(f"r{number}", want=want, tenant=name, at=number), preemptible=preemptible
            )
        )
    ends = {one.job_ids[0]: draw(st.sampled_from([None, 60, 600, 7200])) for one in queue}
    busy = _with_running(
        empty, cycle(replace(empty, waiting=tuple(queue)), NOW).placements, queue, ends
    )
    asked = replace(
        waiting("it", want=draw(shapes), tenant=draw(st.sampled_from(TENANTS)), at=99),
        preemptible=draw(st.booleans()),
    )
    return busy, asked


def _with_running(
    empty: Snapshot, placements, queue: list[WaitingClass], ends: Mapping[str, int | None]
) -> Snapshot:  # type: ignore[no-untyped-def]
    of = {one.job_ids[0]: one for one in queue}
    free_milli, free_bytes = empty.cards.free_milli.copy(), empty.cards.free_bytes.copy()
    tenants, running = dict(empty.tenants), []
    for placement in placements:
        was = of[placement.job]
        rows = tuple(empty.cards.uuids.index(seat.device) for seat in placement.seats)
        milli = tuple(seat.gpu_milli for seat in placement.seats)
        sizes = tuple(seat.memory_bytes for seat in placement.seats)
        free_milli[list(rows)] -= milli
        free_bytes[list(rows)] -= sizes
        tenants[was.tenant] = replace(
            tenants[was.tenant],
            held=tenants[was.tenant].held + ResourceAmount(sum(milli), sum(sizes)),
        )
        end = ends[placement.job]
        ends_ns = None if end is None else NOW + end * SECOND
        running.append(
            RunningJob(
                placement.job,
                was.tenant,
                0,
                rows,
                milli,
                sizes,
                was.shape,
                NOW - 3600 * SECOND,
                ends_ns=ends_ns,
                preemptible=was.preemptible,
            )
        )
    columns = replace(empty.cards, free_milli=free_milli, free_bytes=free_bytes)
    return replace(empty, cards=columns, tenants=tenants, running=tuple(running))


def starts(now: Snapshot, at_ns: int = NOW) -> bool:
    return bool(cycle(now, at_ns).placements)


def ended(busy: Snapshot, asked: WaitingClass, until_ns: int | None = None) -> Snapshot:
    """The pool once those have ended that end until then, all of them without an instant; nobody
    else has come."""
    gone = [
        job
        for job in busy.running
        if until_ns is None or (job.ends_ns is not None and job.ends_ns <= until_ns)
    ]
    milli, size, tenants = (
        busy.cards.free_milli.copy(),
        busy.cards.free_bytes.copy(),
        dict(busy.tenants),
    )
    for job in gone:
        milli[list(job.rows)] += job.milli
        size[list(job.rows)] += job.sizes
        view = tenants[job.tenant]
        left = ResourceAmount(
            view.held.gpu_milli - sum(job.milli), view.held.memory_bytes - sum(job.sizes)
        )
        tenants[job.tenant] = replace(view, held=left)
    columns = replace(busy.cards, free_milli=milli, free_bytes=size)
    rest = tuple(job for job in busy.running if job not in gone)
    return replace(busy, cards=columns, tenants=tenants, running=rest, waiting=(asked,))


@often
@given(pools())
def test_what_explain_promises_comes_true(pool: tuple[Snapshot, WaitingClass]) -> None:
    busy, asked = pool
    answer: Explanation = explain_claim(busy, asked, NOW)
    if answer.dominant is None:
        assert starts(replace(busy, waiting=(asked,)))
        return
    if WAIT in answer.helps:
        assert starts(ended(busy, asked)), "it starts as soon as enough is given back"
    if answer.start is not None:
        told = {one.job for one in cycle(replace(busy, waiting=(asked,)), NOW).evictions}
        leaves = tuple(
            replace(job, ends_ns=NOW) if job.job in told else job for job in busy.running
        )
        then = ended(replace(busy, running=leaves), asked, answer.start.at_ns)
        assert starts(then, answer.start.at_ns), (
            "at the latest then; who was told to leave has left"
        )
    if answer.sentence.startswith("cannot start while"):
        assert not starts(ended(busy, asked)), "no end of a job helps"
        assert WAIT not in answer.helps
    if answer.nearest is not None and answer.nearest != asked.shape:
        assert starts(replace(busy, waiting=(replace(asked, shape=answer.nearest),))), "it fits now"
    for one in answer.helps:
        if one.startswith("submit it with"):
            other = replace(asked, preemptible=asked.preemptible or "--preemptible" in one)
            other = replace(other, seconds=SHORT_SECONDS if "--max-time" in one else other.seconds)
            assert starts(ended(busy, other)), one
        if one.startswith("stop jobs of tenant"):
            own = replace(
                busy, running=tuple(job for job in busy.running if job.tenant == asked.tenant)
            )
            assert own.running, "there is something to stop"


@often
@given(pools())
def test_who_could_start_in_the_empty_pool_is_never_told_that_it_cannot(
    pool: tuple[Snapshot, WaitingClass],
) -> None:
    busy, asked = pool
    found = find_obstacle(busy, asked, NOW)
    assert found.can_start == starts(replace(remove_jobs(busy, asked), policy="default"))
    assert found.can_start or not starts(replace(busy, waiting=(asked,)))
