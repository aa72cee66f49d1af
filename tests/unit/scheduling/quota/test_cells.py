import numpy as np

from gpupool.model.topology import DeviceLink, Topology
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.cells import CellQuotas, number_cells
from gpupool.scheduling.snapshot.cards import CardStatus
from tests.support.quota_builders import cohort, member, runs, tree
from tests.support.scheduling_builders import cards

POOL = "3x2xH200"


def kept(found, running=(), pool=POOL, **rest) -> CellQuotas:
    used = {
        f"node-{row // 2 + 1}/{row % 2}": (1000, 1 << 30) for job in running for row in job.rows
    }
    return CellQuotas(found, FreeCapacity(cards(pool, used=used, **rest)), running)


def closed_nodes(cells: CellQuotas, tenant: str) -> list[int]:
    mask = cells.find_closed_cards(tenant)
    return [] if mask is None else sorted({int(row) // 2 for row in np.flatnonzero(mask)})


def test_without_guaranteed_cells_nothing_is_closed() -> None:
    found = tree(POOL, nlp=member(gpu=4), guest=member())
    assert kept(found).find_closed_cards("guest") is None


def test_others_leave_as_many_untouched_nodes_as_are_owed() -> None:
    found = tree(POOL, nlp=member(nodes=(2, None, 0)), guest=member())
    cells = kept(found)
    assert closed_nodes(cells, "guest") == []
    cells.add_seats("guest", np.array([0]))
    assert closed_nodes(cells, "guest") == [1, 2]
    assert closed_nodes(cells, "nlp") == []


def test_what_is_lent_is_open_to_others() -> None:
    found = tree(POOL, nlp=member(nodes=3), guest=member())
    assert closed_nodes(kept(found), "guest") == []


def test_a_node_that_its_owner_is_alone_on_is_closed_to_others_even_where_cards_of_it_are_free() -> (
    None
):
    found = tree(POOL, nlp=member(nodes=(1, None, 0)), guest=member())
    cells = kept(found, [runs("j", "nlp", 2)])
    assert closed_nodes(cells, "guest") == [1]
    assert closed_nodes(cells, "nlp") == []


def test_more_cells_than_are_guaranteed_are_not_kept() -> None:
    found = tree(POOL, nlp=member(nodes=(1, None, 0)), guest=member())
    cells = kept(found, [runs("small", "nlp", 0), runs("large", "nlp", 2, 3)])
    assert closed_nodes(cells, "guest") == [1]


def test_a_node_that_is_shared_or_not_open_is_owed_anew() -> None:
    found = tree(POOL, nlp=member(nodes=(1, None, 0)), guest=member())
    cells = kept(
        found,
        [runs("j", "nlp", 0), runs("k", "guest", 1)],
        status={"node-2/0": CardStatus.DRAINING},
    )
    assert closed_nodes(cells, "guest") == [2]


def test_a_cohort_keeps_cells_for_those_in_it_together() -> None:
    found = tree(
        POOL, {"lab": cohort(nodes=(2, None, 0))}, a=member("lab"), b=member("lab"), guest=member()
    )
    cells = kept(found, [runs("j", "a", 0)])
    assert closed_nodes(cells, "b") == []
    cells.add_seats("guest", np.array([2]))
    assert closed_nodes(cells, "guest") == [0, 2]


def test_a_limit_of_cells_closes_the_untouched_ones_to_who_has_reached_it() -> None:
    found = tree(POOL, nlp=member(nodes=(1, 0)))
    assert closed_nodes(kept(found, [runs("j", "nlp", 0)]), "nlp") == [1, 2]


def test_a_trial_that_is_rolled_back_leaves_nothing() -> None:
    found = tree(POOL, nlp=member(nodes=(2, None, 0)), guest=member())
    cells = kept(found)
    mark = cells.mark()
    cells.add_seats("nlp", np.array([0]))
    cells.add_seats("guest", np.array([0, 2]))
    cells.rollback(mark)
    assert closed_nodes(cells, "guest") == []
    cells.add_seats("guest", np.array([0]))
    assert closed_nodes(cells, "guest") == [1, 2]


def test_a_cell_on_which_something_unknown_is_held_is_nobodys() -> None:
    found = tree(POOL, nlp=member(nodes=(1, None, 0)), guest=member())
    cells = CellQuotas(
        found, FreeCapacity(cards(POOL, used={"node-1/0": (500, 0), "node-2/0": (500, 0)})), ()
    )
    assert closed_nodes(cells, "guest") == [2]


def test_a_cell_of_a_model_has_only_cards_of_it() -> None:
    pool = cards("1x2xH200+1x2xL40S")
    assert number_cells("node:H200", pool).tolist() == [0, 0, -1, -1]


def test_a_cell_of_a_vendor_has_only_cards_of_it() -> None:
    pool = cards("1x2xH200+1x2xMI300X+1x2xL40S")
    assert number_cells("node:NVIDIA", pool).tolist() == [0, 0, -1, -1, 2, 2]


def test_nvlink_domains_are_cells_of_more_than_one_card() -> None:
    from dataclasses import replace

    pool = cards("2x3xH200")
    pairs = {
        n: Topology(pool.uuids[n * 3 : n * 3 + 3], (DeviceLink(*pool.uuids[n * 3 : n * 3 + 2]),))
        for n in range(2)
    }
    assert number_cells("nvlink", replace(pool, links=pairs)).tolist() == [0, 0, -1, 1, 1, -1]
