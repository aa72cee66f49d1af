"""Files between an agent and the watchdog of its machine: settings one way, state the other.

Each is replaced whole, so a reader never sees half of one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from gpupool.base.durable import write_durably

SETTINGS: Final = "settings.json"
STATE: Final = "state.json"


@dataclass(frozen=True)
class WatchdogSettings:
    """What a watchdog is started with.

    Attributes:
        chassis: how OVN knows its machine.
        peer: how OVN knows the other machine of the pair.
        names: how people know the two, by chassis.
        peer_tunnel: address of the other machine's tunnels.
        northbound: where the northbound database is.
        certificates: directory of the machine's certificate; empty: the database is local.
        run: directory of the daemons' sockets and pid files.
        switch: where the switch's database is.
        bridge_socket: management socket of the bridge that has the flows.
        address: what the active machine has outside.
        interface: interface of this machine for that address.
        upstream: address that is asked; empty: none.
        is_first: whether this machine is preferred where both have the same role.
        is_drained: whether an admin keeps gateways away from it.
        floating_ips: addresses of jobs that the active machine has outside too.
    """

    chassis: str
    peer: str
    names: dict[str, str]
    peer_tunnel: str
    northbound: str
    certificates: str
    run: str
    switch: str
    bridge_socket: str
    address: str
    interface: str
    upstream: str
    is_first: bool
    is_drained: bool
    floating_ips: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class WatchdogState:
    """How a watchdog is.

    Attributes:
        state: active, standby or away, as reports say it.
        priorities: by chassis, what the database had last: it may be away at the next start.
        flows: of the bridge while the machine was well.
    """

    state: str = "starting"
    reason: str = ""
    since_ns: int | None = None
    priorities: dict[str, int] = field(default_factory=dict)
    flows: int = 0


def write_settings(directory: Path, settings: WatchdogSettings) -> None:
    """Write settings where they differ. Idempotent."""
    text = json.dumps(asdict(settings), indent=1).encode()
    path = directory / SETTINGS
    if not path.exists() or path.read_bytes() != text:
        write_durably(path, text)


def read_settings(directory: Path) -> WatchdogSettings:
    """Read settings. Raises OSError or ValueError where there are none."""
    return WatchdogSettings(**json.loads((directory / SETTINGS).read_text()))


def write_state(directory: Path, state: WatchdogState) -> None:
    write_durably(directory / STATE, json.dumps(asdict(state), indent=1).encode())


def read_state(directory: Path) -> WatchdogState:
    """Read a state; an empty one where there is none, or one of another release."""
    try:
        found: dict[str, Any] = json.loads((directory / STATE).read_text())
        return WatchdogState(**found)
    except (FileNotFoundError, ValueError, TypeError):
        return WatchdogState()
