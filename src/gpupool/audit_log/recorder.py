"""Writes the records of requests that wrote nothing: refusals, failed logins, tests.

Bounded: a source that is refused again and again gets few records, each with how often. What finds
no room is counted, and the count is a record. Adding never waits for the disk.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from gpupool.base.errors import GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.store.acts import AuditEntry
from gpupool.store.database import Store
from gpupool.wire.audit.chain import GAP

logger = logging.getLogger(__name__)

#: Different records that wait at a time, and those of one source.
MOST_WAITING: Final = 1000
MOST_OF_SOURCE: Final = 20
#: Seconds from the first record that waits to the write, and after a write that failed.
PAUSE_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 5.0


class _WaitingEntry:
    """An entry, and how many equal requests there were."""

    def __init__(self, entry: AuditEntry, now_ns: int) -> None:
        self.entry = entry
        self.times = 1
        self.first_ns = now_ns

    def build_entry(self) -> AuditEntry:
        """Build the entry to write. Its record is younger than the first request."""
        facts = dict(self.entry.facts)
        data = {**facts.get("data", {}), "first_ns": self.first_ns}
        return AuditEntry(facts | {"times": self.times, "data": data}, self.entry.tenant_id)


class ActRecorder:
    """Collects entries and writes them from a thread: `start`, then `close`. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._waiting: OrderedDict[str, _WaitingEntry] = OrderedDict()
        self._of_source: dict[str, int] = {}
        self._lost = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = SupervisedThread("audit", self._run)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and write what waits. Idempotent."""
        self._closing.set()
        self._thread.stop()
        self._wake.set()
        self.flush()

    def add(self, entry: AuditEntry) -> None:
        """Add an entry; an equal one that waits is counted. Blocks for a lock alone."""
        source = f"{entry.facts.get('user')} {entry.facts.get('source')}"
        key = json.dumps([entry.facts, entry.tenant_id], sort_keys=True, default=str)
        with self._lock:
            known = self._waiting.get(key)
            if known is not None:
                known.times += 1
                return
            mine = self._of_source.get(source, 0)
            if mine >= MOST_OF_SOURCE or len(self._waiting) >= MOST_WAITING:
                self._lost += 1
            else:
                self._waiting[key] = _WaitingEntry(entry, self._store.clock.now_ns())
                self._of_source[source] = mine + 1
        self._wake.set()

    def flush(self) -> bool:
        """Write what waits, in one transaction. Return whether nothing is left over."""
        with self._flush_lock:
            with self._lock:
                taken = self._waiting
                lost = self._lost
                self._waiting = OrderedDict()
                self._of_source = {}
                self._lost = 0
            if not taken and not lost:
                return True
            try:
                with self._store.write(freeing=True) as write:
                    for one in taken.values():
                        write.audit(one.build_entry())
                    if lost:
                        write.audit(AuditEntry(build_own_facts(GAP, {"lost": lost})))
            except GpupoolError as error:
                logger.warning("%d audit records wait: %s", len(taken), error.message)
                self._put_back(taken, lost)
                return False
            except BaseException:
                self._put_back(taken, lost)
                raise
        return True

    def _put_back(self, taken: OrderedDict[str, _WaitingEntry], lost: int) -> None:
        with self._lock:
            self._lost += lost
            newer = self._waiting
            self._waiting = taken
            for key, one in newer.items():
                known = self._waiting.get(key)
                if known is not None:
                    known.times += one.times
                elif len(self._waiting) < MOST_WAITING:
                    self._waiting[key] = one
                else:
                    self._lost += one.times

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._wake.clear()
            self._closing.wait(PAUSE_SECONDS)
            with mark_busy():
                is_done = self.flush()
            self._thread.mark_well()
            if not is_done:
                self._closing.wait(RETRY_SECONDS)
                self._wake.set()


def build_own_facts(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Build a record that the log writes about itself."""
    return {"kind": kind, "data": dict(data)}
