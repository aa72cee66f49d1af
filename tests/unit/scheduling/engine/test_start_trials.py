from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.timeline import earliest_start
from tests.support.promise_builders import full, held_by, placed, plan, workers
from tests.support.quota_builders import member
from tests.support.scheduling_builders import MODELS, cards, shape, snapshot, waiting, whole
from tests.support.time_builders import running, used_by


def test_a_gang_keeps_the_seats_it_was_promised_where_looking_anew_finds_it_none_as_early() -> None:
    columns = cards("2x2xT4", used=used_by("node-1/0") | {"node-2/1": (600, 2 * GIB)})
    jobs = [
        running("until", columns, "node-1/0", ends=46),
        running("beside", columns, "node-2/1", ends=90, milli=600, size=2 * GIB),
    ]
    pair, card = GangRole("pair", shape(300, 9 * GIB, 2), 1, 1), GangRole("card", whole(), 2, 2)
    root, members = GangGroup("g", (pair, card)), ("g.0", "g.1", "g.2")
    gang = replace(waiting(*members, want=pair.shape), gang=Gang("g", root, members), seconds=30)
    before = snapshot(columns, gang)
    assert plan(before, jobs).starts[gang.key].at_ns == 90 * SECOND
    size = MODELS["T4"]
    kept = PlannedStart(
        46 * SECOND, (2, 3, 0, 1), True, (300, 300, 1000, 1000), (9 * GIB, 9 * GIB, size, size)
    )
    again = plan(before, jobs, previous_starts={gang.key: kept}).starts[gang.key]
    assert (again.at_ns, again.rows, again.milli, again.sizes) == (
        kept.at_ns,
        kept.rows,
        kept.milli,
        kept.sizes,
    )
    later = replace(before, cards=cards("2x2xT4", used={"node-2/1": (600, 2 * GIB)}))
    assert placed(plan(later, jobs[1:], now=46)) == []
    found = plan(later, jobs[1:], now=46, previous_starts={gang.key: kept})
    assert [seat.device for one in found.placements for seat in one.seats] == [
        "node-2/0",
        "node-2/1",
        "node-1/0",
        "node-1/1",
    ]


def test_gangs_alike_of_tenants_with_quotas_of_compute_are_seated_once_in_a_plan() -> None:
    columns = full("1x8xT4", 0, 1)
    seated = []
    original = earliest_start.try_on_columns

    def counted(*arguments):
        seated.append(arguments)
        return original(*arguments)

    for limits, times in (({}, 1), ({"memory_gib": (100, 0)}, 2)):
        tenants = {name: member(gpu=(3, 0), holds=1, **limits) for name in ("nlp", "web")}
        gangs = [workers(name, 3, tenant=name) for name in tenants]
        alike = [
            replace(one, gang=replace(one.gang, root=replace(one.gang.root, name="all")))
            for one in gangs
        ]
        jobs = [*held_by("nlp", columns, None), *held_by("web", columns, None, first=1)]
        seated.clear()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(earliest_start, "try_on_columns", counted)
            plan(snapshot(columns, *alike, tenants=tenants), jobs)
        assert len(seated) == times
