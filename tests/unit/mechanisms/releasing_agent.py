"""Run by the tests in a process of its own, with the fake library on its path: does to NVML what an
agent does, while a switch runs a step, and prints what it saw as JSON.

Arguments: the state directory, the folder of the nodes, and the folder of the step's files.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from gpupool.base.errors import ProbeSuspended
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.released_step import await_released_steps, run_released_step
from gpupool.probes.nvml import NvmlProbe
from gpupool.probes.nvml.gate import GATE

#: Looks at every process of the host until it may end: 9 where one has a card open.
STEP = """
import pathlib, sys, time
from gpupool.mechanisms.pci.holders import find_holders, format_holders
nodes, folder = map(pathlib.Path, sys.argv[1:])
with open(folder / "runs", "a") as runs:
    runs.write("run\\n")
while True:
    holders = find_holders(nodes.glob("nvidia*"))
    if holders:
        print(format_holders(holders))
        sys.exit(9)
    with open(folder / "looks", "a") as looks:
        looks.write("look\\n")
    if (folder / "go").exists():
        sys.exit(0)
    time.sleep(0.02)
"""


class Readers:
    """Threads that read the cards again and again, and wait for events, as an agent's do."""

    def __init__(self, probe: NvmlProbe) -> None:
        self.probe = probe
        self.uuids = [device.uuid for device in probe.scan().devices]
        self.counts = {"read": 0, "suspended": 0}
        self.has_read = threading.Event()
        self.closing = threading.Event()
        self.threads = [threading.Thread(target=one) for one in (self._sample, self._wait_events)]
        for thread in self.threads:
            thread.start()

    def _sample(self) -> None:
        while not self.closing.wait(0.005):
            try:
                assert len(self.probe.observe(self.uuids)) == len(self.uuids)
                assert self.probe.health()
                self.counts["read"] += 1
                self.has_read.set()
            except ProbeSuspended:
                self.counts["suspended"] += 1

    def _wait_events(self) -> None:
        while not self.closing.is_set():
            self.probe.wait_events(0.05)

    def end(self) -> bool:
        """End the threads; whether none of them has failed before."""
        alive = all(thread.is_alive() for thread in self.threads)
        self.closing.set()
        for thread in self.threads:
            thread.join(10)
        return alive


def main() -> None:
    state, nodes, folder = map(Path, sys.argv[1:])
    await_released_steps(state)
    probe = NvmlProbe()
    readers = Readers(probe)
    assert readers.has_read.wait(10)
    print("ready", flush=True)
    step = [sys.executable, "-c", STEP, str(nodes), str(folder)]
    while True:
        answer = run_released_step(state / "modes", "reset-card", step, "card 0 is reset")
        if not isinstance(answer, NotYet):
            break
        time.sleep(0.02)
    assert GATE.await_end(10)
    devices = probe.scan().devices
    report = {
        "exit_code": answer.exit_code,
        "output": answer.output,
        "devices": len(devices),
        "alive": readers.end(),
        **readers.counts,
    }
    probe.close()
    print(json.dumps(report), flush=True)


main()
