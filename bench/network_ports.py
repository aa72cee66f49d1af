"""Namespaces with a port of an engine's switch, for benches of packets. Needs root."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import (
    JobNamespaces,
    enter_namespace,
    import_pyroute2,
    name_interface,
)
from gpupool.agent.network.switch_ports import open_ports
from gpupool.agent.network.verification.traffic import TrafficEnd
from gpupool.network.model import Network, Port
from gpupool.wire.network.networks import PortWork

#: The daemons of an engine on the centre, by their pid files.
DAEMONS = ("northbound", "southbound", "northd", "switch", "ovs-vswitchd", "ovn-controller")
#: State of a neighbour that is never asked for again (linux/neighbour.h).
_PERMANENT = 0x80


def make_port_work(network: Network, port: Port) -> PortWork:
    """What an agent needs to attach a job to a network, of values."""
    (subnet,) = (one for one in network.subnets if one.key == port.subnet)
    return PortWork(
        id=port.key,
        network=network.key,
        address=str(port.address),
        prefix=subnet.cidr.prefixlen,
        gateway=str(subnet.gateway),
        mac=port.mac,
        mtu=network.mtu,
        domain=network.domain,
        dns_name=port.name,
    )


def read_processor_seconds(files: EngineFiles, *daemons: str) -> float:
    """Read the processor time that daemons have used, by the names of their pid files."""
    pids = [int((files.run / f"{daemon}.pid").read_text()) for daemon in daemons]
    # The number of the clock of a process (clock_getcpuclockid(3)); /proc counts in steps of 10 ms.
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)


@contextlib.contextmanager
def plugged_ends(files: EngineFiles, ports: Mapping[str, PortWork]) -> Iterator[list[TrafficEnd]]:
    """Two namespaces that are plugged into the switch, and know each other's MAC address.

    Args:
        ports: by the name of the logical switch port, what is attached to it.
    """
    namespaces = JobNamespaces(files)
    switch = open_ports(files)
    try:
        for name, work in ports.items():
            switch.plug(namespaces.create(work).interface, name)
        for work in ports.values():
            for other in ports.values():
                if other is not work:
                    _write_neighbour(namespaces, work, other)
        yield [
            TrafficEnd(namespaces.locate(work.id), IPv4Address(work.address))
            for work in ports.values()
        ]
    finally:
        for work in ports.values():
            switch.remove(name_interface(work.id))
            namespaces.remove(work.id)
        switch.close()


def _write_neighbour(namespaces: JobNamespaces, work: PortWork, other: PortWork) -> None:
    """Without it a question that came too early is asked again a second later."""
    with enter_namespace(namespaces.locate(work.id)), import_pyroute2().IPRoute() as inside:
        cable = inside.link_lookup(ifname="eth0")[0]
        inside.neigh(
            "replace", dst=other.address, lladdr=other.mac, ifindex=cable, state=_PERMANENT
        )


def await_packet(source: TrafficEnd, target: TrafficEnd, seconds: float = 60.0) -> None:
    """Send a packet a millisecond until one arrives. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        with enter_namespace(target.namespace):
            receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        with enter_namespace(source.namespace):
            sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver.bind((str(target.address), 0))
        receiver.settimeout(0.001)
        sender.connect(receiver.getsockname())
        while time.monotonic() < deadline:
            sender.send(b"?")
            with contextlib.suppress(TimeoutError):
                receiver.recv(1)
                return
    raise TimeoutError(f"no packet passed within {seconds:g} s")


def measure_round_trips(source: TrafficEnd, target: TrafficEnd, count: int) -> list[float]:
    """Time round trips to the target's kernel by ping(8), in milliseconds."""
    words = ["ping", "-c", str(count), "-i", "0.005", "-W", "2", str(target.address)]
    command = ["nsenter", f"--net={source.namespace}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    parts = (line.partition(" time=")[2] for line in done.stdout.splitlines())
    return [float(part.split()[0]) for part in parts if part]
