"""Enforces bandwidth limits on this machine, and reads back whether they are in force.

Towards a job its port is shaped in the switch. Away from it the job's end of the cable is shaped,
so that TCP is queued and not dropped, and a meter of the switch stands behind it: a job that can
change its interface meets that one. Both directions of a gateway have a meter alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from gpupool.agent.network.daemons import BRIDGE, EngineFiles
from gpupool.agent.network.limiting.meters import Register, SwitchMeters
from gpupool.agent.network.limiting.shaping import is_shaped_to, read_shaped_bytes, shape_interface
from gpupool.agent.network.namespaces import JobNamespaces, enter_namespace, name_interface
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.agent.network.vm_taps import VmTaps
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.gateway_rows import name_cable
from gpupool.network.limiting.rows import find_meter_rate
from gpupool.wire.network.promises import LimitReading, LimitWork

_NO_SHAPE: Final = "the kernel does not shape the interface {}"
_NO_METER: Final = "the switch has no meter for it"

log = logging.getLogger(__name__)


class PortLimits:
    """The limits of one engine. One thread at a time."""

    def __init__(self, files: EngineFiles) -> None:
        self._files = files
        self._namespaces = JobNamespaces(files)
        self._taps = VmTaps(files)

    def shape_port(self, ports: SwitchPorts, work: LimitWork) -> None:
        """Shape both ends of the cable of a job. Idempotent.

        Raises NetworkingUnavailable where the switch does not take it.
        """
        ports.shape(name_interface(work.key), work.in_kbit)
        if not self._namespaces.has_port(work.key):
            # A VM has the other end of its cable inside: away from it the meter is alone.
            return
        with enter_namespace(self._namespaces.locate(work.key)):
            shape_interface("eth0", work.out_kbit)

    def apply(self, ports: SwitchPorts, limits: Iterable[LimitWork]) -> list[LimitReading]:
        """Enforce limits and read them back; ports without one have none afterwards. Idempotent.

        Raises NetworkingUnavailable where the switch does not answer.
        """
        wanted = {limit.key: limit for limit in limits}
        present = set(ports.list_interfaces())
        for key in (*self._namespaces.list_ports(), *self._taps.list_ports()):
            if name_interface(key) in present:
                self._try_to_shape(ports, wanted.get(key, LimitWork(key=key, subject="port")))
        if not wanted:
            return []
        meters = SwitchMeters(self._files)
        # A port that is not in this switch is another machine's.
        here = [
            limit
            for limit in wanted.values()
            if limit.subject == "gateway" or name_interface(limit.key) in present
        ]
        return [self._read(ports, meters, limit) for limit in here]

    def _try_to_shape(self, ports: SwitchPorts, work: LimitWork) -> None:
        try:
            self.shape_port(ports, work)
        except (NetworkingUnavailable, OSError) as error:
            # Its job may have ended meanwhile. Where it has not, what is read back tells.
            log.info("bandwidth of %s: %s", work.key, error)

    def _read(self, ports: SwitchPorts, meters: SwitchMeters, limit: LimitWork) -> LimitReading:
        try:
            return self._read_back(ports, meters, limit)
        except OSError as error:
            reason = str(error)[:200]
            return LimitReading(key=limit.key, in_reason=reason, out_reason=reason)

    def _read_back(
        self, ports: SwitchPorts, meters: SwitchMeters, limit: LimitWork
    ) -> LimitReading:
        if limit.subject == "gateway":
            return _read_gateway(ports, meters, limit)
        inward = self._find_fault_inward(limit)
        outward = self._find_fault_outward(ports, meters, limit)
        return _make_reading(limit, inward, outward)

    def _find_fault_inward(self, limit: LimitWork) -> str:
        """Say why packets towards a job are not shaped; empty where they are."""
        interface = name_interface(limit.key)
        with enter_namespace(self._files.namespace):
            held = read_shaped_bytes(interface)
        if limit.in_kbit is None or is_shaped_to(held, limit.in_kbit):
            return ""
        return _NO_SHAPE.format(interface)

    def _find_fault_outward(
        self, ports: SwitchPorts, meters: SwitchMeters, limit: LimitWork
    ) -> str:
        if limit.out_kbit is None:
            return ""
        if self._namespaces.has_port(limit.key):
            with enter_namespace(self._namespaces.locate(limit.key)):
                held = read_shaped_bytes("eth0")
            if not is_shaped_to(held, limit.out_kbit):
                return _NO_SHAPE.format("eth0")
        return _check_meter(ports, meters, name_interface(limit.key), "reg14", limit.out_kbit)


def _read_gateway(ports: SwitchPorts, meters: SwitchMeters, limit: LimitWork) -> LimitReading:
    # ovn-controller names the ends of its patch after the bridge and the logical port.
    interface = f"patch-{BRIDGE}-to-{name_cable(limit.key)}"
    inward = _check_meter(ports, meters, interface, "reg14", limit.in_kbit)
    outward = _check_meter(ports, meters, interface, "reg15", limit.out_kbit)
    return _make_reading(limit, inward, outward)


def _check_meter(
    ports: SwitchPorts,
    meters: SwitchMeters,
    interface: str,
    register: Register,
    limit_kbit: int | None,
) -> str:
    if limit_kbit is None:
        return ""
    number = ports.find_number(interface)
    rate = None if number is None else meters.find_rate(number, register)
    if rate is None:
        return _NO_METER
    wanted = find_meter_rate(limit_kbit)
    return "" if rate == wanted else f"the switch's meter has {rate} kbit/s, not {wanted}"


def _make_reading(limit: LimitWork, inward: str, outward: str) -> LimitReading:
    return LimitReading(
        key=limit.key,
        in_kbit=None if inward else limit.in_kbit,
        out_kbit=None if outward else limit.out_kbit,
        in_reason=inward[:200],
        out_reason=outward[:200],
    )
