"""Implements what all probes but NVML's do alike: one reading of all cards answers every question.

A probe of one maker gives `read_cards`; the rest is here. Such cards report no events, so
`wait_events` compares their health every few seconds.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.base.errors import ServiceUnavailable
from gpupool.model.device import Device, DeviceHealth, DeviceUsage
from gpupool.model.topology import DeviceLink
from gpupool.probes.common.pci_paths import build_topology
from gpupool.probes.common.sysfs import read_text
from gpupool.probes.contract import EndedTimes, HealthEvent, Machine, ProbeAvailability
from gpupool.probes.numa import list_usable_cpus, read_numa

#: Seconds between two looks at the health of cards whose driver reports no events.
HEALTH_SECONDS: Final = 10.0


@dataclass(frozen=True)
class CardReading:
    """One card, and what it does at that moment."""

    device: Device
    usage: DeviceUsage


@dataclass(frozen=True)
class HostReading:
    """All cards of one maker on this host.

    Attributes:
        problem: why there are none, for people; empty where there are some.
        links: direct links between cards.
    """

    cards: tuple[CardReading, ...] = ()
    problem: str = ""
    driver_version: str | None = None
    links: tuple[DeviceLink, ...] = ()


class CardProbe(ABC):
    """Answers as `Probe` demands from one reading. Calls may come from several threads."""

    #: Name of the probe, and of the maker as catalogue and limits know it.
    name = ""
    vendor = ""
    health_seconds = HEALTH_SECONDS

    def __init__(self, sys_root: Path = Path("/sys")) -> None:
        self._sys = sys_root
        self._closed = threading.Event()
        self._next_look = time.monotonic() + self.health_seconds
        self._health: Mapping[str, tuple[DeviceHealth, str]] = {}

    @abstractmethod
    def read_host(self) -> HostReading:
        """Read all cards. Raises nothing; a value that cannot be read is None."""

    def available(self) -> ProbeAvailability:
        problem = self.read_host().problem
        return ProbeAvailability(not problem, problem)

    def scan(self) -> Machine:
        host = self.read_host()
        if host.problem:
            raise ServiceUnavailable(f"{self.name}: {host.problem}", hint="gpupool doctor")
        devices = tuple(card.device for card in host.cards)
        self._health = {d.uuid: (d.health, d.health_reason) for d in devices}
        cpus = list_usable_cpus()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return Machine(
            name=platform.node(),
            devices=devices,
            topology=build_topology(devices, self._sys, host.links),
            cpu_count=len(cpus),
            memory_bytes=memory,
            numa=read_numa(cpus, memory, self._sys),
            driver_version=host.driver_version,
        )

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        host = self.read_host() if uuids else HostReading()
        if host.problem:
            # The cards are not gone: for once nothing is known of them.
            return {uuid: DeviceUsage() for uuid in uuids if uuid in self._health}
        wanted = set(uuids)
        return {c.device.uuid: c.usage for c in host.cards if c.device.uuid in wanted}

    def ended_times(
        self, uuids: Collection[str], pids: Collection[int]
    ) -> Mapping[str, EndedTimes]:
        """Say for each card that its driver keeps no account of ended processes."""
        known = self._health or self.health()
        reason = "its driver keeps no account of ended processes"
        return {uuid: EndedTimes(reason=reason) for uuid in uuids if uuid in known}

    def health(self) -> Mapping[str, tuple[DeviceHealth, str]]:
        host = self.read_host()
        if host.problem:
            return dict.fromkeys(self._health, (DeviceHealth.UNKNOWN, host.problem))
        return {c.device.uuid: (c.device.health, c.device.health_reason) for c in host.cards}

    def wait_events(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        deadline = time.monotonic() + timeout_seconds
        while not self._closed.is_set():
            now = time.monotonic()
            if now >= self._next_look:
                self._next_look = now + self.health_seconds
                events = self.find_changes()
                if events:
                    return events
            if now >= deadline:
                break
            self._closed.wait(min(deadline, self._next_look) - now)
        return ()

    def find_changes(self) -> tuple[HealthEvent, ...]:
        """Return the cards whose health changed since the last scan or the last call."""
        known = self._health
        health = dict(self.health())
        self._health = {**known, **health}
        events = []
        for uuid, (state, reason) in health.items():
            if known.get(uuid, (state, reason)) != (state, reason):
                events.append(HealthEvent(uuid, state, reason))
        return tuple(events)

    def close(self) -> None:
        self._closed.set()


class MachineIdentity:
    """Makes identities for cards that have none of their own.

    Args:
        root: file system with `etc/machine-id`.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._machine = read_text(root / "etc/machine-id") or platform.node()

    def make_uuid(self, vendor: str, place: str) -> str:
        """Return an identity that no card of another host has, the same after each reboot.

        Args:
            place: what tells the card from others of its host, such as its PCI address.
        """
        digest = hashlib.sha256(f"{self._machine} {vendor} {place}".encode()).hexdigest()
        return f"{vendor.upper()}-{digest[:16]}"
