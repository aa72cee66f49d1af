"""The BGP speaker of a dedicated line: its daemons of FRR and their configuration. Pure.

`bgpd` needs `zebra` beside it: without one it never marks a learned route as valid.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.mechanisms.contract import HelperProcess
from gpupool.wire.network.lines import LineWork

#: Where Debian and Ubuntu have FRR's daemons; their package.
PROGRAMS: Final = Path("/usr/lib/frr")
PACKAGE: Final = "frr"
#: Account to which the daemons drop; their directory belongs to it.
ACCOUNT: Final = "frr"

#: Prefixes for which the session itself ends: what is over the line's limit is refused one by one,
#: but a peer that leaks all routes of the internet must not fill the machine's memory.
HARD_LIMIT: Final = 5000
#: Seconds: two missed messages and the session ends; the defaults of RFC 4271 wait 90.
_KEEPALIVE: Final = 3
_HOLD: Final = 9
_RETRY: Final = 3
#: Packets that may be lost, and milliseconds between two: 1.5 s, since a switch in user space shares
#: the processors with jobs.
_BFD: Final = "5 300 300"
#: Minutes until a session that ended for too many prefixes is tried again.
_RESTART_MINUTES: Final = 1


def name_user(line: str) -> str:
    """Return the user of a line's helpers in their records."""
    return f"line-{line}"


def locate_speakers(files: EngineFiles) -> Path:
    """Return the directory of all speakers: that of the engine is for root alone."""
    return files.run.with_name(f"{files.run.name}-lines")


def locate_speaker(files: EngineFiles, line: str) -> Path:
    """Return the directory of a speaker's configuration and sockets."""
    return locate_speakers(files) / line


def list_daemons(line: LineWork) -> tuple[str, ...]:
    return ("zebra", "bgpd", "bfdd") if line.bfd else ("zebra", "bgpd")


def list_speaker_helpers(
    files: EngineFiles, line: LineWork, namespace: Path
) -> tuple[HelperProcess, ...]:
    """Return the daemons of a line, in the order in which they start."""
    directory = locate_speaker(files, line.id)
    helpers = list[HelperProcess]()
    for daemon in list_daemons(line):
        # No TCP port for commands: anything in the namespace could send some.
        words = [
            str(PROGRAMS / daemon),
            *("-f", f"{directory}/{daemon}.conf"),
            *("-i", f"{directory}/{daemon}.pid"),
            *("--vty_socket", str(directory)),
            *("-P", "0"),
            *("-z", f"{directory}/zserv.api"),
            *("--log", "stdout"),
        ]
        if daemon == "bgpd":
            words += ["-l", line.speaker]
        if daemon == "bfdd":
            words += ["--bfdctl", f"{directory}/bfdd.sock"]
        helpers.append(
            HelperProcess(
                f"line-{line.id}-{daemon}",
                tuple(words),
                {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                network_namespace=str(namespace),
            )
        )
    return tuple(helpers)


def format_speaker(line: LineWork) -> str:
    """Format the configuration of a line's bgpd. Raises ValueError of a key that would break it."""
    peer = line.peer
    neighbor = [
        f"neighbor {peer} remote-as {line.peer_asn}",
        f"neighbor {peer} timers {_KEEPALIVE} {_HOLD}",
        f"neighbor {peer} timers connect {_RETRY}",
        f"neighbor {peer} advertisement-interval 1",
    ]
    if line.key is not None:
        # A blank or a line break would begin another command.
        if not re.fullmatch(r"[!-~]{1,80}", line.key):
            raise ValueError("the key of a line has other characters than visible ASCII")
        neighbor.append(f"neighbor {peer} password {line.key}")
    if line.bfd:
        neighbor.append(f"neighbor {peer} bfd {_BFD}")
    family = [
        *(_announce(prefix) for prefix in line.announced),
        f"neighbor {peer} soft-reconfiguration inbound",
        f"neighbor {peer} maximum-prefix {HARD_LIMIT} restart {_RESTART_MINUTES} force",
        f"neighbor {peer} route-map IN in",
        f"neighbor {peer} route-map OUT out",
    ]
    return "\n".join(
        (
            f"router bgp {line.asn}",
            f" bgp router-id {line.speaker}",
            " no bgp network import-check",
            " no bgp default ipv4-unicast",
            *(f" {command}" for command in neighbor),
            " address-family ipv4 unicast",
            f"  neighbor {peer} activate",
            *(f"  {command}" for command in family),
            " exit-address-family",
            "exit",
            *_list_filters(line),
            "",
        )
    )


def list_announcement_commands(line: LineWork, present: list[str]) -> list[str]:
    """List the commands that make a running speaker announce other prefixes, and no other ones."""
    added = [_announce(prefix) for prefix in line.announced if prefix not in present]
    removed = [f"no {_announce(prefix)}" for prefix in present if prefix not in line.announced]
    if not added and not removed:
        return []
    return [
        "configure terminal",
        f"router bgp {line.asn}",
        "address-family ipv4 unicast",
        *removed,
        *added,
        "end",
    ]


def list_announced(configuration: str) -> list[str]:
    """List the prefixes that a configuration announces."""
    return re.findall(r"^  network (\S+)$", configuration, flags=re.MULTILINE)


def _announce(prefix: str) -> str:
    return f"network {prefix}"


def _list_filters(line: LineWork) -> list[str]:
    """List what is learned of the peer, and what it learns: our own routes, by the router."""
    filters = list[str]()
    for number, prefix in enumerate(line.allowed, 1):
        longer = "" if prefix.endswith("/32") else " le 32"
        filters.append(f"ip prefix-list ALLOWED seq {5 * number} permit {prefix}{longer}")
    return [
        *filters,
        "bgp as-path access-list OWN seq 5 permit ^$",
        "route-map IN permit 10",
        " match ip address prefix-list ALLOWED",
        "exit",
        "route-map OUT permit 10",
        " match as-path OWN",
        # A speaker that translates is itself what the packets go through.
        f" set ip next-hop {line.speaker if line.ours else line.router}",
        "exit",
    ]
