"""Shapes what passes an interface with HTB (tc-htb(8)), and reads back what the kernel has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gpupool.agent.network.namespaces import import_pyroute2
from gpupool.base.errors import NetworkingUnavailable

#: Thousandths of the limit at which an interface is shaped. The kernel counts headers too: a full
#: packet of UDP has 1,456 bytes with them and 1,414 bytes of payload, which the limit is about.
_SHAPED_MILLI: Final = 1030
_QDISC: Final = 0x10000
_CLASS: Final = 0x10001


def find_shaped_bytes(limit_kbit: int) -> int:
    """Find the bytes per second at which an interface with a limit is shaped."""
    return limit_kbit * _SHAPED_MILLI // 8


def shape_interface(interface: str, limit_kbit: int | None) -> None:
    """Shape what leaves an interface of this thread's namespace; None: no longer. Idempotent.

    Raises NetworkingUnavailable where the kernel does not take it.
    """
    library = import_pyroute2()
    try:
        _shape(library, interface, limit_kbit)
    except library.NetlinkError as error:
        raise NetworkingUnavailable(f"the kernel does not shape {interface}: {error}") from error


def _shape(library: Any, interface: str, limit_kbit: int | None) -> None:
    with library.IPRoute() as route:
        found = route.link_lookup(ifname=interface)
        if not found:
            raise NetworkingUnavailable(f"there is no interface {interface}")
        index = found[0]
        held = _read_bytes(route, index)
        wanted = None if limit_kbit is None else find_shaped_bytes(limit_kbit)
        if held == wanted:
            return
        if held is not None:
            route.tc("del", "htb", index, _QDISC, root=True)
        if wanted is not None:
            route.tc("add", "htb", index, _QDISC, default=_CLASS & 0xFFFF)
            # A burst of 10 ms: the timers of an idle kernel are late by a few.
            burst = max(wanted // 100, 3000)
            shape = {"rate": wanted, "ceil": wanted, "burst": burst, "cburst": burst}
            route.tc("add-class", "htb", index, _CLASS, parent=_QDISC, **shape)


def read_shaped_bytes(interface: str) -> int | None:
    """Read the bytes per second that an interface of this thread's namespace is shaped to.

    Returns None where it is not shaped, or not there.
    """
    with import_pyroute2().IPRoute() as route:
        found = route.link_lookup(ifname=interface)
        return _read_bytes(route, found[0]) if found else None


def is_shaped_to(held: int | None, limit_kbit: int) -> bool:
    """Whether bytes per second that were read back are those of a limit, but for rounding."""
    wanted = find_shaped_bytes(limit_kbit)
    return held is not None and abs(held - wanted) * 1000 <= wanted


def _read_bytes(route: Any, index: int) -> int | None:
    return min(_list_rates(route.get_classes(index=index)), default=None)


def _list_rates(classes: Iterable[Any]) -> list[int]:
    rates = list[int]()
    for one in classes:
        options = one.get_attr("TCA_OPTIONS")
        if one.get_attr("TCA_KIND") != "htb" or options is None:
            continue
        # The field of 32 bits is full above 34 Gbit/s.
        wide = options.get_attr("TCA_HTB_CEIL64")
        parameters = options.get_attr("TCA_HTB_PARMS")
        if wide is not None or parameters is not None:
            rates.append(int(wide if wide is not None else parameters["ceil"]))
    return rates
