from pathlib import Path

from gpupool.model.numa import NumaNode
from gpupool.probes.numa import list_usable_cpus, read_numa


def machine(root: Path, **nodes: tuple[str, int]) -> Path:
    """A sysfs of which each node has a list of processors and KiB of memory."""
    for name, (cpus, kib) in nodes.items():
        node = root / "devices/system/node" / name
        node.mkdir(parents=True)
        (node / "cpulist").write_text(cpus + "\n")
        number = name.removeprefix("node")
        (node / "meminfo").write_text(
            f"Node {number} MemTotal: {kib} kB\nNode {number} MemFree: 1 kB\n"
        )
    return root


def test_numa_nodes_come_by_number_with_their_processors_and_memory(tmp_path: Path) -> None:
    root = machine(tmp_path, node10=("4-5", 2048), node2=("0-3", 1024))
    assert read_numa(range(6), 0, root) == (
        NumaNode(2, (0, 1, 2, 3), 1024 << 10),
        NumaNode(10, (4, 5), 2048 << 10),
    )


def test_only_processors_that_may_be_used_count_and_no_memory_without_any(tmp_path: Path) -> None:
    root = machine(tmp_path, node0=("0-3", 1024), node1=("4-7", 1024), node2=("", 4096))
    assert read_numa({2, 3}, 0, root) == (NumaNode(0, (2, 3), 1024 << 10),)


def test_where_the_kernel_says_nothing_everything_is_one_numa_node(tmp_path: Path) -> None:
    assert read_numa({1, 0}, 4096, tmp_path) == (NumaNode(0, (0, 1), 4096),)
    damaged = machine(tmp_path, node0=("0-x", 1024))
    assert read_numa({0}, 4096, damaged) == (NumaNode(0, (0,), 4096),)


def test_this_machine_has_every_processor_that_we_may_use_once() -> None:
    cpus = [cpu for node in read_numa(list_usable_cpus(), 1 << 30) for cpu in node.cpus]
    assert sorted(cpus) == sorted(list_usable_cpus())
