"""Resource limits that a request names and its sender does not have: the job gets the sender's at
most."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from gpupool.client.transport import Api
from gpupool.model.job_limits import PROCESSES_DEFAULT
from tests.e2e.pool_fixture import RealPool

pytestmark = pytest.mark.adversary

GREEDY = {
    "nofile": [20_000, 20_000],
    "rtprio": [99, 99],
    "nice": [40, 40],
    "memlock": [-1, -1],
    "core": [10**6, -1],
}
TELL = """
import json, resource
names = ("nofile", "rtprio", "nice", "memlock")
print(json.dumps({name: resource.getrlimit(getattr(resource, "RLIMIT_" + name.upper())) for name in names}))
"""
SEND = """
import json, resource, sys
from gpupool.base.client_settings import client_settings
from gpupool.client.transport import Api
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 1024))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 65536))
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
Api(client_settings(state_dir=sys.argv[1])).request("POST", "jobs", json.loads(sys.argv[2]))
"""


def body(name: str, argv: list[str], limits: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "shape": {"gpu_milli": 1000},
        "launch": {"argv": argv, "cwd": "/", "limits": limits},
    }


def told(pool: RealPool, name: str) -> Any:
    assert pool.until_state(name, "done", "failed")["state"] == "done", pool.job(name)
    return json.loads(pool.do("logs", name))


def test_a_caller_cannot_raise_its_own_limits(pool: RealPool) -> None:
    wanted = json.dumps(body("greedy", [sys.executable, "-c", TELL], GREEDY))
    subprocess.run([sys.executable, "-c", SEND, str(pool.state_dir), wanted], check=True)
    got = told(pool, "greedy")
    assert got == {
        "nofile": [1024, 1024],
        "rtprio": [0, 0],
        "nice": [0, 0],
        "memlock": [65536, 65536],
    }


def test_a_caller_that_names_no_limit_gets_its_own_not_the_pools(pool: RealPool) -> None:
    wanted = json.dumps(body("modest", [sys.executable, "-c", TELL], {}))
    subprocess.run([sys.executable, "-c", SEND, str(pool.state_dir), wanted], check=True)
    assert told(pool, "modest") == {
        "nofile": [512, 1024],
        "rtprio": [0, 0],
        "nice": [0, 0],
        "memlock": [4096, 65536],
    }


@pytest.mark.root
def test_a_job_cannot_take_all_processes_or_memory_of_its_node(pool: RealPool, api: Api) -> None:
    program = """
import json, os
groups = {}
for line in open("/proc/self/cgroup"):
    _, names, path = line.strip().split(":")
    groups |= dict.fromkeys(names.split(","), path)
found = {}
for root, name, files in (("pids", "pids", ("pids.max",)), ("memory", "memory", ("memory.limit_in_bytes",)),
                          ("", "", ("pids.max", "memory.max"))):
    for base in ("/sys/fs/cgroup/" + root, "/sys/fs/cgroup/unified"):
        for file in files:
            path = base + groups.get(name, "/nowhere") + "/" + file
            if os.path.exists(path):
                found[file.split(".")[0]] = open(path).read().strip()
print(json.dumps(found))
"""
    api.request("POST", "jobs", body("bounded", [sys.executable, "-c", program], {}))
    found = told(pool, "bounded")
    if not found:
        pytest.skip("no cgroup controller for processes or memory here")
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < int(found["pids"]) <= PROCESSES_DEFAULT
    assert 0 < int(found["memory"]) < most
