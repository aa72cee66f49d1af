"""A cluster's nodes in the books: what its ledgers say is counted to the second, once, however it
is told."""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.allocations.cache.card_columns import read_card_rows
from gpupool.base.errors import WriteConflict, WrongState
from gpupool.base.units import GIB, MIB
from gpupool.metering.clusters import ClusterBooks
from gpupool.metering.rollup import roll_up
from gpupool.store.database import sqlite_url
from gpupool.wire.cluster import ClusterNodeIn, ClusterNodeOut, ClusterVersion
from gpupool.wire.report import ReportRow
from tests.support.metering_books import ADMIN, DAY, START_S, Pool, S
from tests.support.properties import whole_pools

CARDS = [
    {"uuid": f"GPU-c{n}", "index": n, "model": "L40S", "memory_bytes": 48 * GIB} for n in range(2)
]


def held(
    uid: str, at_s: float, *, card: int = 0, milli: int = 300, ended_s: float | None = None
) -> dict[str, Any]:
    seat = {"uuid": f"GPU-c{card}", "gpu_milli": milli, "memory_bytes": 8 * GIB}
    who = {
        "uid": uid,
        "namespace": "space",
        "pod": uid,
        "container": "main",
        "tenant": "team",
        "account": "runner",
    }
    ended = {} if ended_s is None else {"ended_ns": START_S * S + int(ended_s * S)}
    return {**who, "seats": [seat], "held_ns": START_S * S + int(at_s * S), **ended}


def tell(
    pool: Pool, generation: int = 1, *, node: str = "kube-1", born: int = 1, **more: Any
) -> ClusterNodeOut:
    body = ClusterNodeIn.model_validate(
        {"born_ns": born, "generation": generation, "cards": CARDS, **more}
    )
    return ClusterBooks(pool.store, pool.metering).record_node(node, body, "meter")


def rows(pool: Pool, *by: str) -> list[ReportRow]:
    """What tenants held so far; the books close."""
    report = pool.metering.make_report(ADMIN, 0, pool.now_s() * S, by or ("tenant",))
    assert report.closes
    return [row for row in report.rows if row.kind == "tenant"]


def seconds(pool: Pool, milli: int = 300) -> int:
    return sum(row.card_milliseconds for row in rows(pool)) // milli


def test_held_and_ended_are_counted_by_whole_seconds_of_the_ledgers_instants(
    any_pool: Pool,
) -> None:
    any_pool.time.forward(100)
    tell(any_pool, held=[held("a", 10.9)], ended=[held("b", 12.9, ended_s=20.1, card=1)])
    by_job = {row.job: row for row in rows(any_pool, "tenant", "project", "user", "job")}
    assert by_job["a"].card_milliseconds == 300 * (any_pool.now_s() - START_S - 10)
    assert by_job["b"].card_milliseconds == 300 * (20 - 12)
    assert by_job["b"].memory_mib_seconds == 8 * GIB // MIB * 8
    names = {(row.tenant, row.project, row.user, row.job_name) for row in by_job.values()}
    assert names == {
        ("team", "space", "space:runner", "space/a"),
        ("team", "space", "space:runner", "space/b"),
    }


def test_what_is_told_again_or_late_changes_nothing(any_pool: Pool) -> None:
    any_pool.time.forward(60)
    first = {"held": [held("a", 5)]}
    then: dict[str, Any] = {"held": [], "ended": [held("a", 5, ended_s=25)]}
    assert (tell(any_pool, 1, **first).opened, tell(any_pool, 1, **first).opened) == (1, 0)
    assert (tell(any_pool, 2, **then).closed, tell(any_pool, 2, **then).closed) == (1, 0)
    late = tell(any_pool, 1, **first)
    assert (late.applied, seconds(any_pool)) == (False, 20)


def test_a_cluster_that_was_put_back_goes_on_from_its_older_copy(any_pool: Pool) -> None:
    """a has ended since that copy and holds again, b was not there yet, c was there all the
    time."""
    any_pool.time.forward(60)
    tell(any_pool, 7, held=[held("b", 20), held("c", 1)], ended=[held("a", 5, ended_s=25)])
    older = {"held": [held("a", 5), held("c", 1)]}
    known = tell(any_pool, 3, **older).known
    assert known == ClusterVersion(born_ns=1, generation=7)
    assert not tell(
        any_pool, 3, **older, instead_of={**known.model_dump(), "generation": 6}
    ).applied
    for _ in range(2):
        back = tell(any_pool, 3, **older, instead_of=known)
        assert (back.applied, back.known) == (True, None)
        any_pool.time.forward(10)
    ended = [held("a", 5, ended_s=70), held("c", 1, ended_s=75)]
    tell(any_pool, 4, held=[], ended=ended)
    counted = {row.job: row.card_milliseconds // 300 for row in rows(any_pool, "job")}
    assert counted == {"a": 20 + 10, "b": 40, "c": 74}


def test_what_ended_before_it_was_held_again_is_not_counted_again(any_pool: Pool) -> None:
    any_pool.time.forward(60)
    over = [held("a", 5, ended_s=25)]
    known = tell(any_pool, 7, ended=over).known or ClusterVersion(born_ns=1, generation=7)
    tell(any_pool, 3, held=[held("a", 5)], ended=over, whole=False, instead_of=known)
    any_pool.time.forward(10)
    assert seconds(any_pool) == 20
    known = ClusterVersion(born_ns=1, generation=3)
    tell(any_pool, 2, held=[held("a", 5)], whole=False, instead_of=known)
    tell(any_pool, 2, ended=over)
    any_pool.time.forward(10)
    assert seconds(any_pool) == 20


def delivered(pool: Pool) -> dict[str, int | None]:
    return {row.job or "": row.delivered_gpu_milliseconds for row in rows(pool, "job")}


def test_what_containers_used_is_beside_what_they_held_and_counted_once(any_pool: Pool) -> None:
    any_pool.time.forward(60)
    for used in (400, 400, 1000, 900):
        tell(any_pool, 1, held=[{**held("a", 5), "gpu_milliseconds": used}, held("b", 5, card=1)])
    assert delivered(any_pool) == {"a": 1000, "b": None}
    ended = {**held("a", 5, ended_s=50), "gpu_milliseconds": 1300}
    for _ in range(2):
        tell(any_pool, 2, held=[held("b", 5, card=1)], ended=[ended])
    assert delivered(any_pool) == {"a": 1300, "b": None}
    assert [
        row.delivered_gpu_milliseconds for row in rows(any_pool, "tenant", "project", "user")
    ] == [1300]


def test_what_a_page_says_has_ended_and_an_older_ledger_still_held_is_counted_once(
    any_pool: Pool,
) -> None:
    """The meter reads the journal after the ledgers: what ended between the two is in both."""
    any_pool.time.forward(60)
    still = {**held("a", 5), "gpu_milliseconds": 400}
    over = {**held("a", 5, ended_s=50), "gpu_milliseconds": 1300}
    for _ in range(2):
        tell(any_pool, 1, held=[still], ended=[over], whole=False)
    assert delivered(any_pool) == {"a": 1300}
    assert seconds(any_pool) == 45


def test_each_stretch_of_a_container_has_its_own_part_of_what_it_used(any_pool: Pool) -> None:
    """Its tenant changes while it runs, and its sum goes on."""
    any_pool.time.forward(60)
    first = {**held("a", 5, ended_s=20), "gpu_milliseconds": 700}
    then = {**held("a", 20, ended_s=40), "tenant": "other", "gpu_milliseconds": 900}
    last = {**held("a", 40), "gpu_milliseconds": 1500}
    for _ in range(2):
        tell(any_pool, 3, held=[last], ended=[then, first])
    found = {row.tenant: row.delivered_gpu_milliseconds for row in rows(any_pool, "tenant")}
    assert found == {"team": 700 + 600, "other": 200}


def promised(pool: Pool, by: str) -> dict[str, tuple[int | None, ...]]:
    found = {}
    for row in rows(pool, by):
        sums = (
            row.kept_gpu_milliseconds,
            row.borrowed_gpu_milliseconds,
            row.denied_gpu_milliseconds,
        )
        found[str(getattr(row, by))] = sums
    return found


def use(gpu: int, borrowed: int, denied: int) -> dict[str, int]:
    return {
        "gpu_milliseconds": gpu,
        "borrowed_milliseconds": borrowed,
        "denied_milliseconds": denied,
    }


def test_promise_of_a_container_is_in_the_books_once(any_pool: Pool) -> None:
    any_pool.time.forward(60)
    uncounted = {**held("b", 5, card=1), "gpu_milliseconds": 8}
    for sums in (use(400, 0, 5), use(400, 0, 5), use(1000, 300, 60)):
        tell(any_pool, 1, held=[{**held("a", 5), **sums}, uncounted])
    assert promised(any_pool, "job") == {"a": (700, 300, 60), "b": (None, None, None)}
    ended = {**held("a", 5, ended_s=50), **use(1300, 350, 60)}
    for _ in range(2):
        tell(any_pool, 2, held=[uncounted], ended=[ended])
    assert promised(any_pool, "job")["a"] == (950, 350, 60)


def test_promise_is_divided_among_the_stretches_of_a_container(any_pool: Pool) -> None:
    any_pool.time.forward(60)
    first = {**held("a", 5, ended_s=20), **use(700, 100, 9)}
    last = {**held("a", 20), "tenant": "other", **use(900, 250, 9)}
    for _ in range(2):
        tell(any_pool, 3, held=[last], ended=[first])
    assert promised(any_pool, "tenant") == {"team": (600, 100, 9), "other": (50, 150, 0)}


def test_a_part_of_what_ended_ends_nothing_else(any_pool: Pool) -> None:
    any_pool.time.forward(60)
    tell(any_pool, 1, held=[held("a", 5), held("b", 7)])
    part = tell(any_pool, 3, held=[held("d", 50)], ended=[held("a", 5, ended_s=25)], whole=False)
    assert (part.opened, part.closed) == (1, 1)
    rest = tell(
        any_pool,
        3,
        held=[held("d", 50)],
        ended=[held("b", 7, ended_s=30), held("c", 31, ended_s=40)],
    )
    assert (rest.opened, rest.closed) == (1, 2)
    counted = {row.job: row.card_milliseconds // 300 for row in rows(any_pool, "job")}
    assert counted == {"a": 20, "b": 23, "c": 9, "d": 10}


def test_days_after_an_end_it_is_counted_only_until_then(any_pool: Pool) -> None:
    any_pool.time.forward(10)
    tell(any_pool, 1, held=[held("a", 5)])
    any_pool.time.forward(5 * DAY)
    roll_up(any_pool.store)
    tell(any_pool, 2, ended=[held("a", 5, ended_s=DAY + 5.5)])
    roll_up(any_pool.store)
    assert seconds(any_pool) == DAY


def test_a_node_that_comes_again_has_a_new_ledger_and_the_old_ones_holds_end(
    any_pool: Pool,
) -> None:
    any_pool.time.forward(30)
    tell(any_pool, 7, held=[held("a", 0)])
    assert tell(any_pool, 1, born=2).closed == 1
    assert not tell(any_pool, 8, born=1, held=[held("a", 0)]).applied


def test_a_node_that_is_no_more_holds_nothing_and_gives_nothing(any_pool: Pool) -> None:
    any_pool.time.forward(30)
    tell(any_pool, 1, held=[held("a", 10)])
    books = ClusterBooks(any_pool.store, any_pool.metering)
    assert (books.list_nodes("meter"), books.list_nodes("another")) == (["kube-1"], [])
    books.end_node("kube-1", "another")
    assert books.list_nodes("meter") == ["kube-1"]
    for _ in range(2):
        books.end_node("kube-1", "meter")
        any_pool.time.forward(30)
    assert (books.list_nodes("meter"), seconds(any_pool)) == ([], 20)
    report = any_pool.metering.make_report(ADMIN, 0, any_pool.now_s() * S, ["card"])
    given = sum(
        row.card_milliseconds for row in report.rows if (row.device or "").startswith("kube-1:")
    )
    assert (given, report.closes) == (20_000, True)


def test_a_card_that_its_node_shows_no_more_still_closes(any_pool: Pool) -> None:
    any_pool.time.forward(30)
    tell(any_pool, 1, held=[held("a", 0), held("x", 3, card=7)])
    any_pool.time.forward(30)
    tell(
        any_pool, 2, cards=CARDS[1:], held=[held("a", 0)], ended=[held("x", 3, card=7, ended_s=13)]
    )
    any_pool.time.forward(30)
    assert {row.job: row.card_milliseconds for row in rows(any_pool, "job")}["a"] == 300 * (
        any_pool.now_s() - START_S
    )


def test_what_was_held_of_cards_that_no_statement_shows_is_counted_all_of_it(
    any_pool: Pool,
) -> None:
    """As pages of a journal are told whose ledger is gone; also where the card was shown for less
    than a second."""
    any_pool.time.forward(60)
    over = [
        held("a", 5, ended_s=15),
        held("b", 20, ended_s=30),
        held("c", 25, ended_s=45),
        held("d", 1, ended_s=3),
    ]
    tell(any_pool, 1)
    tell(any_pool, 1, cards=[], ended=over, whole=False)
    assert seconds(any_pool) == 10 + 10 + 20 + 2
    strangers = [
        {**one, "uid": one["uid"] * 2, "seats": [{**one["seats"][0], "uuid": "GPU-c7"}]}
        for one in over
    ]
    for one in strangers:
        tell(any_pool, 1, cards=[], ended=[one], whole=False)
    assert seconds(any_pool) == 2 * (10 + 10 + 20 + 2)


def test_nothing_is_placed_there_and_nobody_changes_it_from_here(any_pool: Pool) -> None:
    tell(any_pool, held=[held("a", 0)])
    with any_pool.store.read() as connection:
        assert {row.node for row in read_card_rows(connection)} == {"node-1"}
    shown = any_pool.fleet.get_device("kube-1:0", ADMIN)
    assert (shown.cluster, shown.used_milli, shown.shares, shown.largest_milli) == (True, 300, 1, 0)
    assert (
        any_pool.fleet.get_node("kube-1").cluster,
        any_pool.fleet.get_node("node-1").cluster,
    ) == (
        True,
        False,
    )
    for change in (
        lambda: any_pool.fleet.adopt_devices(["kube-1:0"], ADMIN),
        lambda: _released(any_pool),
    ):
        with pytest.raises(WrongState, match="belongs to a cluster"):
            change()
    with pytest.raises(WriteConflict, match="own"):
        tell(any_pool, node="node-1", cards=[])
    body = ClusterNodeIn(born_ns=2, generation=1, cards=[])
    with pytest.raises(WriteConflict, match="told by meter"):
        ClusterBooks(any_pool.store, any_pool.metering).record_node("kube-1", body, "another")


def _released(pool: Pool) -> object:
    return pool.fleet.release_devices(["kube-1:0"], False, ADMIN)


def test_who_holds_on_a_cluster_is_no_user_that_can_log_in_and_keeps_no_quota(
    any_pool: Pool,
) -> None:
    tell(any_pool, held=[held("a", 0)])
    live = any_pool.metering.read_usage(ADMIN, any_pool.fleet.get_usage)
    (team,) = [one for one in live.tenants if one.tenant == "team"]
    assert (team.held_milli, team.held_bytes, team.jobs) == (300, 8 * GIB, 1)


lives = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from([0.0, 0.3, 1.0, 61.25, 3600.5, 3 * DAY + 0.75]),
        st.booleans(),
    ),
    min_size=3,
    max_size=25,
)


@settings(whole_pools, max_examples=20)
@given(lives, st.randoms(use_true_random=False))
def test_books_close_for_any_lives_and_any_loss_of_answers(
    found: list[tuple[int, float, bool]], dice: random.Random
) -> None:
    """Pods come and go on one card; statements are told never, once or twice, and their answers get
    lost."""
    with tempfile.TemporaryDirectory() as directory:
        pool = Pool(sqlite_url(Path(directory) / "gpupool.db"))
        try:
            _live(pool, found, dice)
        finally:
            pool.engine.dispose()


def _live(pool: Pool, found: list[tuple[int, float, bool]], dice: random.Random) -> None:
    now, generation = 0.0, 1
    open_: dict[str, dict[str, Any]] = {}
    untold: list[dict[str, Any]] = []
    total: dict[str, int] = defaultdict(int)
    for number, wait, told in found:
        pool.time.forward(wait)
        now, generation = now + wait + 0.001, generation + 1
        pool.time.forward(0.001)
        uid = f"p{number}"
        if uid in open_:
            over = {**open_.pop(uid), "ended_ns": START_S * S + int(now * S)}
            untold.append(over)
            total[uid] += over["ended_ns"] // S - over["held_ns"] // S
        elif len(open_) < 3:
            open_[uid] = held(uid, now)
        if told:
            body = {"held": list(open_.values()), "ended": list(untold)}
            if dice.random() < 0.5:
                assert tell(
                    pool, generation, **body | {"ended": untold[: len(untold) // 2], "whole": False}
                ).applied
            for _ in range(dice.choice((1, 1, 2))):
                assert tell(pool, generation, **body).applied
            if dice.random() < 0.7:
                untold.clear()  # the answer came
            roll_up(pool.store, dice.choice((0, 1, 1000)))
    tell(pool, generation + 1, held=list(open_.values()), ended=untold)
    for uid, one in open_.items():
        total[uid] += pool.now_s() - one["held_ns"] // S
    assert seconds(pool) == sum(total.values())
    roll_up(pool.store)
    assert seconds(pool) == sum(total.values())
