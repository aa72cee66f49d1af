"""Probes machines without hardware, for trying gpupool out, for tests, and for planning purchases.

`parse_sim` reads what users type after `--sim`; `SimulatedProbe` answers for one such machine as a
real probe would. Every machine and card says that it is simulated. With a machine file
(`probes.simgpu`) jobs really use the cards, and the probe reports memory, processes and load.
Without one no process computes on them, so their load is unknown, not zero. A file `health.json` in
the control directory makes cards fail: `{"3": {"health": "failed", "reason": "fell off the bus",
"xid": 79}}`, by index or uuid; `set_health` writes it. An entry may have an `xid` and a
`recovery_action` alone: the health follows from both. The machine file's cards then fail too: XID
79 loses the card, another failure makes it refuse new work, an XID fails what runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadMachine
from gpupool.base.inotify import open_inotify, watch_path
from gpupool.model.device import DeviceHealth, DeviceUsage
from gpupool.probes.contract import EndedTimes, HealthEvent, Machine, ProbeAvailability
from gpupool.probes.document import check_size, find_known_model, read_machine, read_machines
from gpupool.probes.mig_tables import format_boards, list_mig_profiles
from gpupool.probes.preset_files import EXAMPLES, list_presets, load_json, load_preset
from gpupool.probes.simgpu import SimulatedMachine, ensure_machine, read_usages
from gpupool.probes.simgpu_file import SimulatedCard
from gpupool.probes.simgpu_lock import stop_without_lock
from gpupool.probes.simulated_health import (
    CONTROL_FILE,
    ReachedHealth,
    apply_health,
    list_ill,
    parse_state,
)

# Boards on which these models are sold in sets join all their cards through NVSwitch.
_SWITCHED = frozenset(
    {"A100-40G", "A100-80G", "A800-80G", "H100", "H800", "H20", "H200", "B200", "B300"}
)
#: A count before a model; users also type the multiplication sign and an asterisk.
_COUNT = re.compile(r"\s*(-?\d{1,9})\s*[xX×*]\s*")
#: Ending of a model for cards in partition mode.
_PARTITIONED = ":mig"


def parse_sim(spec: str, seed: str = "") -> tuple[Machine, ...]:
    """Return the machines that `spec` describes; `seed` makes the uuids of two pools differ.

    `4xL40S` is one node with four cards, `2x8xH200` two nodes with eight each, `4xL40S+2xT4` one
    node with both, and a comma puts nodes beside each other: `8xH100,4xL40S`. `2xH200:mig` are
    cards in partition mode. A preset's name or the path of a machine file does as well.

    >>> [(m.name, len(m.devices)) for m in parse_sim("2x8xH200,T4")]
    [('sim-0', 8), ('sim-1', 8), ('sim-2', 1)]

    Raises:
        BadMachine: the text is not understood; the message has examples.
        UnknownModel: a model is unknown.
    """
    text = spec.strip()
    if text.endswith(".json") or "/" in text:
        return read_machines(load_json(Path(text)), seed)
    presets = {name.lower(): name for name in list_presets()}
    if text.lower() in presets:
        return read_machines(load_preset(presets[text.lower()]), seed)
    entries: list[dict[str, Any]] = []
    for group in text.split(","):
        entries += _parse_group(group.strip(), spec)
    totals = []
    for entry in entries:
        totals.append(sum(card.get("count", 1) for card in entry["cards"]))
    # Checked before the machines are made: a typing error must not take all memory.
    check_size(len(totals), max(totals), sum(totals))
    return tuple(read_machine(entry, seed, f"sim-{i}") for i, entry in enumerate(entries))


class SimulatedProbe:
    """Answers for one simulated machine.

    Args:
        control_dir: directory of `health.json`; None if no card is to fail.
        machine_file: file that the machine's jobs map. It may be created, or created anew, at any
            time.
    """

    name = "simulated"

    def __init__(
        self, machine: Machine, control_dir: Path | None = None, machine_file: Path | None = None
    ) -> None:
        self._machine = machine
        self._file = machine_file
        self._reached: dict[str, ReachedHealth] = {}
        self._control = control_dir
        self._told = {d.uuid: (d.health, d.health_reason) for d in machine.devices}
        self._is_scanned = False
        # `close` writes to it, so that `wait_events` in another thread returns at once.
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Without a directory nothing is watched: an account has few instances of inotify.
        self._watch = None if control_dir is None else _watch_directory(control_dir)
        self._waiting = threading.Lock()
        self._closed = False

    def available(self) -> ProbeAvailability:
        return ProbeAvailability(True, "simulated machines need nothing")

    def scan(self) -> Machine:
        state = self.health()
        if not self._is_scanned:
            # A driver tells no XID twice: what the file says at the start is no event any more.
            self._is_scanned = True
            self._told = dict(state)
        devices = []
        for device in self._machine.devices:
            health, reason = state[device.uuid]
            devices.append(replace(device, health=health, health_reason=reason))
        return replace(self._machine, devices=tuple(devices))

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        present = {d.uuid for d in self._machine.devices}
        # Without a machine file no process computes: use is unknown rather than zero.
        known = {uuid: DeviceUsage() for uuid in uuids if uuid in present}
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
                known |= read_usages(cards, known)
        return known

    @property
    def machine_file(self) -> Path | None:
        return self._file

    def machine_cards(self) -> tuple[SimulatedCard, ...]:
        """Return the cards of the machine's file, created if missing; () without a file."""
        if self._file is None:
            return ()
        ensure_machine(self._file, self._machine)
        self._file.parent.chmod(0o755)  # whatever the umask: jobs of every user reach it
        with SimulatedMachine(self._file) as cards:
            return cards.cards

    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Return nanoseconds in which a kernel of a process ran, by card and pid."""
        if self._file is None:
            return {}
        with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
            known = {card.uuid for card in cards.cards}
            return {uuid: _read_times(cards, uuid) for uuid in uuids if uuid in known}
        return {}

    def ended_times(
        self, uuids: Collection[str], pids: Collection[int]
    ) -> Mapping[str, EndedTimes]:
        """Return the last ended processes of this pid namespace, as far as remembered."""
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
                times = {}
                for card in cards.cards:
                    if card.uuid in uuids:
                        times[card.uuid] = EndedTimes(cards.list_ended(card.uuid, pids))
                return times
        return {uuid: EndedTimes(reason="nobody computes on this simulated card") for uuid in uuids}

    def release_lock(self, stopped: Collection[int]) -> None:
        """Resume a stopped process that holds the machine's lock until it releases the lock."""
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
                stop_without_lock(cards, stopped)

    def health(self) -> Mapping[str, tuple[DeviceHealth, str]]:
        return {uuid: (one.health, one.reason) for uuid, one in self._read_health().items()}

    def wait_events(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        with self._waiting:
            events = () if self._closed else self._take_changes()
            if events or self._closed:
                return events
            watched = [] if self._watch is None else [self._watch]
            readable, _, _ = select.select([self._wake, *watched], [], [], timeout_seconds)
            if self._watch is not None and self._watch in readable:
                os.read(self._watch, 65536)
            return () if self._wake in readable else self._take_changes()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        os.eventfd_write(self._wake, 1)
        with self._waiting:  # the waiting thread must have left the descriptors before they go
            os.close(self._wake)
            if self._watch is not None:
                os.close(self._watch)

    def _take_changes(self) -> tuple[HealthEvent, ...]:
        """Return what changed since the last call."""
        events = []
        for uuid, one in self._read_health().items():
            if self._told[uuid] != (one.health, one.reason):
                events.append(HealthEvent(uuid, one.health, one.reason, one.xid, one.recovery))
                self._told[uuid] = (one.health, one.reason)
        return tuple(events)

    def _read_health(self) -> dict[str, ReachedHealth]:
        entries = self._read_control()
        state: dict[str, ReachedHealth] = {}
        for device in self._machine.devices:
            entry = entries.get(device.uuid, entries.get(str(device.index)))
            own = ReachedHealth(device.health, device.health_reason)
            state[device.uuid] = own if entry is None else parse_state(entry)
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
                news = {}
                for uuid, wanted in state.items():
                    if self._reached.get(uuid) != wanted:
                        news[uuid] = wanted
                apply_health(cards, news)
                self._reached |= news
                state |= list_ill(cards, state)
        return state

    def _read_control(self) -> dict[str, Any]:
        if self._control is None or not (self._control / CONTROL_FILE).exists():
            return {}
        entries = load_json(self._control / CONTROL_FILE)
        if not isinstance(entries, dict):
            raise BadMachine(f"{CONTROL_FILE} must be an object from card to health")
        return entries


def _parse_group(group: str, spec: str) -> list[dict[str, Any]]:
    """Return the machine entries of one comma-separated group of a specification."""
    parts = [part.strip() for part in group.split("+")]
    if len(parts) > 1:
        return [_build_entry([_parse_cards(part, spec) for part in parts])]
    # Nodes of one group are equal, so one entry stands for all of them.
    nodes, cards, model = _split_counts(group, spec)
    check_size(nodes, cards, nodes * cards)
    name, mode = _parse_mode(model)
    return [_apply_mode(_build_one_model(cards, name), mode)] * nodes


def _parse_cards(part: str, spec: str) -> dict[str, Any]:
    nodes, cards, model = _split_counts(part, spec)
    if nodes != 1:
        raise BadMachine(
            f"{spec!r}: several mixed nodes cannot be told in one group",
            hint=f"understood: {EXAMPLES}",
        )
    check_size(nodes, cards, cards)
    name, mode = _parse_mode(model)
    return {"model": name, "count": cards, **mode}


def _parse_mode(text: str) -> tuple[str, dict[str, Any]]:
    """Return the model's own name, and the keys of a card entry for its mode."""
    name = find_known_model(text.strip().removesuffix(_PARTITIONED)).name
    if not text.strip().endswith(_PARTITIONED):
        return name, {}
    if not list_mig_profiles(name):
        raise BadMachine(
            f"what a {name} can be cut into is not known", hint=f"of these it is: {format_boards()}"
        )
    return name, {"partitioned": True}


def _apply_mode(entry: dict[str, Any], mode: dict[str, Any]) -> dict[str, Any]:
    if not mode:
        return entry
    # A copy: the entry of a preset may be used for several nodes.
    cards = [{**card, **mode} for card in entry["cards"]]
    return {**entry, "cards": cards}


def _split_counts(group: str, spec: str) -> tuple[int, int, str]:
    counts: list[int] = []
    rest = group
    while len(counts) < 2 and (match := _COUNT.match(rest)):
        counts.append(int(match[1]))
        rest = rest[match.end() :]
    if not any(letter.isalpha() for letter in rest):
        hint = f"understood: {EXAMPLES}; presets: {', '.join(list_presets())}"
        raise BadMachine(f"{spec!r} describes no machine", hint=hint)
    nodes, cards = (1, 1, *counts)[-2:]
    return nodes, cards, rest


def _build_one_model(count: int, model: str) -> dict[str, Any]:
    """Return the shipped machine of this shape without its name, or else a plausible one."""
    name = f"{count}x{model}"
    if name in list_presets():
        (entry,) = load_preset(name)["machines"]
        return {key: value for key, value in entry.items() if key != "name"}
    return _build_entry([{"model": model, "count": count}])


def _build_entry(cards: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a machine with two NUMA nodes from four cards on, and NVSwitch where it is sold."""
    singles: list[dict[str, Any]] = []
    for card in cards:
        singles += [dict(card, count=1)] * card["count"]
    half = (len(singles) + 1) // 2 if len(singles) >= 4 else len(singles)
    placed = [dict(card, numa_node=int(i >= half)) for i, card in enumerate(singles)]
    switched = []
    for model in sorted(_SWITCHED):
        group = [i for i, card in enumerate(placed) if card["model"] == model]
        if len(group) > 1:
            switched.append(group)
    return {"cards": placed, "domains": {"nvswitch": switched} if switched else {}}


def _watch_directory(path: Path) -> int:
    """Return an inotify(7) descriptor, readable when a file in `path` is written or renamed."""
    close_write = 0x8
    moved_to = 0x80
    deleted = 0x200
    descriptor = open_inotify()
    try:
        watch_path(descriptor, path, close_write | moved_to | deleted)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _read_times(cards: SimulatedMachine, uuid: str) -> Mapping[int, int]:
    return {use.pid: use.gpu_ns for use in cards.list_processes(uuid) if use.pid}
