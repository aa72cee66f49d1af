"""What the supervisor is told: where a job is to run beside its cards, and the limits that its
agent can give."""

from pathlib import Path

import pytest

from gpupool.agent.jobs.launch import (
    LaunchSettings,
    NumaBinding,
    bind_to_numa_nodes,
    make_allocation_view,
    make_job_spec,
)
from gpupool.agent.supervisor.client import ResourceLimit
from gpupool.base.errors import NotFound
from gpupool.mechanisms.contract import PreparedAllocation
from gpupool.probes.simulated import parse_sim
from gpupool.wire.fleet import NumaWork, WorkOut, WorkSeat


def part(numa: int, cpus: str, cpu_milli: int = 1000, host_bytes: int = 0) -> NumaWork:
    return NumaWork(numa=numa, cpus=cpus, cpu_milli=cpu_milli, host_bytes=host_bytes)


def test_a_job_is_kept_to_all_processors_of_the_numa_nodes_that_its_own_are_of() -> None:
    assert bind_to_numa_nodes([part(1, "4-7")], range(8)) == NumaBinding("4-7")
    assert bind_to_numa_nodes([part(0, "0-3"), part(2, "8-11")], range(12)) == NumaBinding(
        "0-3,8-11"
    )


def test_memory_alone_keeps_a_job_to_no_processors() -> None:
    assert bind_to_numa_nodes([part(1, "4-7", 0, 4096)], range(8)) == NumaBinding(None, "1")


def test_only_processors_that_we_may_use_are_named_and_all_of_them_are_no_restriction() -> None:
    assert bind_to_numa_nodes([part(0, "0-3")], {2, 3, 4}) == NumaBinding("2-3")
    assert bind_to_numa_nodes([part(0, "0-3")], {2, 3}) == NumaBinding(None)


def test_a_host_without_those_processors_says_so_and_the_job_runs_anywhere() -> None:
    assert bind_to_numa_nodes([part(1, "48-95")], {0, 1}) == NumaBinding(
        shortfall="processors 48-95 of its NUMA node are not on this host"
    )


def test_nothing_known_is_nothing_kept() -> None:
    assert bind_to_numa_nodes([], {0, 1}) == NumaBinding()


def test_a_job_gets_no_limit_above_what_its_agent_can_give() -> None:
    work = WorkOut(
        allocation="a-0000000001",
        generation=1,
        job="j-0000000001",
        job_name="train-1",
        want="run",
        tenant="default",
        user="ann",
        sharing="fixed",
        seats=[],
        argv=["true"],
        cwd="/",
        env={},
        umask=0o22,
        limits={
            "nofile": (1024, 524_288),
            "stack": (8 << 20, -1),
            "core": (0, -1),
            "nproc": (10, 20),
        },
        run_as=None,
        attached=False,
        max_seconds=None,
        started=False,
    )
    settings = LaunchSettings(
        "p-test", 0, 0, fixed_hard_limits={"nofile": 512, "stack": 16 << 20, "nproc": 100}
    )
    limits = make_job_spec(
        work, PreparedAllocation({}, (), (), Path("/share"), "none"), settings, ()
    ).limits
    assert limits == {
        "nofile": ResourceLimit(512, 512),
        "stack": ResourceLimit(8 << 20, 16 << 20),
        "core": ResourceLimit(0, None),
        "nproc": ResourceLimit(10, 20),
    }


def test_a_partition_keeps_the_slot_that_the_server_chose() -> None:
    card = parse_sim("1xH200:mig")[0].devices[0]
    seat = WorkSeat(
        uuid=card.uuid,
        index=0,
        model="H200",
        gpu_milli=285,
        memory_bytes=1,
        profile="2g.35gb",
        start=4,
    )
    work = WorkOut(
        allocation="a-1",
        generation=1,
        job="j-1",
        job_name="train",
        want="run",
        tenant="default",
        user="ann",
        sharing="fixed",
        seats=[seat],
        argv=["true"],
        cwd="/",
        env={},
        umask=0o22,
        limits={},
        run_as=None,
        attached=False,
        max_seconds=None,
        started=False,
    )
    (grant,) = make_allocation_view(work, LaunchSettings("p", 0, 0), {"n": (card,)}).granted
    assert (grant.profile, grant.start) == ("2g.35gb", 4)


def test_work_without_a_card_is_prepared_on_its_node_and_sees_none_of_its_cards() -> None:
    cards = parse_sim("2xL40S")[0].devices
    work = WorkOut(
        allocation="a-1",
        generation=1,
        job="j-1",
        job_name="build",
        want="run",
        tenant="default",
        user="ann",
        sharing="fixed",
        seats=[],
        node="node-1",
        argv=["gpupool:vm"],
        cwd="/",
        env={},
        umask=0o22,
        limits={},
        run_as=None,
        attached=False,
        max_seconds=None,
        started=False,
    )
    view = make_allocation_view(work, LaunchSettings("p", 1000, 1000), {"node-1": cards})
    assert (view.granted, view.node_devices, view.machine) == ((), cards, None)
    with pytest.raises(NotFound, match="its node is gone"):
        make_allocation_view(work, LaunchSettings("p", 1000, 1000), {"node-2": cards})
