"""Counts the packets that meters of the switch kept from the log of its controller."""

from __future__ import annotations

import re
import subprocess
from typing import Final

from gpupool.agent.network.daemons import BRIDGE, EngineFiles
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.flows.rows import METER_PREFIX
from gpupool.network.ovn.control import ask_controller

#: Seconds in which a switch answers.
_ANSWER_SECONDS: Final = 10.0


def read_meter_drops(files: EngineFiles) -> dict[str, int]:
    """Read how many packets each meter of flow logs has dropped since it was made, by name.

    Blocks for the switch. Raises NetworkingUnavailable where it does not answer.
    """
    numbers = parse_meter_numbers(ask_controller(files.run, "meter-table-list"))
    if not numbers:
        return {}
    command = (
        "ovs-ofctl",
        "-O",
        "OpenFlow13",
        "meter-stats",
        f"unix:{files.run}/{BRIDGE}.mgmt",
    )
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkingUnavailable(f"the switch does not answer: {error}") from error
    if done.returncode != 0:
        raise NetworkingUnavailable(f"the switch does not answer: {done.stderr.strip()[:200]}")
    drops = parse_drops(done.stdout)
    return {name: drops.get(number, 0) for name, number in numbers.items()}


def parse_meter_numbers(text: str) -> dict[str, int]:
    """Parse `meter-table-list` of ovn-controller(8): the meters of flow logs, by name."""
    found = re.findall(rf"^({METER_PREFIX}\S+): (\d+)$", text, re.MULTILINE)
    return {name: int(number) for name, number in found}


def parse_drops(text: str) -> dict[int, int]:
    """Parse `meter-stats` of ovs-ofctl(8): packets that the first band dropped, by meter."""
    drops = dict[int, int]()
    for block in re.split(r"\n(?=meter:)", text):
        number = re.search(r"^meter:(\d+)", block, re.MULTILINE)
        count = re.search(r"^0: packet_count:(\d+)", block, re.MULTILINE)
        if number is not None and count is not None:
            drops[int(number[1])] = int(count[1])
    return drops
