"""Network namespaces of jobs: made, given an address, and removed.

A namespace is named after the port of the pool that is in it, so what is left of an agent that was
killed is found by name. Needs the extra `network` (pyroute2).
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.daemons import NAMESPACES, EngineFiles
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ipv6.addresses import SUBNET_LENGTH, UNIQUE_LOCAL
from gpupool.wire.network.networks import PortWork

#: By the kind in a port's id - a job's, a line's, a resolver's, a proxy's, a mirror's - how its interface begins.
_INTERFACES: Final = {"n": "gp", "l": "gl", "v": "gv", "h": "gh", "m": "gm"}
#: How the ids of the ports of jobs and of proxies begin.
_PORTS: Final = ("n-", "h-")
_CLONE_NEWNET: Final = 0x40000000
#: Of mount(2).
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SHARED: Final = 0x100000
#: ethtool's request ETHTOOL_STXCSUM, sent by SIOCETHTOOL (linux/ethtool.h, linux/sockios.h).
_SET_TX_CHECKSUM: Final = 0x17
_SIOCETHTOOL: Final = 0x8946
#: No duplicate address detection: the switch lets no other port have the address (linux/if_addr.h).
_IFA_F_NODAD: Final = 0x02
#: Settings of IPv6 in a namespace (Documentation/networking/ip-sysctl.rst), in this order.
_IPV6_SETTINGS: Final = (
    ("all/disable_ipv6", "0"),
    # The agent gives the addresses and routes; no neighbour may.
    ("eth0/accept_ra", "0"),
    ("eth0/autoconf", "0"),
    # Made of the MAC address: port security takes no other link-local one.
    ("eth0/addr_gen_mode", "0"),
    # Else the link-local address, and with it neighbour discovery, waits for two seconds.
    ("eth0/accept_dad", "0"),
)


@dataclass(frozen=True)
class JobNetwork:
    """What a job is started with.

    Attributes:
        namespace: path of its network namespace.
        interface: this machine's end of its cable, to be plugged into the switch.
    """

    namespace: Path
    interface: str


def name_interface(port: str) -> str:
    """Return the name of this machine's end of the cable of a job or a line: 12 characters."""
    kind, _, rest = port.partition("-")
    return _INTERFACES[kind] + rest


class JobNamespaces:
    """The namespaces of the jobs of one agent, each with a cable into the switch's namespace.

    Their names begin with the engine's mark: other pools of this machine have namespaces of their
    own.
    """

    def __init__(self, files: EngineFiles, kinds: tuple[str, ...] = _PORTS) -> None:
        """Make the object; nothing is there yet.

        Args:
            kinds: how the ids begin that are looked after here; others are left alone.
        """
        self._switch = files.namespace
        self._prefix = f"{files.namespace.name}-"
        self._kinds = kinds

    def create(self, work: PortWork) -> JobNetwork:
        """Make the namespace of a port with its address.

        Idempotent; undoes first what a killed agent left half made.
        """
        network = self.create_cable(work)
        self.set_address(work)
        return network

    def create_cable(self, work: PortWork) -> JobNetwork:
        """Make the namespace of a port with a cable, to be plugged in before it has its address.

        Idempotent; undoes first what a killed agent left half made.
        """
        library = import_pyroute2()
        network = JobNetwork(self.locate(work.id), name_interface(work.id))
        if self._is_complete(library, network, work):
            return network
        self.clear(work.id)
        create_namespace(network.namespace)
        inside = os.open(network.namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with enter_namespace(self._switch), library.IPRoute() as switch:
                _create_cable(switch, network.interface, work, inside)
        finally:
            os.close(inside)
        return network

    def set_address(self, work: PortWork) -> None:
        """Give the cable that `create_cable` made its address and its route. Idempotent."""
        library = import_pyroute2()
        network = JobNetwork(self.locate(work.id), name_interface(work.id))
        if not self._is_complete(library, network, work):
            with enter_namespace(network.namespace):
                _set_up_inside(library, work)

    def remove(self, port: str) -> None:
        """Remove the namespace of a port. Idempotent.

        The kernel removes its cable a moment later. Processes that are still in it keep it until
        they end, with a cable that the caller has unplugged.
        """
        # Removing the cable here would wait for the kernel, 13 ms and more, before the job's end is
        # reported.
        remove_namespace(self.locate(port))

    def clear(self, port: str) -> None:
        """Remove the namespace of a port and its cable at once. Idempotent."""
        if self._switch.exists():
            with enter_namespace(self._switch), import_pyroute2().IPRoute() as switch:
                for index in switch.link_lookup(ifname=name_interface(port)):
                    switch.link("del", index=index)
        remove_namespace(self.locate(port))

    def has_port(self, port: str) -> bool:
        """Whether a port has a namespace."""
        return self.locate(port).exists()

    def forget_neighbour(self, port: str, address: str) -> None:
        """Let a namespace ask again for the MAC address of a neighbour. Idempotent."""
        library = import_pyroute2()
        with enter_namespace(self.locate(port)), library.IPRoute() as inside:
            for cable in inside.link_lookup(ifname="eth0"):
                for entry in inside.get_neighbours(ifindex=cable, dst=address):
                    if entry.get_attr("NDA_LLADDR") is not None:
                        inside.neigh("del", ifindex=cable, dst=address)

    def list_ports(self) -> list[str]:
        """List the ports that have a namespace."""
        if not NAMESPACES.is_dir():
            return []
        names = (entry.name for entry in NAMESPACES.iterdir())
        ours = (name for name in names if name.startswith(self._prefix))
        ids = (name.removeprefix(self._prefix) for name in ours)
        return sorted(each for each in ids if each.startswith(self._kinds))

    def locate(self, port: str) -> Path:
        """Return the path of the namespace of a port, whether it is there or not."""
        return NAMESPACES / f"{self._prefix}{port}"

    def is_complete(self, work: PortWork) -> bool:
        """Whether a port has its namespace with all of its addresses."""
        network = JobNetwork(self.locate(work.id), name_interface(work.id))
        return self._is_complete(import_pyroute2(), network, work)

    def _is_complete(self, library: Any, network: JobNetwork, work: PortWork) -> bool:
        """Whether an earlier call made all of it: the address comes last."""
        if not network.namespace.exists() or not self._switch.exists():
            return False
        with enter_namespace(self._switch), library.IPRoute() as switch:
            if not switch.link_lookup(ifname=network.interface):
                return False
        with enter_namespace(network.namespace), library.IPRoute() as inside:
            addresses = inside.get_addr(family=socket.AF_INET, label="eth0")
            routes = inside.get_default_routes(family=socket.AF_INET)
            addresses6 = inside.get_addr(family=socket.AF_INET6)
        if work.address6 not in (None, *(one.get("address") for one in addresses6)):
            return False
        return bool(addresses) and bool(routes) and addresses[0].get("address") == work.address


def create_namespace(path: Path) -> None:
    """Make a network namespace of that name. Idempotent."""
    if path.exists():
        return
    library = import_pyroute2()
    with _leave_namespace():
        # The library's own `create` forks, which takes an agent with many threads 10 to 20 ms.
        library.netns.attach(path.name, "thread-self")


def remove_namespace(path: Path) -> None:
    """Remove the name of a network namespace; it ends with its last process. Idempotent."""
    if path.exists():
        import_pyroute2().netns.remove(path.name)


def _create_cable(switch: Any, interface: str, work: PortWork, inside: int) -> None:
    # MAC, MTU and namespace come with the interface: the inner end never exists half made, and its
    # link-local address is made of the right MAC address.
    switch.link(
        "add",
        ifname=interface,
        kind="veth",
        mtu=work.mtu,
        peer={"ifname": "eth0", "address": work.mac, "mtu": work.mtu, "net_ns_fd": inside},
    )
    switch.link("set", index=switch.link_lookup(ifname=interface)[0], state="up")
    turn_checksum_off(interface)


def _set_up_inside(library: Any, work: PortWork) -> None:
    """Give this thread's namespace its address and its route."""
    turn_checksum_off("eth0")
    with library.IPRoute() as inside:
        cable = inside.link_lookup(ifname="eth0")[0]
        inside.link("set", index=inside.link_lookup(ifname="lo")[0], state="up")
        inside.addr("add", index=cable, address=work.address, prefixlen=work.prefix, label="eth0")
        if work.address6 is not None:
            _prepare_ipv6()
        inside.link("set", index=cable, state="up")
        if work.address6 is not None:
            _set_up_ipv6(inside, cable, work)
        inside.route("add", dst="default", gateway=work.gateway)
    # Of this namespace alone; by default no group may ping (icmp(7)).
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2147483647")


def _prepare_ipv6() -> None:
    """Make the settings of this thread's namespace, before its link is up."""
    folder = Path("/proc/sys/net/ipv6/conf")
    if not folder.is_dir():
        raise NetworkingUnavailable(
            "the kernel of this machine has IPv6 off, and the network has IPv6",
            hint="start the kernel without ipv6.disable=1, or use a network without --cidr6",
        )
    for name, value in _IPV6_SETTINGS:
        (folder / name).write_text(value)


def _set_up_ipv6(inside: Any, cable: int, work: PortWork) -> None:
    """Give a port its IPv6 address, and the route to all that networks reach over IPv6."""
    inside.addr(
        "add",
        index=cable,
        address=work.address6,
        prefixlen=SUBNET_LENGTH,
        family=socket.AF_INET6,
        flags=_IFA_F_NODAD,
    )
    if work.has_outside6:
        inside.route("add", dst="::/0", gateway=work.gateway6, family=socket.AF_INET6)
    # Else no default route: what lies outside is unreachable at once, and programs take IPv4. The
    # last one of the two, by which `outside_routes` knows that all is set up.
    inside.route("add", dst=str(UNIQUE_LOCAL), gateway=work.gateway6, family=socket.AF_INET6)


def turn_checksum_off(interface: str) -> None:
    """Turn checksum offload off: over a switch in user space TCP does not connect with it."""
    value = array.array("B", struct.pack("II", _SET_TX_CHECKSUM, 0))
    request = struct.pack("16sP16x", interface.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, _SIOCETHTOOL, request)


@contextlib.contextmanager
def enter_namespace(namespace: Path) -> Iterator[None]:
    """Put this thread, and no other, into a network namespace for a while."""
    there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _return_afterwards() as library:
            _check(library.setns(there, _CLONE_NEWNET))
            yield
    finally:
        os.close(there)


@contextlib.contextmanager
def _leave_namespace() -> Iterator[None]:
    """Put this thread, and no other, into a new network namespace for a while."""
    with _return_afterwards() as library:
        _check(library.unshare(_CLONE_NEWNET))
        yield


@contextlib.contextmanager
def _return_afterwards() -> Iterator[ctypes.CDLL]:
    """Yield the C library; afterwards this thread is in the namespace that it is in now."""
    library = ctypes.CDLL(None, use_errno=True)
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield library
    finally:
        try:
            _check(library.setns(here, _CLONE_NEWNET))
        finally:
            os.close(here)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot change the network namespace: {os.strerror(number)}")


def import_pyroute2() -> Any:
    """Import the library. Raises NetworkingUnavailable with the command that installs it."""
    try:
        import pyroute2
        import pyroute2.netns
    except ImportError as error:
        raise NetworkingUnavailable(
            f"networks need pyroute2: {error}", hint="pip install 'gpupool[network]'"
        ) from error
    return pyroute2
