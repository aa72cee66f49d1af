"""Memory limits and containers on a host whose cgroups are of version 2 alone: a guest in QEMU.

The guest shows this machine's own files, so its Podman, crun and gpupool are those of this machine.
`cgroup_program.py` runs there as root. No virtualisation is needed; the processor is emulated.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hosts import container_account
from tests.support.guest_image import build_host_archive, build_host_command, find_missing_part

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part()),
]
needs_podman = pytest.mark.skipif(
    shutil.which("crun") is None or bool(container_account.find_missing_part()),
    reason=container_account.find_missing_part() or "crun is not installed",
)
#: On two cores the guest took 28 s at a load of 17.
TIMEOUT_SECONDS = 400
CHECKOUT = Path(__file__).parents[2]
SCRIPT = (
    f"cd {CHECKOUT} && PYTHONDONTWRITEBYTECODE=1 {sys.executable} -m tests.hosts.cgroup_program"
)


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the guest printed, by check; containers by their account, `container root` for root's."""
    archive = tmp_path_factory.mktemp("guest") / "archive.gz"
    build_host_archive(archive)
    done = subprocess.run(
        build_host_command(archive, SCRIPT),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    assert "command ended with 0" in output, output[-4000:]
    found = {}
    for line in output.splitlines():
        at = line.find('{"check"')
        if at >= 0:
            entry = json.loads(line[at:])
            kind = "root" if entry.get("account") == "root" else "other"
            found[f"{entry['check']} {kind}" if "account" in entry else entry["check"]] = entry
    return found


def test_the_guest_has_cgroups_of_version_2_alone(checks: dict[str, Any]) -> None:
    assert checks["host"]["versions"] == [2]


def test_a_program_past_the_fence_gets_its_limit_to_the_byte(checks: dict[str, Any]) -> None:
    memory = checks["memory"]
    assert memory["leaf_first"], "the job's cgroup is there before its supervisor"
    assert memory["level"] == "hard"
    assert memory["inside"] == "0::/gpupool-guest/job-1"
    assert memory["used"] == memory["hard"]


def test_the_limit_and_the_cgroup_go_with_the_job(checks: dict[str, Any]) -> None:
    assert checks["memory"]["left"] == []
    assert checks["memory"]["limits"] == "gpupool memory limits 1\n"


def test_a_controller_is_enabled_down_to_the_jobs_cgroup(checks: dict[str, Any]) -> None:
    controller = checks["controller"]
    assert "rdma" not in controller["before"]
    assert "rdma.max" in controller["leaf"]


@needs_podman
@pytest.mark.parametrize("account", ["other", "root"])
def test_crun_leaves_a_container_in_its_jobs_cgroup(checks: dict[str, Any], account: str) -> None:
    assert checks["host"]["runtime"].endswith("/crun")
    container = checks[f"container {account}"]
    assert container["inside"] == f"0::/gpupool-guest/container-{container['account']}"
    assert container["is_member"]
    # The container's own attempt to leave the cgroup printed nothing.
    assert container["output"] == "up\n"
    assert not container["alive"]
