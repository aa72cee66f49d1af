"""Since when seats are held and until when they were: nothing is lost between two writes, and
nothing counted twice."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.units import MIB
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.ledger.billing_intervals import MOST_ENDED, is_overflowing, plan_update
from gpupool.kubernetes.ledger.journal import build_page, read_page
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.model.allocation import Seat
from gpupool.model.partition import PartitionSlot
from tests.support.ledger_entries import entry

S = 10**9


def after(node: GpuNode, entries: list[Entry], now_ns: int) -> GpuNode:
    """The node when this was written to it."""
    then = plan_update(node, entries, now_ns)
    return replace(
        node, entries=then.entries, ended=then.ended, ledger_ns=then.at_ns, version=node.version + 1
    )


def test_who_comes_is_held_from_then_on_and_who_goes_has_ended() -> None:
    node = after(GpuNode("n"), [entry("a")], 5 * S)
    assert [(one.uid, one.held_ns) for one in node.entries] == [("a", 5 * S)]
    node = after(node, [replace(node.entries[0], state=EntryState.ACTIVE), entry("b")], 7 * S)
    assert [one.held_ns for one in node.entries] == [5 * S, 7 * S]
    node = after(node, [node.entries[1]], 9 * S)
    assert [(one.uid, one.held_ns, one.ended_ns) for one in node.ended] == [("a", 5 * S, 9 * S)]


@pytest.mark.parametrize("change", [{"tenant": "other"}, {"seats": (Seat("GPU-0", 500, 1 << 30),)}])
def test_another_size_or_tenant_ends_one_stretch_and_begins_the_next(
    change: dict[str, object],
) -> None:
    node = after(GpuNode("n"), [entry("a")], 5 * S)
    node = after(node, [replace(node.entries[0], **change)], 8 * S)  # type: ignore[arg-type]
    (was,), (now,) = node.ended, node.entries
    assert (was.seats, was.tenant, was.held_ns, was.ended_ns, now.held_ns) == (
        entry("a").seats,
        "team",
        5 * S,
        8 * S,
        8 * S,
    )


def test_what_ended_has_what_its_agent_told_last_of_its_use() -> None:
    node = after(GpuNode("n"), [entry("a"), entry("b"), entry("c")], 5 * S)
    node = replace(
        node,
        slots=(
            SlotUse("a", "main", released=True, spent=GpuTime(0)),
            SlotUse("b", "main", spent=GpuTime(1700)),
        ),
    )
    node = replace(node, slots=(*node.slots, SlotUse("c", "main")))
    ended = {one.uid: one.spent for one in after(node, [], 9 * S).ended}
    assert ended == {"a": GpuTime(0), "b": GpuTime(1700), "c": None}


def test_a_leader_whose_clock_is_behind_goes_on_from_the_ledgers() -> None:
    node = after(after(GpuNode("n"), [entry("a")], 100 * S), [entry("b")], 20 * S)
    (ended,), (held,) = node.ended, node.entries
    assert ended.ended_ns == held.held_ns == node.ledger_ns == 100 * S + 1


def test_what_is_in_the_books_is_let_go_with_the_next_write() -> None:
    node = after(after(GpuNode("n"), [entry("a")], 1 * S), [], 2 * S)
    told = replace(node, metered_ns=node.ended[0].ended_ns)
    assert after(told, [entry("b")], 3 * S).ended == ()
    assert [one.uid for one in after(replace(node, metered_ns=1), [entry("b")], 3 * S).ended] == [
        "a"
    ]


def test_entries_of_before_anybody_metered_are_counted_from_the_next_write_on() -> None:
    node = GpuNode("n", entries=(entry("old"), entry("older")))
    node = after(node, [node.entries[0]], 4 * S)
    assert ([one.held_ns for one in node.entries], node.ended) == ([4 * S], ())


class Kept:
    """A journal that takes what it gets, or refuses it."""

    def __init__(self, takes: bool = True) -> None:
        self.takes, self.pages = takes, []  # type: ignore[var-annotated]

    async def store_page(self, node: str, ended: tuple[ClosedInterval, ...]) -> bool:
        self.pages.append(ended)
        return self.takes


class Server(KubeApi):
    """Takes every patch and answers with what it makes."""

    def __init__(self) -> None:
        self.spec: dict[str, object] = {}

    async def patch(
        self, path: str, body: object, kind: str = "", accept: str = ""
    ) -> dict[str, object]:
        assert isinstance(body, list)
        self.spec |= {
            one["path"].rpartition("/")[2]: one["value"] for one in body if one["op"] == "add"
        }
        version = body[0]["value"] + 1
        return {"metadata": {"name": "n", "generation": version, "resourceVersion": str(version)}}


@pytest.mark.parametrize(("takes", "left"), [(True, 1), (False, MOST_ENDED + 1)])
def test_more_than_a_ledger_keeps_goes_to_the_journal_or_stays(takes: bool, left: int) -> None:
    server, journal, node = Server(), Kept(takes), GpuNode("n")
    for number in range(MOST_ENDED + 2):
        written = asyncio.run(
            ledger.write_entries(server, node, [entry(f"u{number}")], number, journal)
        )  # type: ignore[arg-type]
        assert written is not None
        node = written
    assert (len(node.ended), len(journal.pages)) == (left, 1)
    told = {one.uid for one in [*node.ended, *(journal.pages[0] if takes else ())]}
    assert told == {f"u{n}" for n in range(MOST_ENDED + 1)}


def test_where_nobody_meters_nothing_is_kept() -> None:
    server, node = Server(), GpuNode("n")
    for number in range(3):
        node = (
            asyncio.run(ledger.write_entries(server, node, [entry(f"u{number}")], number)) or node
        )
    assert (node.ended, "ended" in server.spec) == ((), False)


steps = st.lists(
    st.tuples(
        st.sets(st.sampled_from(["a", "b", "c"])),
        st.integers(-3 * S, 3 * S),
        st.sampled_from([100, 250]),
    ),
    max_size=20,
)


@given(steps)
def test_stretches_of_one_seat_meet_and_never_overlap(
    found: list[tuple[set[str], int, int]],
) -> None:
    node, wall, written = GpuNode("n"), 10 * S, [10 * S]
    for uids, moved, milli in found:
        wall = max(0, wall + moved)
        had = {one.uid: one for one in node.entries}
        node = after(
            node,
            [replace(had.get(u, entry(u)), seats=entry(u, milli).seats) for u in sorted(uids)],
            wall,
        )
        written.append(node.ledger_ns)
    assert all(one < other for one, other in pairwise(written[1:]))
    by_uid = defaultdict(list)
    for one in node.ended:
        by_uid[one.uid].append((one.held_ns, one.ended_ns))
    for held in node.entries:
        by_uid[held.uid].append((held.held_ns, node.ledger_ns + 1))
    for spans in by_uid.values():
        assert all(start < end for start, end in spans)
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(spans)))


def test_intervals_of_many_seats_go_to_the_journal_before_a_page_is_too_large() -> None:
    """A ConfigMap takes 1 MiB, and a container may have every partition of a node."""
    seats = []
    for number in range(56):
        slot = PartitionSlot(number // 8, 1, "1g.18gb")
        uuid = f"GPU-{number % 8:08x}-0000-0000-0000-000000000000"
        seats.append(Seat(uuid, 142, 16 << 30, slot))
    node = GpuNode("n")
    pages = list[str]()
    for number in range(MOST_ENDED):
        held = after(node, [replace(entry(f"u{number}"), seats=tuple(seats))], (2 * number + 1) * S)
        then = plan_update(held, [], (2 * number + 2) * S)
        if is_overflowing(then):
            pages.append(json.dumps(build_page("n", "gpupool", held.ended)))
            then = replace(then, ended=then.ended[len(held.ended) :])
        node = replace(held, entries=(), ended=then.ended, ledger_ns=then.at_ns)
    pages.append(json.dumps(build_page("n", "gpupool", node.ended)))
    assert max(map(len, pages)) < MIB
    assert sum(len(read_page(json.loads(page))[1]) for page in pages) == MOST_ENDED
