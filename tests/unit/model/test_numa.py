import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.model.numa import (
    MOST_CPUS,
    NumaNode,
    NumaPart,
    add_numa_parts,
    divide_evenly,
    format_cpus,
    parse_cpus,
    read_host_capacity,
    read_numa_nodes,
    write_numa_nodes,
)

TWO = (NumaNode(0, (0, 1, 8, 9), 4096), NumaNode(1, (2, 3), 2048))
parts = st.lists(
    st.builds(NumaPart, st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), max_size=5
)


@given(st.sets(st.integers(0, MOST_CPUS - 1), max_size=40))
def test_a_list_of_processors_is_read_as_it_was_written(cpus: set[int]) -> None:
    assert parse_cpus(format_cpus(cpus)) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["a", "1-", "3-1", "-1", "0-9999999", "0,,1"])
def test_what_the_kernel_would_not_write_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_cpus(text)


def test_a_hosts_numa_nodes_survive_the_way_through_the_facts() -> None:
    assert read_numa_nodes({"numa": write_numa_nodes(reversed(TWO))}) == TWO
    assert read_numa_nodes({"numa": write_numa_nodes(())}) == read_numa_nodes({}) == ()


def test_a_host_has_what_its_numa_nodes_have_whatever_else_is_told() -> None:
    assert read_host_capacity(
        {"numa": write_numa_nodes(TWO), "cpu_count": 64, "memory_bytes": 1 << 40}
    ) == (
        6000,
        6144,
    )
    assert read_host_capacity({"cpu_count": 64}) == (64_000, 0)
    assert read_host_capacity({"hostname": "a"}) is None


@given(st.sets(st.integers(0, 7), min_size=1), st.integers(1, 200), st.integers(1, 10**6))
def test_a_host_cut_evenly_gives_every_processor_to_one_numa_node(
    numbers: set[int], cpus: int, memory: int
) -> None:
    nodes = divide_evenly(numbers, cpus, memory)
    assert [cpu for node in nodes for cpu in node.cpus] == list(range(cpus))
    assert memory - len(numbers) < sum(node.memory_bytes for node in nodes) <= memory


@given(parts, parts)
def test_what_was_added_and_taken_away_again_leaves_what_was_there(
    some: list[NumaPart], more: list[NumaPart]
) -> None:
    before = add_numa_parts((), some)
    assert add_numa_parts(add_numa_parts(before, more), more, -1) == before
