"""First page of a list of jobs over the API, at 1,000 to 100,000 jobs: time, and rows of work.

The whole server answers in this process: routes, rights, database, shapes. SQLite's steps are counted
beside the time, since they are equal on every machine. The map of 10,000 cards has its bytes and time.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.rows import Row
from tests.support.api import Client, running_app
from tests.support.database_steps import database_steps
from tests.support.many_jobs import fill_history

NAME = "joblists"
COMMAND = "python -m bench joblists"
#: Jobs of the histories, the shortest first.
SIZES = (1000, 10_000, 100_000)
#: Milliseconds until the first page.
LIMIT_MS = 300.0
#: Bytes of the map as it is sent.
LIMIT_MAP_BYTES = 250_000
ROUNDS = 9
NODES = 1250
CARDS_PER_NODE = 8
#: By name, the query of a list.
LISTS: dict[str, dict[str, Any]] = {
    "newest": {"sort": "-submitted"},
    "by compute": {"sort": "-gpu"},
    "of a tenant by name": {"sort": "name", "tenant": "team-1"},
    "failed": {"sort": "-ended", "state": "failed"},
    "found by text": {"q": "llama"},
    "found nowhere": {"q": "no such job"},
}


def run(out: Path) -> list[Row]:
    """Measure the lists at each size, and the map of a large pool."""
    del out  # rows alone
    rows = list[Row]()
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder, running_app(Path(folder)) as pool:
            with pool.store.engine.begin() as connection:
                fill_history(connection, size)
            client = pool.client()
            for name, query in LISTS.items():
                with database_steps(pool.store.engine) as steps:
                    _ask(client, query)
                samples = tuple(_ask(client, query) for _ in range(ROUNDS))
                rows.append(
                    Row(
                        f"first page, {name}, {size} jobs",
                        "ms",
                        sorted(samples)[ROUNDS // 2],
                        COMMAND,
                        limit=LIMIT_MS,
                        samples=samples,
                        note=f"{steps.count} steps of SQLite",
                    )
                )
    return [*rows, *_measure_map()]


def _ask(client: Client, query: dict[str, Any]) -> float:
    began = time.perf_counter()
    answer = client.get("jobs", params={**query, "limit": 50})
    assert answer.status == 200, answer.body
    return (time.perf_counter() - began) * 1000


def _measure_map() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, running_app(Path(folder)) as pool:
        client = pool.client()
        for node in range(NODES):
            client.put(f"nodes/node-{node}", _describe_node(node))
        pool.services.allocations.placer.load()
        samples = list[float]()
        for number in range(ROUNDS):
            # Each is another map: a job more is placed.
            shape = {"gpu_milli": 100 + number, "memory_bytes": 1 << 30}
            client.post("jobs", {"shape": shape, "launch": {"argv": ["true"]}, "wait": False})
            began = time.perf_counter()
            answer = client.get("map", headers={"Accept-Encoding": "gzip"})
            samples.append((time.perf_counter() - began) * 1000)
        plain = gzip.decompress(answer.body)
        cards = len(json.loads(plain)["cards"]["id"])
        again = client.get("map", headers={"If-None-Match": answer.headers["etag"]})
        assert again.status == 304, again.status
    figure = f"map of {cards} cards"
    median = sorted(samples)[ROUNDS // 2]
    return [
        Row(f"{figure}, built after a change", "ms", median, COMMAND, samples=tuple(samples)),
        Row(
            f"{figure}, as sent",
            "bytes",
            len(answer.body),
            COMMAND,
            limit=LIMIT_MAP_BYTES,
            note=f"{len(plain)} bytes uncompressed",
        ),
    ]


def _describe_node(number: int) -> dict[str, Any]:
    devices = []
    for index in range(CARDS_PER_NODE):
        devices.append(
            {
                "uuid": f"GPU-{number}-{index}",
                "index": index,
                "vendor": "nvidia",
                "product": "NVIDIA H200",
                "model": "H200",
                "memory_bytes": 140 << 30,
                "health": "ok",
                "simulated": True,
            }
        )
    labels = {"rack": f"r{number // 16}"}
    return {"devices": devices, "simulated": True, "adopt": True, "labels": labels}
