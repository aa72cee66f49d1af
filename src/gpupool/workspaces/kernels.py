"""When the kernels and terminals of a notebook were active last, as its own server tells.

A browser tab that is left open asks its notebook every few seconds, so bytes of a notebook's pages say
nothing of its person. JupyterLab knows when a kernel worked last, and whether one works now.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.store.tables import allocations, jobs
from gpupool.base.errors import GpupoolError
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.tables import nodes
from gpupool.store.database import Store
from gpupool.workspaces.exchange import AnswerReader
from gpupool.workspaces.streams import StreamBroker

#: The service of `gpupool notebook`.
NOTEBOOK_SERVICE: Final = "nb"
#: Seconds that one answer may take: a notebook that is slower is not known.
_ASK_SECONDS: Final = 5.0
#: Bytes of an answer at most: a thousand kernels.
_MOST_BYTES: Final = 1 << 20
#: The state of a kernel that works. One that no page has been connected to stays `starting`, so only
#: this one counts, as for the culler of Jupyter Server 2.21.
_BUSY: Final = "busy"

log = logging.getLogger(__name__)


class NotebookSilent(Exception):
    """The notebook gives no answer that is understood."""


class KernelActivity:
    """Asks notebooks. Thread-safe; `find_last` blocks."""

    def __init__(self, store: Store, broker: StreamBroker) -> None:
        self._store = store
        self._broker = broker

    def find_last(self, job: str) -> int | None:
        """Find when a kernel or terminal of a job was active last; None: it is not known.

        A kernel that works is active now. One without a kernel or terminal was never active: 0.
        """
        agent = self._find_agent(job)
        loop = self._broker.loop
        if agent is None or loop is None:
            return None
        asked = asyncio.run_coroutine_threadsafe(self._ask(agent, job), loop)
        try:
            return asked.result(_ASK_SECONDS * 3)
        except (GpupoolError, NotebookSilent, OSError, TimeoutError, ValueError) as error:
            asked.cancel()
            log.info("the notebook of job %s does not say when it was used last: %s", job, error)
            return None

    def _find_agent(self, job: str) -> str | None:
        query = (
            sa.select(nodes.c.agent)
            .join(allocations, allocations.c.node_id == nodes.c.id)
            .join(jobs, jobs.c.id == allocations.c.job_id)
            .where(
                jobs.c.public_id == job,
                # Word for word the condition of the partial index on held allocations.
                allocations.c.state != sa.literal_column("'released'"),
            )
        )
        with self._store.read() as connection:
            return connection.execute(query).scalars().first()

    async def _ask(self, agent: str, job: str) -> int:
        kernels = await self._get(agent, job, "kernels")
        terminals = await self._get(agent, job, "terminals")
        return find_latest(kernels, terminals, self._store.clock.now_ns)

    async def _get(self, agent: str, job: str, what: str) -> list[dict[str, Any]]:
        """Ask the notebook's API for a list; one that it does not have is empty."""
        target = {"kind": "service", "service": NOTEBOOK_SERVICE}
        opened = await self._broker.open_stream(agent, job, target)
        try:
            reader = AnswerReader(opened.end)
            # HTTP/1.0: the answer has no pieces, and the connection ends with it.
            head = (
                f"GET /jobs/{job}/{NOTEBOOK_SERVICE}/api/{what}?no_track_activity=1 HTTP/1.0\r\n"
                f"Host: localhost\r\nAuthorization: token {opened.hello.token}\r\n\r\n"
            )
            await reader.send(head.encode("latin-1"))
            answer = await asyncio.wait_for(_read_all(reader), _ASK_SECONDS)
        finally:
            opened.end.close()
        return parse_list(answer)


def parse_list(answer: bytes) -> list[dict[str, Any]]:
    """Parse the list in an answer; 404 is an empty one. Raises NotebookSilent."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    status = words[1] if len(words) > 1 else b""
    if status == b"404":
        return []
    if status != b"200":
        raise NotebookSilent(f"it answers {status[:20]!r}")
    try:
        found = json.loads(body)
    except ValueError as error:
        raise NotebookSilent(f"its answer is not understood: {error}") from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NotebookSilent("its answer is no list")
    return found


def find_latest(
    kernels: list[dict[str, Any]], terminals: list[dict[str, Any]], now_ns: Callable[[], int]
) -> int:
    """Find the latest activity of kernels and terminals; 0: there are none. Raises NotebookSilent."""
    if any(one.get("execution_state") == _BUSY for one in kernels):
        return now_ns()
    instants = [_parse_instant(one.get("last_activity")) for one in (*kernels, *terminals)]
    return max(instants, default=0)


def _parse_instant(text: object) -> int:
    try:
        instant = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise NotebookSilent(f"last_activity {str(text)[:40]!r} is no time") from error
    if instant.tzinfo is None:
        raise NotebookSilent(f"last_activity {str(text)[:40]!r} has no time zone")
    return int(instant.timestamp() * NANOS_PER_SECOND)


async def _read_all(reader: AnswerReader) -> bytes:
    whole = bytearray()
    while piece := await reader.take():
        whole += piece
        if len(whole) > _MOST_BYTES:
            raise NotebookSilent(f"its answer is longer than {_MOST_BYTES} bytes")
    return bytes(whole)
