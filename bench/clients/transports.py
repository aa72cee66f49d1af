"""Processor time of our HTTP client for pools beside `http.client` and aiohttp, over a Unix socket.

`python -m bench.clients.transports` measures two things for each: a new process that asks once and
ends, as every command does, and each further request on the kept connection, as the SDK does.
`bare` is a Python that imports nothing. The server is the same for all and costs the client nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 15
#: Requests of the second figure, after the first.
REQUESTS = 2_000

OWN = """
from gpupool.base.client_settings import ClientSettings
from gpupool.client.transport import Api
api = Api(ClientSettings(state_dir=folder))
def ask():
    return api.request("GET", "jobs/job-1")
"""

HTTP_CLIENT = """
import http.client, json, socket
class UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(folder + "/gpupool.sock")
connection = UnixConnection("gpupool")
def ask():
    connection.request("GET", "/api/v1/jobs/job-1", headers={"Accept": "application/json"})
    return json.loads(connection.getresponse().read())
"""

AIOHTTP = """
import aiohttp, asyncio, json
loop = asyncio.new_event_loop()
async def start():
    connector = aiohttp.UnixConnector(folder + "/gpupool.sock")
    return aiohttp.ClientSession("http://gpupool", connector=connector)
session = loop.run_until_complete(start())
async def send():
    async with session.get("/api/v1/jobs/job-1") as answer:
        return json.loads(await answer.read())
def ask():
    return loop.run_until_complete(send())
"""

BARE = """
def ask():
    return {"name": "job-1"}
"""

CLIENTS = {"bare": BARE, "own": OWN, "http.client": HTTP_CLIENT, "aiohttp": AIOHTTP}

#: Prints the whole processor time of a process up to its first answer, and that of the others.
MEASURE = """
import sys
folder, count = sys.argv[1], int(sys.argv[2])
{client}
assert ask()["name"] == "job-1"
import os, time
first = time.process_time() * 1000
for _ in range(count):
    ask()
each = time.process_time() * 1000 - first
sys.stdout.write(f"{{first}} {{each / count}}")
sys.stdout.flush()
os._exit(0)
"""


def make_answer() -> bytes:
    """Return a job of about 1 KiB as the pool answers it."""
    job = {"name": "job-1", "state": "running", "request": {"gpu_milli": 300, "count": 1}}
    text = json.dumps(job | {"command": ["python", "train.py"], "labels": {"x": "y" * 800}})
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
    return f"{head}\r\n\r\n{text}".encode()


async def serve_pool(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection with the same job."""
    answer = make_answer()
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def measure_client(source: str, folder: Path) -> tuple[float, float]:
    """Run one client; return the milliseconds of its first answer and of each further one."""
    program = MEASURE.format(client=source)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(folder), str(REQUESTS), stdout=subprocess.PIPE
    )
    out, _ = await child.communicate()
    if child.returncode:
        raise RuntimeError(f"a client ended with {child.returncode}")
    first, each = map(float, out.split())
    return first, each


async def measure_all(rounds: int) -> None:
    """Measure every client in turn and print the medians."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in CLIENTS}
    with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as name:
        folder = Path(name)
        await asyncio.start_unix_server(serve_pool, os.fspath(folder / "gpupool.sock"))
        for _ in range(rounds):
            for client, source in CLIENTS.items():
                found[client].append(await measure_client(source, folder))
    print("| client | ms to the first answer | ms for 1,000 further ones |\n|---|---|---|")
    for client, rows in found.items():
        first = statistics.median(row[0] for row in rows)
        further = statistics.median(row[1] for row in rows) * 1000
        print(f"| {client} | {first:.1f} | {further:.0f} |")


def main(words: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each client")
    options = parser.parse_args(words)
    asyncio.run(measure_all(options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
