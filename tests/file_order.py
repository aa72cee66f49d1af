"""A pytest plugin: with `--dist loadfile` or `loadscope` the longest files of a run go first.

A process takes whole files. A long one that comes last keeps one process at work while the others have
none left. `-p tests.support.cpu_times` prints the seconds of each file; a figure that is old costs time
and nothing else.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

#: Seconds by the clock of files that take long, on two busy processors.
LONG_FILES = {
    "tests/adversary/test_full_disk.py": 45,
    "tests/adversary/test_silence.py": 35,
    "tests/adversary/test_threads.py": 110,
    "tests/adversary/test_time_evasions.py": 90,
    "tests/api/test_openapi.py": 30,
    "tests/faults/test_fence_kills.py": 40,
    "tests/faults/test_gang_steps.py": 45,
    "tests/faults/test_kills.py": 60,
    "tests/faults/test_weather.py": 60,
    "tests/hosts/test_cgroup_v2.py": 31,
    "tests/hosts/test_guest_sysfs.py": 26,
    "tests/hosts/test_mode_switch.py": 30,
    "tests/hosts/test_network_floating.py": 22,
    "tests/hosts/test_network_flow_logs.py": 20,
    "tests/hosts/test_network_gateways.py": 60,
    "tests/hosts/test_network_http.py": 25,
    "tests/hosts/test_network_isolation.py": 22,
    "tests/hosts/test_network_limits.py": 24,
    "tests/hosts/test_network_lines.py": 35,
    "tests/hosts/test_network_several_machines.py": 45,
    "tests/hosts/test_network_verify.py": 27,
    "tests/hosts/test_network_verify_gateways.py": 25,
    "tests/hosts/test_network_vms.py": 40,
    "tests/hosts/test_network_zones.py": 22,
    "tests/hosts/test_networks.py": 90,
    "tests/hosts/test_vm_kills.py": 40,
    # The real node's, by far the longest of one process.
    "tests/kubernetes/installed/test_installed.py": 90,
    "tests/kubernetes/rig/test_killed.py": 120,
    "tests/kubernetes/faults/test_kills.py": 120,
    "tests/kubernetes/faults/test_leading.py": 80,
    "tests/kubernetes/faults/test_metered.py": 60,
}
#: Assumed of a file that is not listed.
SECONDS_OF_A_TEST = 0.5


class LongestFirst(LoadScopeScheduling):
    """A file is one process's; of those that are left the longest is the next."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return file

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=self._estimate_seconds)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def _estimate_seconds(self, scope: str) -> float:
        files = {nodeid.partition("::")[0] for nodeid in self.workqueue[scope]}
        listed = sum(LONG_FILES.get(file, 0) for file in files)
        return listed or len(self.workqueue[scope]) * SECONDS_OF_A_TEST


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    return LongestFirst(config, log) if config.getoption("dist") == "loadfile" else None
