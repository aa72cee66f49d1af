"""What lies outside of machines with gateways: a network with a router, into which each machine has
a cable of its own. Needs root and ip(8); `remove` leaves nothing."""

from __future__ import annotations

import subprocess

from tests.support.network_machines import Fabric, Machine, run_ip


class Outside:
    """The network outside of a fabric's machines, and a router there that answers pings."""

    def __init__(self, fabric: Fabric) -> None:
        self._number = fabric.number
        self._bridge = f"gpo{fabric.number}"
        self.space = f"gpo{fabric.number}r"
        self.router = f"10.{fabric.number}.1.1"
        self.address = f"10.{fabric.number}.1.10"

    def make(self) -> None:
        self.remove()
        run_ip("link", "add", self._bridge, "type", "bridge")
        run_ip("link", "set", self._bridge, "up")
        run_ip("netns", "add", self.space)
        run_ip("-n", self.space, "link", "set", "lo", "up")
        self._plug(self.space, f"{self.space}e", "eth0", f"{self.router}/24")

    def plug_in(self, machine: Machine, index: int) -> None:
        """Give a machine an interface outside: `eth1`, with a default route over it."""
        address = f"10.{self._number}.1.{index + 1}/24"
        self._plug(machine.space, self._name_cable(machine), "eth1", address)
        run_ip("-n", machine.space, "route", "add", "default", "via", self.router)

    def set_carrier(self, machine: Machine, *, is_up: bool) -> None:
        run_ip("link", "set", self._name_cable(machine), "up" if is_up else "down")

    def set_path(self, machine: Machine, *, is_up: bool) -> None:
        """Let packets pass or not, with a carrier all the same."""
        master = ("master", self._bridge) if is_up else ("nomaster",)
        run_ip("link", "set", self._name_cable(machine), *master)

    def remove(self) -> None:
        for words in (["link", "delete", self._bridge], ["netns", "delete", self.space]):
            subprocess.run(["ip", *words], capture_output=True, check=False)

    def _name_cable(self, machine: Machine) -> str:
        return f"{machine.space}o"

    def _plug(self, space: str, outer: str, inner: str, address: str) -> None:
        subprocess.run(["ip", "link", "delete", outer], capture_output=True, check=False)
        run_ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
        run_ip("link", "set", outer, "master", self._bridge, "up")
        run_ip("-n", space, "address", "add", address, "dev", inner)
        run_ip("-n", space, "link", "set", inner, "up")
