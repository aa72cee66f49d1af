"""Leaf switches with real EVPN (FRR) and servers behind them, in namespaces.

A kernel may have no VRF, so each leaf has one namespace for each tenant, with the layer 3 VNI in
the default VRF. What a tenant's address family has is taken from the compiled file of the leaf.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gpupool.network.planes.leaf_configuration import name_router_file
from gpupool.network.planes.model import Leaf, PlaneDemand
from gpupool.network.planes.statements import read_router
from tests.support.supervised import until

PROGRAMS = Path("/usr/lib/frr")


class LeafFabric:
    """Two or more leaves, each with a server of each tenant; all end with the `with` block.

    Args:
        files: compiled files, by name.
    """

    def __init__(
        self, leaves: tuple[Leaf, ...], demands: tuple[PlaneDemand, ...], files: Mapping[str, str]
    ) -> None:
        self.leaves = leaves
        self.demands = demands
        self.directory = Path(tempfile.mkdtemp(prefix="gpe-"))
        self.directory.chmod(0o755)
        self._files = files
        self._prefix = f"gpe{os.getpid()}"
        self._spaces: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start_underlay()
            for leaf in self.leaves:
                for demand in self.demands:
                    self._add_leaf(leaf, demand)
                    self._start_server(leaf, demand)
                    # Last: an address that comes while zebra starts may be lost on it for good.
                    self._start_router(leaf, demand)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(10)
        for name in self._spaces:
            run("ip", "netns", "del", name)
        shutil.rmtree(self.directory)

    def find_server(self, leaf: Leaf, demand: PlaneDemand) -> str:
        """Return the address of the server of a tenant on a leaf: the same host part on each."""
        return str(leaf.prefix[10 + self.demands.index(demand)])

    def can_reach(self, demand: PlaneDemand, leaf: Leaf, address: str) -> bool:
        """Whether the tenant's server on a leaf gets an answer from an address."""
        server = self._name("s", leaf, demand)
        words = ["ip", "netns", "exec", server, "ping", "-c", "2", "-i", "0.2", "-W", "1", address]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def list_routes(self, demand: PlaneDemand, leaf: Leaf) -> list[str]:
        """List the prefixes that a leaf has learned for a tenant."""
        name = self._name("l", leaf, demand)
        words = ["ip", "-n", name, "route", "show", "proto", "bgp"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return sorted(line.split()[0] for line in done.stdout.splitlines())

    def until_routes(self) -> None:
        """Wait until each leaf has the prefixes of the others for each tenant."""
        for leaf in self.leaves:
            others = sorted(str(one.prefix) for one in self.leaves if one is not leaf)
            for demand in self.demands:
                until(
                    lambda leaf=leaf, demand=demand, others=others: (  # type: ignore[misc]
                        self.list_routes(demand, leaf) == others
                    ),
                    f"routes of {demand.tenant} on {leaf.name}",
                )

    def _name(self, kind: str, leaf: Leaf, demand: PlaneDemand) -> str:
        return f"{self._prefix}-{kind}{self.leaves.index(leaf)}{self.demands.index(demand)}"

    def _find_tunnel(self, leaf: Leaf, demand: PlaneDemand) -> str:
        return f"10.255.{self.demands.index(demand) + 1}.{self.leaves.index(leaf) + 1}"

    def _add_space(self, name: str) -> str:
        run("ip", "netns", "add", name)
        self._spaces.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        return name

    def _start_underlay(self) -> None:
        self._underlay = self._add_space(f"{self._prefix}-u")
        run("ip", "-n", self._underlay, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self._underlay, "link", "set", "br0", "up")

    def _add_leaf(self, leaf: Leaf, demand: PlaneDemand) -> None:
        name = self._add_space(self._name("l", leaf, demand))
        tunnel = self._find_tunnel(leaf, demand)
        cable = f"c{self.leaves.index(leaf)}{self.demands.index(demand)}"
        bridge = f"br{demand.vni}"
        vxlan = f"vx{demand.vni}"
        mac = f"0a:ee:00:00:0{self.demands.index(demand)}:0{self.leaves.index(leaf)}"
        run(*f"ip link add u0 netns {name} type veth peer {cable} netns {self._underlay}".split())
        run(*f"ip -n {self._underlay} link set {cable} master br0 up".split())
        for words in (
            f"addr add {tunnel}/16 dev u0",
            "link set u0 up",
            f"link add {bridge} address {mac} type bridge",
            f"link set {bridge} addrgenmode none",
            f"link add {vxlan} type vxlan id {demand.vni} local {tunnel} dstport 4789 nolearning",
            f"link set {vxlan} master {bridge} addrgenmode none",
            f"link set {vxlan} up",
            f"link set {bridge} up",
        ):
            run("ip", "-n", name, *words.split())
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def _start_router(self, leaf: Leaf, demand: PlaneDemand) -> None:
        name = self._name("l", leaf, demand)
        own = self._find_tunnel(leaf, demand)
        peers = [
            (self._find_tunnel(other, one), other.asn)
            for other in self.leaves
            for one in self.demands
            if other is not leaf
        ]
        text = self._files[name_router_file(leaf.name)]
        family = (f"router bgp {leaf.asn} vrf {demand.vrf}", "address-family l2vpn evpn")
        compiled = [one[2] for one in sorted(read_router(text)) if one[:2] == family and one[2:]]
        lines = [
            f"router bgp {leaf.asn}",
            f" bgp router-id {own}",
            " no bgp ebgp-requires-policy",
            # Without it routes would pass over plain IPv4, and the test would prove nothing.
            " no bgp default ipv4-unicast",
            " timers bgp 1 3",
        ]
        for address, asn in peers:
            lines += [
                f" neighbor {address} remote-as {asn}",
                f" neighbor {address} timers connect 1",
            ]
        lines += [
            " address-family ipv4 unicast",
            f"  network {leaf.prefix}",
            " exit-address-family",
            " address-family l2vpn evpn",
            *(f"  neighbor {address} activate" for address, _ in peers),
            "  advertise-all-vni",
            *(f"  {line}" for line in compiled if not line.startswith("rd ")),
            " exit-address-family",
        ]
        directory = self.directory / name
        directory.mkdir()
        (directory / "zebra.conf").write_text(f"vni {demand.vni}\n")
        (directory / "bgpd.conf").write_text("\n".join(lines) + "\n")
        shutil.chown(directory, "frr", "frr")
        for program in ("zebra", "bgpd"):
            self._processes.append(start_daemon(program, directory, name))

    def _start_server(self, leaf: Leaf, demand: PlaneDemand) -> None:
        switch = self._name("l", leaf, demand)
        name = self._add_space(self._name("s", leaf, demand))
        bits = leaf.prefix.prefixlen
        run(*f"ip link add s0 netns {switch} type veth peer e0 netns {name}".split())
        run(*f"ip -n {switch} addr add {leaf.gateway} dev s0".split())
        run(*f"ip -n {switch} link set s0 up".split())
        run(*f"ip -n {name} addr add {self.find_server(leaf, demand)}/{bits} dev e0".split())
        run(*f"ip -n {name} link set e0 up".split())
        run(*f"ip -n {name} route add default via {leaf.prefix[1]}".split())


def start_daemon(program: str, directory: Path, space: str) -> subprocess.Popen[bytes]:
    """Start a daemon of FRR in a namespace, with its files in a directory, and wait for it."""
    words = ["ip", "netns", "exec", space, str(PROGRAMS / program), "-P", "0"]
    words += ["-f", str(directory / f"{program}.conf"), "-i", str(directory / f"{program}.pid")]
    words += ["--vty_socket", str(directory), "-z", str(directory / "zserv.api")]
    words += ["--log", f"file:{directory / program}.log"]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    until(lambda: (directory / f"{program}.vty").exists(), program)
    return process


def run(*words: str) -> str:
    """Run a program that must succeed; return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout
