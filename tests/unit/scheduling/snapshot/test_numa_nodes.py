from gpupool.base.units import GIB
from gpupool.model.numa import NumaNode
from gpupool.scheduling.snapshot.numa_nodes import build_numa_nodes


def test_a_card_of_unknown_numa_node_is_on_the_only_one_and_else_on_none() -> None:
    one, two = (NumaNode(0, (0, 1), GIB),), (NumaNode(0, (0,), GIB), NumaNode(1, (1,), GIB))
    found = build_numa_nodes([one, two, ()], [(0, None), (1, None), (1, 1), (2, 0)], [()] * 3)
    assert found is not None
    assert found.of_card.tolist() == [0, -1, 2, -1]
