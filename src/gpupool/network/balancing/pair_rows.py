"""Rows of load balancers whose proxies are on two machines. Pure.

The server writes such a row once. From then on the machines write where it leads: they move it in
one change, without the server. `agent.network.balancing.proxy_mover` does that; see ADR 0091.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.rows import NorthboundRow, Value

#: Options of a row. OVN passes over options that it does not know.
_KEYS: Final = "gpupool-proxies"
_HOSTS: Final = "gpupool-proxy-hosts"
#: Columns that machines write.
_MOVED: Final = ("vips", "options")
#: Whether controllers forget connections to a proxy that a row no longer leads to (ovn-nb(5)). One of
#: 23.03 goes by the option as it was before the change; and an option that ends is such a change.
_FLUSH: Final = "ct_flush"
#: In `external_ids`, by the machine's place in the pair, whether its proxy takes connections.
_READY: Final = ("gpupool-ready-first", "gpupool-ready-second")


@dataclass(frozen=True)
class ProxyPair:
    """The two proxies of a row; the first machine's is the first.

    Attributes:
        keys: public ids of their ports.
        hosts: what targets of each have before their port, an address of each family.
    """

    keys: tuple[str, str]
    hosts: tuple[tuple[str, ...], tuple[str, ...]]


def pair_row(row: NorthboundRow, proxy: ProxyPort | None) -> NorthboundRow:
    """Make a row that leads to a proxy one that machines move; as it is where there is no pair."""
    if proxy is None or proxy.standby is None:
        return row
    ports = (proxy, proxy.standby)
    options = {
        "reject": "true",
        _FLUSH: "false",
        _KEYS: " ".join(port.key for port in ports),
        _HOSTS: " ".join(",".join(_list_hosts(port)) for port in ports),
    }
    columns = {name: value for name, value in row.columns.items() if name not in _MOVED}
    initial: dict[str, Value] = {"vips": row.columns["vips"], "options": options}
    # It is written once, so one that should lead elsewhere is another row.
    digest = sha256(json.dumps(initial, sort_keys=True).encode()).hexdigest()[:12]
    return replace(row, key=f"{row.key}/{digest}", columns=columns, initial=initial)


def read_pair(options: Mapping[str, str]) -> ProxyPair | None:
    """Read the proxies of a row; None for one that no machine moves."""
    keys = options.get(_KEYS, "").split()
    hosts = [tuple(one.split(",")) for one in options.get(_HOSTS, "").split()]
    if len(keys) != 2 or len(hosts) != 2:
        return None
    return ProxyPair((keys[0], keys[1]), (hosts[0], hosts[1]))


def find_place(vips: Mapping[str, str], pair: ProxyPair) -> int | None:
    """Return which proxy a row leads to: 0 or 1; None: to neither."""
    targets = {target.rpartition(":")[0] for target in vips.values()}
    for place, hosts in enumerate(pair.hosts):
        if targets and targets <= set(hosts):
            return place
    return None


def move_targets(vips: Mapping[str, str], pair: ProxyPair, place: int) -> dict[str, str]:
    """Return what a row has that leads to one of the proxies: the ports stay."""
    others = dict(zip(pair.hosts[1 - place], pair.hosts[place], strict=True))
    moved = dict[str, str]()
    for vip, target in vips.items():
        host, _, port = target.rpartition(":")
        moved[vip] = f"{others.get(host, host)}:{port}"
    return moved


def _list_hosts(port: ProxyPort) -> list[str]:
    hosts = [str(port.address)]
    return hosts if port.address6 is None else [*hosts, f"[{port.address6}]"]


def is_armed(options: Mapping[str, str]) -> bool:
    """Whether controllers forget connections to what a row no longer leads to."""
    return options.get(_FLUSH) == "true"


def arm(options: Mapping[str, str], *, armed: bool) -> dict[str, str]:
    """Return options with which controllers forget connections, or no longer."""
    return {**options, _FLUSH: "true" if armed else "false"}


def is_ready(marks: Mapping[str, str], place: int) -> bool:
    """Whether a machine says in `external_ids` that its proxy takes connections."""
    return marks.get(_READY[place]) == "true"


def mark_ready(marks: Mapping[str, str], place: int, *, ready: bool) -> dict[str, str]:
    """Return `external_ids` that say whether a machine's proxy takes connections."""
    others = {name: value for name, value in marks.items() if name != _READY[place]}
    return {**others, _READY[place]: "true"} if ready else others
