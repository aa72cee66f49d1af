"""Machines without hardware: for trying gpupool out, for tests, and for planning what to buy.

`parse_sim` reads what people type after `--sim`; `SimulatedProbe` answers for one such machine as a real
probe would. Every machine and card says that it is simulated. With a machine file (`probes.simgpu`) jobs really
use the cards, and their memory, processes and load are told; without one nobody computes on them, so their load is
unknown, not zero. A file `health.json` in the control directory makes cards fail: `{"3": {"health":
"failed", "reason": "fell off the bus", "xid": 79}}`, by index or uuid; `set_health` writes it. The machine file's cards
then fail with them: XID 79 loses the card, another failure makes it refuse new work, an XID fails what runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadMachine
from gpupool.model.device import DeviceUsage, Health
from gpupool.probes.contract import Availability, EndedTimes, HealthEvent, Machine
from gpupool.probes.document import check_size, known_model, read_machine, read_machines
from gpupool.probes.mig_tables import boards_text, mig_profiles
from gpupool.probes.simgpu import LOST_XID, SimulatedCard, SimulatedMachine, ensure_machine, stop_without_lock, usages

CONTROL_FILE = "health.json"

# Boards on which these models are sold in sets join all their cards through NVSwitch.
_SWITCHED = frozenset({"A100-40G", "A100-80G", "A800-80G", "H100", "H800", "H20", "H200", "B200", "B300"})
_COUNT = re.compile(r"\s*(-?\d{1,9})\s*[xX×*]\s*")
_EXAMPLES = (
    "4xL40S (one node), 2x8xH200 (nodes x cards x model), 4xL40S+2xT4 (mixed), 2xH200:mig (in partition mode), "
    "a preset, a .json file"
)
_PARTITIONED = ":mig"


def preset_names() -> tuple[str, ...]:
    """The machines shipped with gpupool, by name."""
    found = (entry.name for entry in resources.files("gpupool.probes").joinpath("presets").iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in found if name.endswith(".json")))


def parse_sim(spec: str, seed: str = "") -> tuple[Machine, ...]:
    """The machines that `spec` asks for. `seed` (the pool's own) makes the uuids of two pools differ.

    `4xL40S` is one node with four cards, `2x8xH200` two nodes with eight each, `4xL40S+2xT4` one node with
    both, and a comma puts nodes beside each other: `8xH100,4xL40S`. `2xH200:mig` are cards in partition
    mode. A preset's name or the path of a machine file does as well.

    >>> [(m.name, len(m.devices)) for m in parse_sim("2x8xH200,T4")]
    [('sim-0', 8), ('sim-1', 8), ('sim-2', 1)]

    Raises BadMachine or UnknownModel; both say what would have been understood.
    """
    text = spec.strip()
    if text.endswith(".json") or "/" in text:
        return read_machines(_load(Path(text)), seed)
    presets = {name.lower(): name for name in preset_names()}
    if text.lower() in presets:
        return read_machines(_preset(presets[text.lower()]), seed)
    entries = [entry for group in text.split(",") for entry in _nodes(group.strip(), spec)]
    totals = [sum(card.get("count", 1) for card in entry["cards"]) for entry in entries]
    check_size(len(totals), max(totals), sum(totals))
    return tuple(read_machine(entry, seed, f"sim-{i}") for i, entry in enumerate(entries))


def set_health(control_dir: Path, card: str | int, health: Health, reason: str = "", xid: int | None = None) -> None:
    """Make a simulated card well or ill from now on. Atomic; the other cards keep what was set for them."""
    path = control_dir / CONTROL_FILE
    entries = _load(path) if path.exists() else {}
    entries[str(card)] = {"health": str(health), "reason": reason, "xid": xid}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(entries), encoding="utf-8")
    os.replace(temporary, path)


class SimulatedProbe:
    """Answers for one simulated machine. `control_dir` is where `health.json` is looked for; None: nothing
    fails. `machine_file` is what the machine's jobs map; it may be made, or made anew, at any time.
    """

    name = "simulated"

    def __init__(self, machine: Machine, control_dir: Path | None = None, machine_file: Path | None = None) -> None:
        self._machine = machine
        self._file = machine_file
        self._reached: dict[str, tuple[Health, str, int | None]] = {}
        self._control = control_dir
        self._told = {d.uuid: (d.health, d.health_reason) for d in machine.devices}
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._watch = _watch_directory(control_dir)
        self._waiting = threading.Lock()
        self._closed = False

    def available(self) -> Availability:
        return Availability(True, "simulated machines need nothing")

    def scan(self) -> Machine:
        state = self.health()
        devices = tuple(
            replace(d, health=state[d.uuid][0], health_reason=state[d.uuid][1]) for d in self._machine.devices
        )
        return replace(self._machine, devices=devices)

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        present = {d.uuid for d in self._machine.devices}
        known = {uuid: DeviceUsage() for uuid in uuids if uuid in present}
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
                known |= usages(cards, known)
        return known

    @property
    def machine_file(self) -> Path | None:
        return self._file

    def machine_cards(self) -> tuple[SimulatedCard, ...]:
        """What the machine's file says of its cards; the file is made if it is not there. None without a file."""
        if self._file is None:
            return ()
        ensure_machine(self._file, self._machine)
        self._file.parent.chmod(0o755)  # whatever the umask: jobs of every user reach it
        with SimulatedMachine(self._file) as cards:
            return cards.cards

    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Nanoseconds in which a kernel of a process ran, by card and pid."""
        if self._file is None:
            return {}
        with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
            known = {card.uuid for card in cards.cards}
            return {uuid: _times(cards, uuid) for uuid in uuids if uuid in known}
        return {}

    def ended_times(self, uuids: Collection[str], pids: Collection[int]) -> Mapping[str, EndedTimes]:
        """Of processes in this pid namespace; the machine remembers the last contexts only."""
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
                known = {card.uuid for card in cards.cards}
                return {uuid: EndedTimes(cards.ended(uuid, pids)) for uuid in uuids if uuid in known}
        return {uuid: EndedTimes(reason="nobody computes on this simulated card") for uuid in uuids}

    def let_out(self, stopped: Collection[int]) -> None:
        """Who was stopped while it held the machine's lock runs on until it has given it back."""
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
                stop_without_lock(cards, stopped)

    def health(self) -> Mapping[str, tuple[Health, str]]:
        return {uuid: (health, reason) for uuid, (health, reason, _) in self._read().items()}

    def wait_events(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        with self._waiting:
            events = () if self._closed else self._changes()
            if events or self._closed:
                return events
            readable, _, _ = select.select([self._wake, self._watch], [], [], timeout_seconds)
            if self._watch in readable:
                os.read(self._watch, 65536)
            return () if self._wake in readable else self._changes()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        os.eventfd_write(self._wake, 1)
        with self._waiting:  # the waiting thread must have left the descriptors before they go
            os.close(self._wake)
            os.close(self._watch)

    def _changes(self) -> tuple[HealthEvent, ...]:
        """What differs from what was told last time, and remember it as told."""
        now = self._read()
        events = tuple(
            HealthEvent(uuid, health, reason, xid)
            for uuid, (health, reason, xid) in now.items()
            if self._told[uuid] != (health, reason)
        )
        self._told = {uuid: (health, reason) for uuid, (health, reason, _) in now.items()}
        return events

    def _read(self) -> dict[str, tuple[Health, str, int | None]]:
        entries = self._control_entries()
        state: dict[str, tuple[Health, str, int | None]] = {}
        for device in self._machine.devices:
            entry = entries.get(device.uuid, entries.get(str(device.index)))
            own = (device.health, device.health_reason, None)
            state[device.uuid] = own if entry is None else _state(entry)
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), SimulatedMachine(self._file) as cards:
                news = {uuid: told for uuid, told in state.items() if self._reached.get(uuid) != told}
                _reach(cards, news)
                self._reached |= news
                state |= _ill(cards, state)
        return state

    def _control_entries(self) -> dict[str, Any]:
        if self._control is None or not (self._control / CONTROL_FILE).exists():
            return {}
        entries = _load(self._control / CONTROL_FILE)
        if not isinstance(entries, dict):
            raise BadMachine(f"{CONTROL_FILE} must be an object from card to health")
        return entries


def _state(entry: object) -> tuple[Health, str, int | None]:
    if not isinstance(entry, dict) or entry.get("health") not in list(Health):
        raise BadMachine(f"{CONTROL_FILE}: {entry!r} has no health among {', '.join(Health)}")
    xid = entry.get("xid")
    reason = str(entry.get("reason") or "") + (f" (XID {xid})" if xid is not None else "")
    return Health(entry["health"]), reason.strip(), xid


def _reach(machine: SimulatedMachine, news: Mapping[str, tuple[Health, str, int | None]]) -> None:
    """Make the machine's cards fail, or well again, as was newly said. What they are already is left alone, so that
    nothing befalls them twice.
    """
    for card in machine.cards:
        health, _, xid = news.get(card.uuid, (Health.UNKNOWN, "", None))
        lost, refuses, last_xid = machine.condition(card.uuid)
        failed = health is Health.FAILED
        if health is Health.OK and (lost or refuses):
            machine.heal(card.uuid)
        elif failed and xid == LOST_XID and not lost:
            machine.lose(card.uuid)
        elif xid is not None and xid not in (last_xid, LOST_XID):
            machine.inject_xid(card.uuid, xid, needs_reset=failed)
        elif failed and not (lost or refuses):
            machine.refuse_contexts(card.uuid)


def _ill(
    machine: SimulatedMachine, state: Mapping[str, tuple[Health, str, int | None]]
) -> dict[str, tuple[Health, str, int | None]]:
    """Cards that nobody called ill and that are: made to fail in the machine's file."""
    found = {}
    for card in machine.cards:
        lost, refuses, xid = machine.condition(card.uuid)
        if (lost or refuses) and card.uuid in state and state[card.uuid][0] is not Health.FAILED:
            what = "fell off the bus" if lost else "needs a reset"
            found[card.uuid] = (Health.FAILED, what + (f" (XID {xid})" if xid else ""), xid)
    return found


def _nodes(group: str, spec: str) -> list[dict[str, Any]]:
    """The machine entries of one comma-separated group of a specification."""
    parts = [part.strip() for part in group.split("+")]
    if len(parts) > 1:
        return [_built([_cards(part, spec) for part in parts])]
    nodes, cards, model = _split(group, spec)
    check_size(nodes, cards, nodes * cards)
    name, mode = _moded(model)
    return [_in_mode(_one_model(cards, name), mode)] * nodes


def _cards(part: str, spec: str) -> dict[str, Any]:
    nodes, cards, model = _split(part, spec)
    if nodes != 1:
        raise BadMachine(f"{spec!r}: several mixed nodes cannot be told in one group", hint=f"understood: {_EXAMPLES}")
    check_size(nodes, cards, cards)
    name, mode = _moded(model)
    return {"model": name, "count": cards, **mode}


def _moded(text: str) -> tuple[str, dict[str, Any]]:
    """The model's own name, and what a card entry says of its mode. Raises UnknownModel, BadMachine."""
    name = known_model(text.strip().removesuffix(_PARTITIONED)).name
    if not text.strip().endswith(_PARTITIONED):
        return name, {}
    if not mig_profiles(name):
        raise BadMachine(f"what a {name} can be cut into is not known", hint=f"of these it is: {boards_text()}")
    return name, {"partitioned": True}


def _in_mode(entry: dict[str, Any], mode: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "cards": [{**card, **mode} for card in entry["cards"]]} if mode else entry


def _split(group: str, spec: str) -> tuple[int, int, str]:
    counts: list[int] = []
    rest = group
    while len(counts) < 2 and (match := _COUNT.match(rest)):
        counts.append(int(match[1]))
        rest = rest[match.end() :]
    if not any(letter.isalnum() for letter in rest):
        hint = f"understood: {_EXAMPLES}; presets: {', '.join(preset_names())}"
        raise BadMachine(f"{spec!r} describes no machine", hint=hint)
    nodes, cards = (1, 1, *counts)[-2:]
    return nodes, cards, rest


def _one_model(count: int, model: str) -> dict[str, Any]:
    """The shipped machine of this shape if there is one, under no name of its own; else a plausible one."""
    name = f"{count}x{model}"
    if name in preset_names():
        (entry,) = _preset(name)["machines"]
        return {key: value for key, value in entry.items() if key != "name"}
    return _built([{"model": model, "count": count}])


def _built(cards: list[dict[str, Any]]) -> dict[str, Any]:
    """A machine with two NUMA nodes when it has four cards or more, and NVSwitch within each set sold with
    it.
    """
    singles = [dict(card, count=1) for card in cards for _ in range(card["count"])]
    half = (len(singles) + 1) // 2 if len(singles) >= 4 else len(singles)
    placed = [dict(card, numa_node=int(i >= half)) for i, card in enumerate(singles)]
    sets = [[i for i, c in enumerate(placed) if c["model"] == model] for model in sorted(_SWITCHED)]
    switched = [group for group in sets if len(group) > 1]
    return {"cards": placed, "domains": {"nvswitch": switched} if switched else {}}


def _preset(name: str) -> Any:
    text = resources.files("gpupool.probes").joinpath("presets", f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        hint = f"understood: {_EXAMPLES}"
        raise BadMachine(f"{path} cannot be read: {problem.strerror}", hint=hint) from problem
    except ValueError as problem:
        raise BadMachine(f"{path} is not JSON: {problem}") from problem


def _watch_directory(path: Path | None) -> int:
    """A descriptor that becomes readable when a file in `path`, if any, is written or renamed; inotify(7)."""
    libc = ctypes.CDLL(None, use_errno=True)
    close_write, moved_to, deleted, cloexec, nonblock = 0x8, 0x80, 0x200, 0o2000000, 0o4000
    wanted = close_write | moved_to | deleted
    descriptor = int(libc.inotify_init1(cloexec | nonblock))
    if descriptor >= 0 and path is None:
        return descriptor
    if descriptor < 0 or path is None or libc.inotify_add_watch(descriptor, os.fsencode(path), wanted) < 0:
        raise OSError(ctypes.get_errno(), "cannot watch", str(path))
    return descriptor


def _times(cards: SimulatedMachine, uuid: str) -> Mapping[int, int]:
    return {use.pid: use.gpu_ns for use in cards.processes(uuid) if use.pid}
