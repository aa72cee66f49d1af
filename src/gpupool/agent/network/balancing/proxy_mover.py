"""Moves load balancers of HTTP between the machines of the pair, in the northbound database.

Part of the watchdog's process: it needs neither agent nor server. A thread follows the rows; the
watchdog's own loop is never blocked by a database that is away.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.balancing.living_proxies import LivingProxies
from gpupool.agent.network.balancing.proxy_moves import (
    PairClock,
    PairSight,
    ProxyStep,
    RowSight,
    decide_step,
)
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.balancing.pair_rows import (
    ProxyPair,
    arm,
    find_place,
    is_armed,
    is_ready,
    mark_ready,
    move_targets,
    read_pair,
)
from gpupool.network.ovn.session import OvsdbSession

_TABLES: Final = {"Load_Balancer": ("vips", "options", "external_ids")}
#: Below the directory of an engine's sockets: the directories of proxies, and which of them serve.
PROXIES: Final = "proxies"
_SERVING: Final = "serving-proxies.json"
#: Seconds between two looks at an idle connection, while time alone may decide, and between
#: attempts to connect.
_LOOK_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 0.2
#: Seconds in which a change is taken, or decided again with what is there by then.
_WRITE_SECONDS: Final = 2.0

log = logging.getLogger(__name__)


class ProxyMover:
    """The load balancers of one machine of the pair."""

    def __init__(self, remote: str, run: Path, *, is_first: bool) -> None:
        """Make the object; `start` connects.

        Args:
            remote: where the northbound database is.
            run: directory of the engine's sockets.
            is_first: whether this machine is the first of the pair.
        """
        self._remote = remote
        self._run = run
        self._place = 0 if is_first else 1
        self._proxies = LivingProxies(run / PROXIES)
        self._clock = PairClock()
        self._lock = threading.Lock()
        self._sight: PairSight | None = None
        self._living: Mapping[str, bool] = {}
        self._is_doubtful = False
        self._session: OvsdbSession | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="proxy-mover", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread, within some seconds. Idempotent."""
        self._closing.set()
        self._wake()
        self._thread.join()
        self._proxies.close()

    def look(self, sight: PairSight) -> None:
        """Look at the proxies here, and have moved what has to. Never blocks.

        A machine that was cut off reads the rows over a new connection: the old one would bring the
        other machine's changes only after seconds.
        """
        living = self._proxies.look(time.monotonic())
        with self._lock:
            if sight == self._sight and living == self._living:
                return
            self._is_doubtful |= not sight.is_any_up
            self._sight = sight
            self._living = living
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._session is not None:
                self._session.wake()

    def _follow(self) -> None:
        while not self._closing.is_set():
            try:
                session = OvsdbSession(self._remote, "OVN_Northbound", _TABLES)
            except NetworkingUnavailable as error:
                log.warning("load balancers do not move: %s", error.message)
                self._closing.wait(_RETRY_SECONDS)
                continue
            with self._lock:
                self._session = session
                self._is_doubtful = False
            try:
                while not self._closing.is_set() and not self._is_doubtful:
                    if self._move(session):
                        # What was written may be the first of two steps.
                        continue
                    is_waiting = self._clock.is_waiting(time.monotonic())
                    session.wait(_WAIT_SECONDS if is_waiting else _LOOK_SECONDS)
            except NetworkingUnavailable as error:
                log.warning("%s", error.message)
            finally:
                with self._lock:
                    self._session = None
                session.close()

    def _move(self, session: OvsdbSession) -> bool:
        """Write what follows from what is known now, and return whether that was something.

        Raises NetworkingUnavailable.
        """
        session.refresh()
        with self._lock:
            sight = self._sight
            living = self._living
        if sight is None:
            return False
        now = time.monotonic()
        self._clock.note_peer(now, is_up=sight.is_peer_up)
        rows = list(_list_rows(session))
        self._clock.forget_others([str(row.uuid) for row, _ in rows])
        for row, pair in rows:
            self._clock.note_row(now, str(row.uuid), sight, self._see_row(row, pair, living))

        def change(_transaction: Any) -> None:
            # Decided with each attempt: the other machine may have been first.
            for row, pair in _list_rows(session):
                self._change_row(row, pair, sight, living)

        is_due = any(self._find_change(row, pair, sight, living) for row, pair in rows)
        if is_due:
            session.commit(change, _WRITE_SECONDS)
        self._note_serving(session)
        return is_due

    def _change_row(
        self, row: Any, pair: ProxyPair, sight: PairSight, living: Mapping[str, bool]
    ) -> None:
        changes = self._find_change(row, pair, sight, living)
        for column, value in changes.items():
            row.verify(column)
            setattr(row, column, value)
        if "vips" in changes:
            log.info("load balancer %s leads to %s", row.uuid, sorted(changes["vips"].values()))

    def _find_change(
        self, row: Any, pair: ProxyPair, sight: PairSight, living: Mapping[str, bool]
    ) -> dict[str, dict[str, str]]:
        """Return what this machine writes to a row, by column."""
        seen = self._see_row(row, pair, living)
        times = self._clock.measure(time.monotonic(), str(row.uuid))
        step = decide_step(sight, seen, times)
        changes = dict[str, dict[str, str]]()
        if is_ready(row.external_ids, self._place) != seen.is_ready:
            marks = mark_ready(row.external_ids, self._place, ready=seen.is_ready)
            changes["external_ids"] = marks
        if step in (ProxyStep.TAKE, ProxyStep.GIVE):
            place = self._place if step is ProxyStep.TAKE else 1 - self._place
            changes["vips"] = move_targets(row.vips, pair, place)
        if step is ProxyStep.ARM or (step is not None and seen.is_armed):
            changes["options"] = arm(row.options, armed=step is ProxyStep.ARM)
        return changes

    def _see_row(self, row: Any, pair: ProxyPair, living: Mapping[str, bool]) -> RowSight:
        return RowSight(
            is_here=find_place(row.vips, pair) == self._place,
            is_ready=living.get(pair.keys[self._place], False),
            is_peer_ready=is_ready(row.external_ids, 1 - self._place),
            is_armed=is_armed(row.options),
        )

    def _note_serving(self, session: OvsdbSession) -> None:
        """Write down which proxies of this machine serve, for its agent."""
        keys = set[str]()
        for row, pair in _list_rows(session):
            if find_place(row.vips, pair) == self._place:
                keys.add(pair.keys[self._place])
        text = json.dumps(sorted(keys))
        path = self._run / _SERVING
        if not path.exists() or path.read_text() != text:
            new = path.with_suffix(".new")
            new.write_text(text)
            new.rename(path)


def read_serving(run: Path) -> frozenset[str]:
    """Read which proxies of a machine of the pair serve, by key; none before its watchdog knows."""
    try:
        found: list[str] = json.loads((run / _SERVING).read_text())
    except FileNotFoundError:
        return frozenset()
    return frozenset(found)


def forget_serving(run: Path) -> None:
    """Forget which proxies serve: the machine is of no pair any more. Idempotent."""
    (run / _SERVING).unlink(missing_ok=True)


def _list_rows(session: OvsdbSession) -> Iterator[tuple[Any, ProxyPair]]:
    for row in list(session.get_rows("Load_Balancer").values()):
        pair = read_pair(row.options)
        if pair is not None:
            yield row, pair
