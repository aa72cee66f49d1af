"""The translation of a dedicated line, in the namespace of its speaker.

The network's router and the company's send to the speaker, which changes prefixes in both directions
(nftables, `dnat prefix` and `snat prefix`) and passes packets on by the side from which they came:
both sides may have the same addresses. Needs the extra `network` (pyroute2).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace, import_pyroute2
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.lines import LineTranslation, LineWork

_TABLE: Final = "gpupool_line"
#: Marks of packets, and the tables by which they are routed: to the company, and to the network.
_TO_PEER: Final = 1
_TO_ROUTER: Final = 2
_TABLES: Final = {_TO_PEER: 101, _TO_ROUTER: 102}
_SYSCTLS: Final = Path("/proc/sys/net/ipv4")
#: Packets leave by the interface on which they come, from addresses that are routed elsewhere.
_SETTINGS: Final = {
    "conf/all/rp_filter": "0",
    "conf/eth0/rp_filter": "0",
    "conf/all/send_redirects": "0",
    "conf/eth0/send_redirects": "0",
    "ip_forward": "1",
}


class LineTranslations:
    """The translations of the lines of one engine. One thread."""

    def __init__(self) -> None:
        #: By line, the namespace and the rules that are loaded there.
        self._loaded = dict[str, tuple[int, str]]()

    def set_up(self, namespace: Path, line: LineWork) -> None:
        """Translate what a line translates, and nothing else. Idempotent.

        Raises NetworkingUnavailable where the machine lacks nftables, or its kernel the rules.
        """
        if not line.ours:
            return
        rules = format_translation(line)
        wanted = (namespace.stat().st_ino, rules)
        if self._loaded.get(line.id) == wanted:
            return
        if shutil.which("nft") is None:
            raise NetworkingUnavailable(
                "lines that translate need nftables",
                hint="apt-get install --no-install-recommends nftables",
            )
        with enter_namespace(namespace):
            for name, value in _SETTINGS.items():
                (_SYSCTLS / name).write_text(value)
            _route(line)
            # A program has the network namespace of the thread that starts it.
            _load(rules)
        self._loaded[line.id] = wanted

    def forget(self, line: str) -> None:
        """Forget a line that was deleted. Idempotent."""
        self._loaded.pop(line, None)


def _load(rules: str) -> None:
    done = subprocess.run(
        ["nft", "-f", "-"], input=rules, capture_output=True, text=True, timeout=10, check=False
    )
    if done.returncode != 0:
        raise NetworkingUnavailable(f"nftables refuses a translation: {done.stderr[:300]}")


def _route(line: LineWork) -> None:
    """Route marked packets to the peer, or to the network's router."""
    with import_pyroute2().IPRoute() as inside:
        present = {rule.get_attr("FRA_FWMARK") for rule in inside.get_rules()}
        for mark, gateway in ((_TO_PEER, line.peer), (_TO_ROUTER, line.router)):
            table = _TABLES[mark]
            inside.route("replace", table=table, dst="default", gateway=gateway)
            if mark not in present:
                inside.rule("add", table=table, fwmark=mark, priority=table)


def format_translation(line: LineWork) -> str:
    """Format the rules of a line, which replace those before at once. Pure.

    A packet's target says which way it goes: how one side sees the other one is apart from its own.
    """
    marks = [
        f"ip daddr {{ {_join(one.inside for one in line.theirs)} }} meta mark set {_TO_PEER}",
        f"ip daddr {{ {_join(one.outside for one in line.ours)} }} meta mark set {_TO_ROUTER}",
    ]
    passed = [
        f"meta mark {_TO_PEER} ip saddr {{ {_join(one.inside for one in line.ours)} }} accept",
        f"meta mark {_TO_ROUTER} ip saddr {{ {_join(one.outside for one in line.theirs)} }} accept",
    ]
    targets = list[str]()
    sources = list[str]()
    for one in _list_changed(line.ours):
        targets.append(f"ip daddr {one.outside} dnat prefix to {one.inside}")
        sources.append(f"meta mark {_TO_PEER} ip saddr {one.inside} snat prefix to {one.outside}")
    for one in _list_changed(line.theirs):
        targets.append(f"meta mark {_TO_PEER} ip daddr {one.inside} dnat prefix to {one.outside}")
        sources.append(f"meta mark {_TO_ROUTER} ip saddr {one.outside} snat prefix to {one.inside}")
    chains = (
        ("mark", "type filter hook prerouting priority mangle; policy accept;", marks),
        ("targets", "type nat hook prerouting priority dstnat; policy accept;", targets),
        ("passed", "type filter hook forward priority filter; policy drop;", passed),
        ("sources", "type nat hook postrouting priority srcnat; policy accept;", sources),
    )
    text = [f"table ip {_TABLE}", f"delete table ip {_TABLE}", f"table ip {_TABLE} {{"]
    for name, hook, rules in chains:
        text += [f"chain line_{name} {{", hook, *rules, "}"]
    return "\n".join((*text, "}", ""))


def _list_changed(translations: Iterable[LineTranslation]) -> list[LineTranslation]:
    return [one for one in translations if one.inside != one.outside]


def _join(prefixes: Iterable[str]) -> str:
    return ", ".join(prefixes)
