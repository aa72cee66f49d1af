"""A container's cgroup is found in the host's hierarchies and limited by the driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import IsolationNotOffered
from gpupool.kubernetes.node.container_limits import ContainerLimits, ContainerReport
from gpupool.mechanisms.contract import (
    AllocationView,
    FenceLevel,
    GrantedDevice,
    HostKind,
    JobSeat,
    PreparedAllocation,
)
from gpupool.mechanisms.layers.memgroup import DriverMemoryLimits
from gpupool.model.isolation.claim_needs import IsolationKind
from gpupool.probes.memory_limits import MemoryLimit
from gpupool.probes.simulated import parse_sim
from tests.support.scripted_limits import ScriptedDriver

GIB = 1 << 30
CARD = replace(parse_sim("1xL40S")[0].devices[0], simulated=False, driver_version="615.71.09")
GRANT = GrantedDevice(CARD, 300, 8 * GIB, context_bytes=GIB)
PATH = "kubepods.slice/kubepods-pod1f.slice/cri-containerd-aa.scope"
NONE = IsolationKind.NONE
REPORT = ContainerReport("u.main", f"0::/{PATH}\n", own_namespace=True)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The root of a host with cgroup version 2, as the agent sees it."""
    root = tmp_path / "host"
    group = root / "sys/fs/cgroup" / PATH
    group.mkdir(parents=True)
    for above in group.relative_to(root).parents:
        (root / above / "cgroup.controllers").write_text("memory")
    return root


@pytest.fixture
def driver() -> ScriptedDriver:
    return ScriptedDriver()


@pytest.fixture
def limits(driver: ScriptedDriver, host: Path, tmp_path: Path) -> ContainerLimits:
    layer = DriverMemoryLimits(lambda _: driver, lambda: 0)
    return ContainerLimits(tmp_path, host, Path("/run/gpupool/agent.sock"), layer)


@pytest.fixture
def view() -> AllocationView:
    return AllocationView(
        pool="kubernetes",
        allocation="u.main",
        generation=5,
        job="team/train/main",
        tenant="team",
        sharing="fixed",
        granted=(GRANT,),
        node_devices=(CARD,),
        seat=JobSeat(container=True),
        host=HostKind.CONTAINER,
    )


def prepared(tmp_path: Path) -> PreparedAllocation:
    check = ("/state/hook/gpupool-hook", "GP-2018", "2.34")
    return PreparedAllocation({}, (), (), tmp_path, FenceLevel.SOFT, image_check=check)


def test_container_is_limited_where_the_host_has_its_cgroup(
    limits: ContainerLimits,
    driver: ScriptedDriver,
    view: AllocationView,
    host: Path,
) -> None:
    group = host / "sys/fs/cgroup" / PATH
    assert not limits.is_limited("u.main")
    assert limits.limit_container(view, REPORT) == ""
    assert driver.limits == {(CARD.uuid, group): MemoryLimit(0, 9 * GIB)}
    assert limits.is_limited("u.main")
    driver.used[CARD.uuid, group] = GIB
    assert limits.read_used("u.main") == {CARD.uuid: GIB}


def test_limit_that_the_driver_refuses_is_logged_and_claims_nothing(
    limits: ContainerLimits,
    driver: ScriptedDriver,
    view: AllocationView,
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver.refusal = "the driver says no"
    assert limits.limit_container(view, REPORT) == "the driver says no"
    assert not limits.is_limited("u.main")
    assert "team/train/main has the fence's limit alone: the driver says no" in caplog.text


def test_container_that_starts_again_and_is_not_reported_claims_nothing(
    limits: ContainerLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    limits.add_report(view, prepared(tmp_path), NONE)
    limits.limit_container(view, REPORT)
    assert limits.is_limited("u.main")
    limits.add_report(view, prepared(tmp_path), NONE)
    assert not limits.is_limited("u.main")
    assert driver.limits == {}


def test_record_that_cannot_be_written_is_logged_and_claims_nothing(
    limits: ContainerLimits,
    view: AllocationView,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "prepared").write_text("no directory")
    limits.limit_container(view, REPORT)
    assert "team/train/main has the fence's limit alone" in caplog.text


@pytest.mark.parametrize("lines", ["", "4:memory:/a\n", "0::/../../other\n"])
def test_cgroup_that_the_agent_does_not_see_is_not_limited(
    limits: ContainerLimits,
    driver: ScriptedDriver,
    view: AllocationView,
    lines: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    problem = limits.limit_container(view, replace(REPORT, groups=lines))
    assert problem == "the agent does not see its cgroup"
    assert driver.limits == {}
    assert "has no cgroup that the agent sees" in caplog.text


def test_report_is_asked_for_where_the_driver_can_limit(
    limits: ContainerLimits, driver: ScriptedDriver, view: AllocationView, tmp_path: Path
) -> None:
    asked = limits.add_report(view, prepared(tmp_path), NONE).cgroup_report
    assert asked == (
        "/state/hook/gpupool-hook",
        "--report",
        "/run/gpupool/agent.sock",
        "u.main",
    )
    unfenced = replace(prepared(tmp_path), image_check=())
    assert limits.add_report(view, unfenced, NONE).cgroup_report == ()
    driver.absence = "the driver is older than R615"
    assert limits.add_report(view, prepared(tmp_path), NONE).cgroup_report == ()


@pytest.mark.parametrize("isolation", [IsolationKind.HARD, IsolationKind.FAULT])
def test_a_container_that_demands_the_limit_starts_only_with_it(
    limits: ContainerLimits,
    driver: ScriptedDriver,
    view: AllocationView,
    tmp_path: Path,
    isolation: IsolationKind,
) -> None:
    words = limits.add_report(view, prepared(tmp_path), isolation).cgroup_report
    assert words[3:] == ("u.main", "GP-1023")
    soft = limits.add_report(view, prepared(tmp_path), IsolationKind.SOFT).cgroup_report
    assert soft[3:] == ("u.main",)
    driver.absence = "the driver is older than R615"
    with pytest.raises(IsolationNotOffered, match="no memory limit of the driver: the driver is"):
        limits.add_report(view, prepared(tmp_path), isolation)
    driver.absence = ""
    unfenced = replace(prepared(tmp_path), image_check=())
    with pytest.raises(IsolationNotOffered, match="no fence, whose program reports"):
        limits.add_report(view, unfenced, isolation)


def test_a_container_with_all_memory_of_its_card_needs_no_limit(
    limits: ContainerLimits, view: AllocationView, tmp_path: Path
) -> None:
    whole = replace(GRANT, memory_bytes=CARD.memory_bytes)
    made = limits.add_report(
        replace(view, granted=(whole,)), prepared(tmp_path), IsolationKind.HARD
    )
    assert made.cgroup_report == ()
    # Less than a MiB more than a claim can name; a whole card has no fence.
    odd = replace(whole, device=replace(CARD, memory_bytes=CARD.memory_bytes + 12345))
    unfenced = replace(prepared(tmp_path), image_check=())
    made = limits.add_report(replace(view, granted=(odd,)), unfenced, IsolationKind.HARD)
    assert made.cgroup_report == ()


def test_version_1_serves_a_simulated_driver_alone(
    limits: ContainerLimits,
    driver: ScriptedDriver,
    view: AllocationView,
    host: Path,
    tmp_path: Path,
) -> None:
    root = host / "sys/fs/cgroup"
    (root / "cgroup.controllers").unlink()
    group = root / "memory/kubepods/aa"
    group.mkdir(parents=True)
    assert limits.add_report(view, prepared(tmp_path), NONE).cgroup_report == ()
    simulated = replace(view, machine=tmp_path)
    assert limits.add_report(simulated, prepared(tmp_path), NONE).cgroup_report != ()
    lines = "5:cpu,cpuacct:/other\n4:memory:/kubepods/aa\n0::/\n"
    report = replace(REPORT, groups=lines, own_namespace=False)
    # In a cgroup namespace the simulated driver sees other paths than the host.
    limits.limit_container(simulated, replace(report, own_namespace=True))
    assert driver.limits == {}
    limits.limit_container(simulated, report)
    assert list(driver.limits) == [(CARD.uuid, group)]
