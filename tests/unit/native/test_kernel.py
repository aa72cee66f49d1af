"""The compiled placement policies against the same rules in plain Python, under the compiler's
checks."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gpupool.scheduling.filtering.native_abi import NativeAmounts
from gpupool.scheduling.filtering.native_library import ABI, NativeLibrary, load_native_library
from gpupool.scheduling.filtering.native_raters import (
    NativeClasses,
    NativeColumns,
    NativeFgd,
    NativeHostGroups,
    NativeRules,
    NativeStreamFill,
)
from gpupool.scheduling.filtering.native_scores import NativeScores
from gpupool.scheduling.filtering.native_structs import CardGrid
from gpupool.scheduling.scoring.ranking import NOT_FEASIBLE
from tests.unit.native.front_pool import compiler
from tests.unit.native.kernel_pools import (
    NO_CARD,
    Pool,
    plain_fragment,
    plain_value,
    pool_by_chance,
)

STREAMS, LENGTH, QUANTUM, STEP, FRESH = 6, 90, 4, 150, 100


def streams_of(pool: Pool, seed: int) -> np.ndarray:
    classes = len(pool.classes.count)
    return np.random.default_rng(seed).integers(0, classes, size=(STREAMS, LENGTH)).astype(np.int16)


def no_hosts(pool: Pool) -> NativeHostGroups:
    none = np.zeros(0, dtype=np.int64)
    allowed = np.zeros((0, pool.columns.kinds), dtype=np.uint8)
    return NativeHostGroups(none, none, allowed, none, np.zeros((0, 1), dtype=np.int64))


def no_cuts(kinds: int) -> np.ndarray:
    return np.zeros((kinds, 1001), dtype=np.int64)


def filling(
    kernel: NativeLibrary,
    pool: Pool,
    seed: int,
    hosts: NativeHostGroups | None = None,
    cuts: np.ndarray | None = None,
) -> NativeStreamFill:
    cuts = no_cuts(pool.columns.kinds) if cuts is None else cuts
    rules = NativeRules(streams_of(pool, seed), QUANTUM, STEP * STREAMS, FRESH * STREAMS, cuts)
    return NativeStreamFill(kernel, pool.columns, pool.classes, rules, hosts or no_hosts(pool))


def by_paper(total: int) -> np.ndarray:
    """The least D of the scores 1 to 99, times the sum of the weights."""
    return np.array(
        [math.ceil(total * 1000 * math.log(s / (100 - s))) for s in range(1, 100)], dtype=np.int64
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_value_is_what_the_streams_fill(kernel: NativeLibrary, seed: int) -> None:
    pool = pool_by_chance(seed)
    filled, streams = filling(kernel, pool, seed), streams_of(pool, seed).tolist()
    values = [filled.compute_value(node) for node in range(40)]
    assert values == [plain_value(pool, streams, QUANTUM, node) for node in range(40)]
    assert max(values) > 0


@pytest.mark.parametrize("seed", range(6))
def test_parts_of_cards_are_worth_something_while_processors_are_left_for_any_class(
    kernel: NativeLibrary, seed: int
) -> None:
    pool = pool_by_chance(seed)
    chance, kinds = np.random.default_rng(seed), pool.columns.kinds
    cuts = np.zeros((kinds, 1001), dtype=np.int64)
    runs = (pool.classes.allowed == 1) & (pool.classes.count > 0)[:, None]
    least = [min(pool.classes.milli[some], default=1000) for some in runs.T]
    modest = [min(-(-pool.classes.cpu[some] // QUANTUM), default=1 << 60) for some in runs.T]
    for kind in range(kinds):
        of_menu = next(n for n in range(kinds) if (runs[:, n] == runs[:, kind]).all())
        cuts[kind] = (
            cuts[of_menu] if of_menu < kind else np.sort(chance.integers(0, 9000, size=1001))
        )
        cuts[kind, : least[kind]] = 0
    pool.columns.cpu[::3] //= 40
    plain, cut = filling(kernel, pool, seed), filling(kernel, pool, seed, cuts=cuts)
    for node in range(40):
        kind, cards = pool.columns.kind[node], pool.columns.grid.grid[node]
        some = pool.columns.cpu[node] // QUANTUM >= modest[kind]
        more = sum(int(cuts[kind, size]) for size in cards.tolist() if size > 0) if some else 0
        assert cut.compute_value(node) == plain.compute_value(node) + more


@pytest.mark.parametrize("seed", range(6))
def test_without_streams_a_value_is_what_the_classes_could_use(
    kernel: NativeLibrary, seed: int
) -> None:
    pool = pool_by_chance(seed)
    weight = np.random.default_rng(seed).integers(1, 9, size=len(pool.classes.count))
    rules = NativeRules(
        np.zeros((0, 0), dtype=np.int16), 1, STEP, FRESH, no_cuts(pool.columns.kinds), weight
    )
    worth = NativeStreamFill(kernel, pool.columns, pool.classes, rules, no_hosts(pool))
    columns = pool.columns
    lines = list(
        zip(columns.grid.grid.tolist(), columns.cpu.tolist(), columns.kind.tolist(), strict=True)
    )
    free = [int(weight.sum()) * sum(size for size in cards if size > 0) for cards, _, _ in lines]
    expected = [
        left - plain_fragment(pool, weight.tolist(), *line)
        for left, line in zip(free, lines, strict=True)
    ]
    assert [worth.compute_value(node) for node in range(len(lines))] == expected
    assert max(expected) > 0


def test_nodes_may_have_64_cards(kernel: NativeLibrary) -> None:
    pool = pool_by_chance(1, nodes=6, width=64)
    filled, streams = filling(kernel, pool, 1), streams_of(pool, 1).tolist()
    assert [filled.compute_value(node) for node in range(6)] == [
        plain_value(pool, streams, QUANTUM, n) for n in range(6)
    ]


def test_a_grid_that_is_wider_is_refused(kernel: NativeLibrary) -> None:
    pool = pool_by_chance(1, nodes=2, width=65)
    with pytest.raises(MemoryError, match="too many cards"):
        filling(kernel, pool, 1)


def test_a_value_is_computed_once_for_equal_states(kernel: NativeLibrary) -> None:
    pool = pool_by_chance(2)
    filled = filling(kernel, pool, 2)
    first = filled.compute_value(0)
    computed = filled.computed_values
    pool.columns.grid.grid[1], pool.columns.cpu[1] = (
        pool.columns.grid.grid[0][::-1],
        pool.columns.cpu[0],
    )
    pool.columns.kind[1] = pool.columns.kind[0]
    assert (filled.compute_value(1), filled.computed_values) == (first, computed)


def test_remembering_too_much_forgets_and_answers_the_same(kernel: NativeLibrary) -> None:
    pool = pool_by_chance(3, nodes=1, width=1)
    pool.columns.grid.grid[0, 0] = 1000
    streams = np.zeros((1, 1), dtype=np.int16)
    classes = NativeClasses(*(np.array([n]) for n in (1, 500, 1)), np.ones((1, 3), dtype=np.uint8))
    filled = NativeStreamFill(
        kernel, pool.columns, classes, NativeRules(streams, 1, 1, 0, no_cuts(3)), no_hosts(pool)
    )
    for cpu in range(1, 140_000):
        pool.columns.cpu[0] = cpu
        assert filled.compute_value(0) == 500
    assert filled.computed_values == 139_999
    pool.columns.cpu[0] = 1
    assert filled.compute_value(0) == 500
    assert filled.computed_values == 140_000


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "shape", [(1, 300, 2000), (1, 1000, 8000), (2, 1000, 1000), (2, 500, 0), (0, 0, 3000)]
)
def test_stream_fill_scores_what_a_claim_displaces(
    kernel: NativeLibrary, seed: int, shape: tuple[int, int, int]
) -> None:
    pool = pool_by_chance(seed)
    kinds = pool.columns.kinds
    chance = np.random.default_rng(seed)
    hosts = NativeHostGroups(
        np.array([2, 4]),
        np.array([9_000, 0]),
        chance.choice((0, 1), size=(2, kinds)).astype(np.uint8),
        chance.integers(0, 900_000, size=2),
        np.array([[0, 0, 0, 0, 0], [0, 300, 90, 27, 0]]),
    )
    toll = chance.integers(0, 50_000, size=kinds)
    filled, asked = filling(kernel, pool, seed, hosts), pool.asked(*shape)
    nodes = pool.feasible(asked)
    expected = [
        max(plain_scores(pool, seed, hosts, toll, shape, int(node)).values()) for node in nodes
    ]
    assert filled.rate_nodes(asked, 0, toll, nodes).tolist() == expected
    assert filled.rate_nodes(asked, 0, toll, nodes).tolist() == expected, (
        "what is remembered of them is the same"
    )
    hosts.price[:] = 0
    fewer = [
        max(plain_scores(pool, seed, hosts, toll, shape, int(node)).values()) for node in nodes
    ]
    assert filled.rate_nodes(asked, 0, toll, nodes).tolist() == fewer, (
        "a price is read at every call"
    )


@pytest.mark.parametrize("seed", range(4))
def test_stream_fill_takes_the_card_with_the_best_score(kernel: NativeLibrary, seed: int) -> None:
    pool, shape = pool_by_chance(seed), (1, 300, 2000)
    toll = np.zeros(pool.columns.kinds, dtype=np.int64)
    filled, asked = filling(kernel, pool, seed), pool.asked(*shape)
    for node in pool.feasible(asked):
        scores = plain_scores(pool, seed, no_hosts(pool), toll, shape, int(node))
        rows = filled.order_cards(asked, toll, int(node)).tolist()
        assert rows == sorted(scores, key=lambda row: (-scores[row], row))


def plain_scores(
    pool: Pool,
    seed: int,
    hosts: NativeHostGroups,
    toll: np.ndarray,
    shape: tuple[int, int, int],
    node: int,
) -> dict[int, int]:
    """By row of a card that may be taken (0 where it makes no difference): the score."""
    count, milli, cpu = shape
    grid, streams = pool.columns.grid.grid, streams_of(pool, seed).tolist()
    before = plain_value(pool, streams, QUANTUM, node)
    slots = plain_slots(pool, hosts, node)
    scores = {}
    for way in ways(grid[node], count, milli):
        after = np.array(grid[node])
        after[list(way)] -= milli
        kept = grid[node].copy(), int(pool.columns.cpu[node])
        grid[node] = after
        pool.columns.cpu[node] -= cpu
        gain = count * milli * STREAMS - before + plain_value(pool, streams, QUANTUM, node)
        lost = [b - a for b, a in zip(slots, plain_slots(pool, hosts, node), strict=True)]
        grid[node], pool.columns.cpu[node] = kept
        opened = sum(int(grid[node][at]) == 1000 for at in way) if milli < 1000 else 0
        fresh = FRESH * STREAMS * opened
        paid = (
            fresh
            + int(toll[pool.columns.kind[node]])
            + sum(p * n for p, n in zip(hosts.price, lost, strict=True)) // 1000
        )
        row = int(pool.columns.grid.rows[node, way[0]]) if count == 1 else 0
        scores[row] = int((gain - paid) // (STEP * STREAMS))
    return scores


def ways(cards: np.ndarray, count: int, milli: int) -> list[tuple[int, ...]]:
    """Every card for one share; else the tightest ones."""
    fitting = sorted((int(left), at) for at, left in enumerate(cards) if left >= max(milli, 0))
    if count == 1 and milli < 1000:
        return [(at,) for _, at in fitting]
    return [tuple(at for _, at in fitting[:count])]


def plain_slots(pool: Pool, hosts: NativeHostGroups, node: int) -> list[int]:
    """By group in thousandths, with what a slot counts that lacks some cards and nothing else."""
    whole, cpu = int((pool.columns.grid.grid[node] == 1000).sum()), int(pool.columns.cpu[node])
    kind = pool.columns.kind[node]
    found = []
    for group, (count, each) in enumerate(
        zip(hosts.count.tolist(), hosts.cpu.tolist(), strict=True)
    ):
        by_cards = whole // count
        by_cpu = cpu // each if each else by_cards + 1
        near = int(hosts.near_slot[group, -whole % count]) if by_cpu > by_cards else 0
        found.append(1000 * min(by_cards, by_cpu) + near if hosts.allowed[group, kind] else 0)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "shape", [(1, 300, 2000), (1, 1000, 8000), (2, 1000, 1000), (2, 500, 0), (0, 0, 3000)]
)
def test_fgd_scores_the_fragments_that_grow_least(
    kernel: NativeLibrary, seed: int, shape: tuple[int, int, int]
) -> None:
    pool = pool_by_chance(seed)
    weight = np.random.default_rng(seed).integers(1, 90, size=len(pool.classes.count))
    total = int(weight.sum())
    fgd, asked = (
        NativeFgd(kernel, pool.columns, pool.classes, weight, by_paper(total)),
        pool.asked(*shape),
    )
    nodes = pool.feasible(asked)
    expected = []
    for node in nodes:
        grid, cpu, kind = (
            pool.columns.grid.grid[node],
            int(pool.columns.cpu[node]),
            int(pool.columns.kind[node]),
        )
        before = plain_fragment(pool, weight.tolist(), grid.tolist(), cpu, kind)
        assert fgd.compute_fragment(int(node)) == before
        scores = []
        for way in ways(grid, shape[0], shape[1]):
            after = np.array(grid)
            after[list(way)] -= shape[1]
            gain = before - plain_fragment(
                pool, weight.tolist(), after.tolist(), cpu - shape[2], kind
            )
            scores.append(math.trunc(100 / (1 + math.exp(-gain / total / 1000))))
        expected.append(max(scores))
    assert fgd.rate_nodes(asked, nodes).tolist() == expected
    assert len(set(expected)) > 1 or shape[0] == 0


def test_cards_that_do_not_fit_are_not_taken_and_closed_ones_never_count(
    kernel: NativeLibrary,
) -> None:
    columns = NativeColumns(
        CardGrid(np.array([[NO_CARD, 500, 300, 1000]]), np.array([[0, 1, 2, 3]]), np.array([4])),
        np.array([8000]),
        np.array([0]),
        1,
    )
    classes = NativeClasses(
        *(np.array([n]) for n in (1, 300, 1000)), np.ones((1, 1), dtype=np.uint8)
    )
    pool = Pool(columns, classes, np.array([1, 0, 1, 0], dtype=np.int8))
    fgd = NativeFgd(kernel, columns, classes, np.array([1]), by_paper(1))
    assert set(fgd.order_cards(pool.asked(1, 300, 1000), 0).tolist()) == {1, 3}
    assert fgd.order_cards(pool.asked(1, 1000, 1000), 0).tolist() == [3]
    assert filling_one(kernel, columns, classes).compute_value(0) == 5 * 300


def filling_one(
    kernel: NativeLibrary, columns: NativeColumns, classes: NativeClasses
) -> NativeStreamFill:
    none = np.zeros(0, dtype=np.int64)
    allowed = np.zeros((0, 1), dtype=np.uint8)
    hosts = NativeHostGroups(none, none, allowed, none, np.zeros((0, 1), dtype=np.int64))
    return NativeStreamFill(
        kernel,
        columns,
        classes,
        NativeRules(np.zeros((1, 64), dtype=np.int16), 1, 1, 0, no_cuts(columns.kinds)),
        hosts,
    )


def test_a_library_that_is_not_there_or_of_another_kind_is_none(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    source = tmp_path / "other.c"
    source.write_text(f"int kernel_abi(void);\nint kernel_abi(void) {{ return {ABI + 1}; }}\n")
    subprocess.run(
        [compiler(), "-shared", "-fPIC", str(source), "-o", str(tmp_path / "other.so")], check=True
    )
    assert load_native_library(None) is None
    assert load_native_library(tmp_path / "none.so") is None
    assert load_native_library(tmp_path / "text.so") is None
    assert load_native_library(tmp_path / "other.so") is None


def test_shapes_whose_processors_are_exchanged_with_those_of_nodes_are_told_apart(
    kernel: NativeLibrary,
) -> None:
    pool = pool_by_chance(4)
    columns = pool.columns
    columns.cpu[:] = np.where(np.arange(len(columns.cpu)) % 2, 4000, 8000)
    toll, known = np.zeros(columns.kinds, dtype=np.int64), filling(kernel, pool, 4)
    for slot, cpu in enumerate((4000, 8000, 4000)):
        asked = pool.asked(1, 100, cpu)
        nodes = pool.feasible(asked)
        anew = filling(kernel, pool, 4).rate_nodes(asked, slot, toll, nodes)
        assert known.rate_nodes(asked, slot, toll, nodes).tolist() == anew.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_mending_a_list_writes_the_scores_of_roomy_nodes_and_knows_the_best(
    kernel: NativeLibrary, seed: int
) -> None:
    pool, chance = pool_by_chance(seed, nodes=700), np.random.default_rng(seed)
    count, asked = len(pool.columns.cpu), pool.asked(1, 300, 500)
    rank, roomy = chance.permutation(count), np.zeros(count, dtype=np.bool_)
    scores = np.full(count, NOT_FEASIBLE, dtype=np.int64)
    filled, toll = filling(kernel, pool, seed), np.zeros(pool.columns.kinds, dtype=np.int64)
    kept, listed = NativeScores(kernel, scores, rank, roomy), np.arange(count)
    for some in (1.0, 0.7, 0.3, 0.7, 0.0):
        feasible = pool.feasible(asked)
        roomy[:] = False
        roomy[feasible[chance.random(len(feasible)) < some]] = True
        filled.update_scores(asked, 0, toll, kept, listed.ctypes.data, count)
        for _ in range(5):
            nodes, expected = np.flatnonzero(roomy), np.full(count, NOT_FEASIBLE, dtype=np.int64)
            expected[rank[nodes]] = filled.rate_nodes(asked, 1, toll, nodes)
            assert scores.tolist() == expected.tolist()
            assert kept.find_best() == (int(expected.argmax()) if roomy.any() else -1)
            changed = chance.integers(0, count, size=60)  # some twice
            pool.columns.cpu[changed] //= 2
            roomy[changed] &= pool.columns.cpu[changed] >= 500
            filled.update_scores(asked, 0, toll, kept, changed.ctypes.data, len(changed))


def test_amounts_are_added_to_cards_and_node_and_closed_cards_stay_closed(
    kernel: NativeLibrary,
) -> None:
    milli, size, cpu, host = (np.full(n, 1000, dtype=np.int64) for n in (6, 6, 2, 2))
    slot, open_ = np.array([0, 1, 2, 3, 4, 5]), np.array([True, False, True, True, True, True])
    grid = np.where(open_, milli, NO_CARD).reshape(2, 3)
    amounts = NativeAmounts(
        kernel, milli=milli, size=size, cpu=cpu, host=host, grid=grid, slot=slot, open=open_
    )
    amounts.add_amounts(-1, 0, np.array([0, 1]), 300, np.array([10, 20]), 5, 7)
    assert (milli.tolist(), size.tolist()) == ([700, 700, *[1000] * 4], [990, 980, *[1000] * 4])
    assert (cpu.tolist(), host.tolist(), grid[0].tolist()) == (
        [995, 1000],
        [993, 1000],
        [700, NO_CARD, 1000],
    )
    amounts.add_amounts(1, 0, np.array([0, 1]), 300, np.array([10, 20]), 5, 7)
    assert (set(milli.tolist()), set(size.tolist()), cpu.tolist()) == ({1000}, {1000}, [1000, 1000])
