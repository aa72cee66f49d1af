"""Reads back the meters of the switch: what limits packets that leave a port or pass a gateway.

The flows are asked of the switch itself. What the northbound database wants, and what a command
answered, is no proof that packets meet a meter.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from gpupool.agent.network.daemons import BRIDGE, EngineFiles
from gpupool.base.errors import NetworkingUnavailable

#: Seconds in which a switch answers; it lists some hundred flows in milliseconds.
_ANSWER_SECONDS: Final = 10.0
#: The registers with the logical ports that a packet came in by and goes out by (ovn-architecture(7)).
Register = Literal["reg14", "reg15"]


@dataclass(frozen=True)
class LogicalPort:
    """A port as flows match it.

    Attributes:
        datapath: value of `metadata`.
        number: value of the register.
    """

    datapath: str
    number: str


class SwitchMeters:
    """The meters of the switch of one engine, as they were at its making. Blocks for the switch.

    Raises NetworkingUnavailable where the switch does not answer.
    """

    def __init__(self, files: EngineFiles) -> None:
        self._target = f"unix:{files.run}/{BRIDGE}.mgmt"
        self._rates = parse_meters(self._ask("dump-meters"))

    def find_rate(self, number: int, register: Register) -> int | None:
        """Find the rate that packets of a port meet, in kbit/s; None: no meter.

        Args:
            number: OpenFlow number of the port.
            register: `reg14` for packets that come from the port, `reg15` for those to it.
        """
        entry = f"table=0,in_port={number}"
        port = parse_logical_port(self._ask("dump-flows", entry))
        if port is None:
            return None
        flows = self._ask("dump-flows", f"metadata={port.datapath},{register}={port.number}")
        rates = [self._rates[meter] for meter in parse_used_meters(flows) if meter in self._rates]
        return min(rates, default=None)

    def _ask(self, what: str, *words: str) -> str:
        command = ("ovs-ofctl", "-O", "OpenFlow13", what, self._target, *words)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NetworkingUnavailable(f"the switch does not answer: {error}") from error
        if done.returncode != 0:
            raise NetworkingUnavailable(f"the switch does not answer: {done.stderr.strip()[:200]}")
        return done.stdout


def parse_meters(text: str) -> dict[int, int]:
    """Parse `dump-meters` of ovs-ofctl(8) to rates in kbit/s, by meter."""
    rates = dict[int, int]()
    for block in re.split(r"\n(?=meter=)", text):
        number = re.search(r"^meter=(\d+) kbps", block, re.MULTILINE)
        rate = re.search(r"type=drop rate=(\d+)", block)
        if number is not None and rate is not None:
            rates[int(number[1])] = int(rate[1])
    return rates


def parse_logical_port(flows: str) -> LogicalPort | None:
    """Parse the logical port that packets of an interface get; None: the engine does not serve it."""
    for line in flows.splitlines():
        datapath = re.search(r"set_field:(0x[0-9a-f]+)->metadata", line)
        number = re.search(r"set_field:(0x[0-9a-f]+)->reg14", line)
        if datapath is not None and number is not None:
            return LogicalPort(datapath[1], number[1])
    return None


def parse_used_meters(flows: str) -> list[int]:
    """Parse the meters that flows send packets through."""
    return [int(found) for found in _join(flows.splitlines())]


def _join(lines: Iterable[str]) -> list[str]:
    found = list[str]()
    for line in lines:
        found += re.findall(r"\bmeter:(\d+)", line)
    return found
