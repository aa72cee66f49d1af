"""Asks replicas whether they are healthy. On the event loop."""

from __future__ import annotations

import asyncio
from typing import Final

from gpupool.base.errors import GpupoolError
from gpupool.serving.routing import ReplicaRoute
from gpupool.workspaces.exchange import AnswerReader
from gpupool.workspaces.streams import StreamBroker

#: Seconds in which a replica has to answer.
ANSWER_SECONDS: Final = 5.0
#: Bytes of the first line of an answer.
_MOST_BYTES: Final = 8192


async def check_replica(broker: StreamBroker, replica: ReplicaRoute, path: str | None) -> str:
    """Return why a replica is not healthy; empty: it is.

    Args:
        path: is asked for by GET; None: it is enough that the replica accepts a connection.
    """
    try:
        return await asyncio.wait_for(_ask(broker, replica, path), ANSWER_SECONDS)
    except TimeoutError:
        return f"no answer within {ANSWER_SECONDS:g} s"
    except GpupoolError as error:
        return error.message
    except OSError as error:
        return f"the connection broke: {error}"


async def _ask(broker: StreamBroker, replica: ReplicaRoute, path: str | None) -> str:
    target = {"kind": "port", "port": replica.port}
    opened = await broker.open_stream(replica.agent, replica.job, target)
    try:
        if path is None:
            return ""
        reader = AnswerReader(opened.end)
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        await reader.send(head.encode("ascii"))
        return read_health(await _read_line(reader), path)
    finally:
        opened.end.close()


async def _read_line(reader: AnswerReader) -> bytes:
    data = b""
    while b"\n" not in data and len(data) < _MOST_BYTES:
        piece = await reader.take()
        if not piece:
            break
        data += piece
    return data.partition(b"\n")[0]


def read_health(line: bytes, path: str) -> str:
    """Return why the first line of an answer is not a healthy replica's; empty: it is."""
    words = line.split(b" ", 2)
    is_http = words[0].startswith(b"HTTP/1.") and len(words) > 1 and words[1].strip().isdigit()
    if not is_http:
        return f"its answer to {path} is no HTTP/1.1"
    status = int(words[1])
    return "" if 200 <= status < 400 else f"{path} answered {status}, expected 200 to 399"
