"""The daemons of a network engine on one machine: their files, command lines and order.

Pure but for `check_machine`, `find_missing_programs`, `read_version`, `find_datapath` and `make_compiler`. All files
are private to the pool, so an Open vSwitch of the machine is not touched.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gpupool.agent.network.allocator import choose_allocator
from gpupool.agent.network.respawn import make_respawning
from gpupool.base.errors import NetworkingUnavailable
from gpupool.mechanisms.contract import HelperProcess
from gpupool.network.gateway_rows import PHYSICAL_NETWORK
from gpupool.network.lines.rows import LINE_NETWORK

#: The bridge that jobs are plugged into: an interface of the switch's namespace.
BRIDGE: Final = "br-int"
#: The bridge that the cable to this machine is plugged into.
UPLINK_BRIDGE: Final = "br-uplink"
#: The bridge that the cable for tunnels to other machines is plugged into.
TUNNEL_BRIDGE: Final = "br-tunnel"
#: Files of a machine's certificate.
PRIVATE_KEY: Final = "key.pem"
CERTIFICATE: Final = "certificate.pem"
TRUSTED: Final = "trusted.pem"
#: Databases that only the centre has, with the column of their schema that says where they listen.
CENTRE_DATABASES: Final[Mapping[str, str]] = {
    "northbound": "db:OVN_Northbound,NB_Global,connections",
    "southbound": "db:OVN_Southbound,SB_Global,connections",
}
#: The bridge that the interface for dedicated lines is plugged into.
LINE_BRIDGE: Final = "br-lines"
#: The switch, as the helpers' records name it.
SWITCH: Final = "vswitchd"
#: All daemons of an engine that has its databases alone, as the helpers' records name them.
DAEMONS: Final = ("db-switch", "db-northbound", "db-southbound", "northd", SWITCH, "controller")
#: As ovs-ctl(8) and ovn-ctl(8) run their daemons by default: others notice within 0.3 s that a
#: switch of gateways has no processor. Where nice(1) may not, it says so and goes on.
PRIORITY: Final = ("nice", "-n", "-10")
#: Where iproute2 finds namespaces, so `ip netns` shows them to admins.
NAMESPACES: Final = Path("/run/netns")

#: Threads that build logical flows: with two, one more network among 1,000 takes 1.0 s, not 1.4.
_COMPILER_THREADS: Final = 2

#: By program, the package of Debian and Ubuntu that has it.
_PROGRAMS: Final[Mapping[str, str]] = {
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ovn-northd": "ovn-central",
    "ovn-controller": "ovn-host",
    "dnsmasq": "dnsmasq-base",
    "setpriv": "util-linux",
}
#: By database, the file of its schema and the package that has it.
DATABASE_SCHEMAS: Final[Mapping[str, tuple[str, str]]] = {
    "switch": ("/usr/share/openvswitch/vswitch.ovsschema", "openvswitch-switch"),
    "northbound": ("/usr/share/ovn/ovn-nb.ovsschema", "ovn-common"),
    "southbound": ("/usr/share/ovn/ovn-sb.ovsschema", "ovn-common"),
}


@dataclass(frozen=True)
class EngineFiles:
    """Where an engine has its files.

    Attributes:
        mark: tells the engines of the agents of one machine apart.
        data: databases, which survive a reboot.
        run: sockets and pid files; a short path, for a socket's name has 107 bytes at most.
    """

    mark: str
    data: Path
    run: Path

    @property
    def namespace(self) -> Path:
        """The network namespace of the switch: its interfaces are no other program's."""
        return NAMESPACES / f"gpupool-{self.mark}"

    @property
    def names(self) -> Path:
        """The files of the resolvers, which run as other accounts and pass through it."""
        return Path("/run") / f"gpupool-names-{self.mark}"

    def database(self, name: str) -> Path:
        """Return the file of a database: `switch`, `northbound` or `southbound`."""
        return self.data / f"{name}.db"

    def remote(self, name: str) -> str:
        """Return where a database is reached."""
        return f"unix:{self.run}/{name}.sock"

    @property
    def certificates(self) -> Path:
        """The directory of the machine's certificate."""
        return self.data.parent / "certificates"

    @property
    def tls_options(self) -> tuple[str, ...]:
        """Options of daemons that speak TLS. They read files again that have changed."""
        return (
            f"--private-key={self.certificates / PRIVATE_KEY}",
            f"--certificate={self.certificates / CERTIFICATE}",
            f"--ca-cert={self.certificates / TRUSTED}",
        )


def locate_engine(root: Path) -> EngineFiles:
    """Return the files of the engine whose directory in the agent's state is `root`."""
    mark = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:8]
    return EngineFiles(mark, root / "databases", Path("/run") / f"gpupool-network-{mark}")


def find_missing_programs() -> dict[str, str]:
    """Return the programs and schemas that this machine lacks, with the package of each."""
    missing = dict[str, str]()
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            missing[program] = package
    for path, package in DATABASE_SCHEMAS.values():
        if not Path(path).exists():
            missing[path] = package
    return missing


def check_machine(owner_uid: int) -> None:
    """Raise NetworkingUnavailable where an engine cannot run: what is missing, and its packages."""
    if owner_uid != 0:
        raise NetworkingUnavailable(
            f"networks need an agent of root; this one runs as uid {owner_uid}"
        )
    missing = find_missing_programs()
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise NetworkingUnavailable(
            f"this machine lacks {', '.join(sorted(missing))}",
            hint=f"apt-get install --no-install-recommends {packages}",
        )


def list_create_commands(files: EngineFiles, *, has_databases: bool) -> dict[Path, tuple[str, ...]]:
    """Return, by the file of each database, the command that creates it.

    Args:
        has_databases: whether the machine has those of OVN, without a cluster.
    """
    commands = dict[Path, tuple[str, ...]]()
    for name, (schema, _) in DATABASE_SCHEMAS.items():
        if has_databases or name not in CENTRE_DATABASES:
            file = files.database(name)
            commands[file] = ("ovsdb-tool", "create", str(file), schema)
    return commands


def list_centre_databases(files: EngineFiles) -> tuple[HelperProcess, ...]:
    """Return the servers of the databases that only the centre has."""
    return tuple(
        make_database_server(files, name, f"--remote={where}", *files.tls_options)
        for name, where in CENTRE_DATABASES.items()
    )


def make_switch_database(files: EngineFiles) -> HelperProcess:
    """Return the server of the switch's own database.

    A switch in user space forwards nothing while its database is away, so no agent is waited for.
    """
    server = make_database_server(files, "switch")
    return replace(server, arguments=make_respawning(server.arguments))


def make_compiler(files: EngineFiles, northbound: str = "", southbound: str = "") -> HelperProcess:
    """Return what compiles the northbound database to the southbound one.

    Args:
        northbound: servers of a cluster; empty: the machine's own database.
        southbound: the same of the southbound database.
    """
    return HelperProcess(
        "cluster-northd" if northbound else "northd",
        (
            "ovn-northd",
            f"--ovnnb-db={northbound or files.remote('northbound')}",
            f"--ovnsb-db={southbound or files.remote('southbound')}",
            f"--n-threads={_COMPILER_THREADS}",
            *(files.tls_options if northbound else ()),
            *_common_options(files, "northd"),
        ),
        _make_large_environment(files),
    )


def list_workers(files: EngineFiles) -> tuple[HelperProcess, ...]:
    """Return what works on every machine: the switch, and the controller that programs it."""
    switch = HelperProcess(
        SWITCH,
        (*PRIORITY, "ovs-vswitchd", files.remote("switch"), *_common_options(files, "vswitchd")),
        _make_environment(files),
        network_namespace=str(files.namespace),
    )
    # Its control socket has a name of its own in OVN_RUNDIR: 23.03 knows no --unixctl.
    controller = HelperProcess(
        "controller",
        (
            *PRIORITY,
            "ovn-controller",
            files.remote("switch"),
            *files.tls_options,
            f"--pidfile={files.run}/ovn-controller.pid",
            "-vconsole:warn",
            # Flow logs: its supervisor rotates what it logs, and the agent reads that.
            "-vacl_log:console:info",
        ),
        _make_large_environment(files),
    )
    return (switch, controller)


def make_switch_settings(
    files: EngineFiles, datapath: str, *, chassis: str, southbound: str, tunnel: str
) -> dict[str, str]:
    """Return `external_ids` of the switch's own row: what ovn-controller(8) reads.

    Args:
        southbound: where a member connects; empty for the centre.
        tunnel: address of its tunnels; empty where there is one machine.
    """
    return {
        "system-id": chassis,
        "ovn-remote": southbound or files.remote("southbound"),
        "ovn-bridge": BRIDGE,
        "ovn-bridge-datapath-type": datapath,
        "ovn-encap-type": "geneve",
        "ovn-encap-ip": tunnel or "127.0.0.1",
        "ovn-monitor-all": "true",
        "ovn-bridge-mappings": f"{PHYSICAL_NETWORK}:{UPLINK_BRIDGE},{LINE_NETWORK}:{LINE_BRIDGE}",
    }


def read_version() -> str:
    """Read the version of OVN on this machine; empty where it does not say."""
    words = ["ovn-controller", "--version"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return ""
    first = done.stdout.partition("\n")[0]
    return first.rpartition(" ")[2][:40]


def find_datapath(root: Path = Path("/")) -> str:
    """Return the datapath of the switch: the kernel's where it has one, else a program's."""
    has_module = (root / "sys/module/openvswitch").exists()
    return "system" if has_module else "netdev"


def make_database_server(
    files: EngineFiles, name: str, *options: str, replica: Path | None = None
) -> HelperProcess:
    """Return the server of a database.

    Args:
        replica: its file where it is a server of a cluster.
    """
    return HelperProcess(
        f"db-{name}" if replica is None else f"cluster-{name}",
        (
            *PRIORITY,
            "ovsdb-server",
            str(replica or files.database(name)),
            f"--remote=p{files.remote(name)}",
            *options,
            *_common_options(files, name),
        ),
        _make_large_environment(files),
    )


def _common_options(files: EngineFiles, name: str) -> tuple[str, ...]:
    pid_file = "ovs-vswitchd" if name == "vswitchd" else name
    return (
        f"--pidfile={files.run}/{pid_file}.pid",
        f"--unixctl={files.run}/{name}.ctl",
        "-vconsole:warn",
    )


def _make_environment(files: EngineFiles) -> dict[str, str]:
    run = str(files.run)
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "OVS_RUNDIR": run,
        "OVN_RUNDIR": run,
        "OVS_LOGDIR": run,
        "OVS_DBDIR": str(files.data),
    }


def _make_large_environment(files: EngineFiles) -> dict[str, str]:
    """Of daemons whose memory and work grow with the networks. The switch gains nothing by it."""
    return {**_make_environment(files), **choose_allocator()}
