"""Processor time of clients of the Kubernetes API for the same events and patches.

`python -m bench.clients.kubernetes` runs our own client, `kubernetes_asyncio`, `kr8s` and bare
aiohttp, each in a process of its own, on one local server with TLS. Libraries come with
`uv sync --frozen --group clients`; one that is not installed is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from bench.clients.fake_api import PODS, FakeApi, serve_fake_api

EVENTS = 10_000
PATCHES = 2_000
#: Patches under way at a time, as the controller's releases.
PARALLEL = 8
ROUNDS = 5
#: A release: the gate goes, the node is pinned.
PATCH = {
    "metadata": {"annotations": {"gpupool.io/node": "node-7"}},
    "spec": {"schedulingGates": []},
}

#: Reads so many events.
Watch = Callable[[int], Awaitable[None]]
#: Sends one patch to the pod of that number.
Patch = Callable[[int], Awaitable[Any]]
Work = Callable[[Watch, Patch], Awaitable[None]]


def read_cpu_milliseconds() -> float:
    """Return the processor time of this process, in milliseconds."""
    return time.process_time() * 1000


async def measure_work(watch: Watch, patch: Patch) -> None:
    """Run both phases and print their processor time for 1,000 as JSON."""
    begin = read_cpu_milliseconds()
    await watch(EVENTS)
    events = (read_cpu_milliseconds() - begin) / EVENTS * 1000
    await patch(0)
    begin = read_cpu_milliseconds()
    numbers = iter(range(PATCHES))

    async def send_patches() -> None:
        for number in numbers:
            await patch(number)

    await asyncio.gather(*(send_patches() for _ in range(PARALLEL)))
    patches = (read_cpu_milliseconds() - begin) / PATCHES * 1000
    print(json.dumps({"events": events, "patches": patches}))


async def run_own(api: FakeApi, work: Work) -> None:
    """Measure the client of the controller."""
    from gpupool.kubernetes.client.api import KubeApi
    from gpupool.kubernetes.client.connection import ServerConnection

    tls = ssl.create_default_context(cafile=str(api.authority))
    async with KubeApi(ServerConnection(api.url, tls)) as client:

        async def watch(count: int) -> None:
            async for _, found in client.watch_changes(PODS, "1"):
                count -= bool(found["metadata"]["name"])
                if not count:
                    return

        await work(watch, lambda number: client.patch(f"{PODS}/train-{number}", PATCH))


async def run_aiohttp(api: FakeApi, work: Work) -> None:
    """Measure aiohttp with dictionaries: what our client would be on a library."""
    import aiohttp

    tls = ssl.create_default_context(cafile=str(api.authority))
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(api.url, connector=connector, read_bufsize=1 << 20) as session:

        async def watch(count: int) -> None:
            async with session.get(f"{PODS}?watch=1") as answer:
                async for line in answer.content:
                    count -= bool(json.loads(line)["object"]["metadata"]["name"])
                    if not count:
                        return

        async def patch(number: int) -> Any:
            data = json.dumps(PATCH)
            kind = {"Content-Type": "application/merge-patch+json"}
            path = f"{PODS}/train-{number}"
            async with session.patch(path, data=data, headers=kind) as answer:
                return json.loads(await answer.read())

        await work(watch, patch)


async def run_kubernetes_asyncio(api: FakeApi, work: Work) -> None:
    """Measure the generated, typed client."""
    from kubernetes_asyncio import client
    from kubernetes_asyncio import watch as watches

    settings = client.Configuration(host=api.url)
    settings.ssl_ca_cert = str(api.authority)
    async with client.ApiClient(settings) as generated:
        core = client.CoreV1Api(generated)

        async def watch(count: int) -> None:
            async with watches.Watch() as stream:
                async for event in stream.stream(core.list_namespaced_pod, "default"):
                    count -= bool(event["object"].metadata.name)
                    if not count:
                        return

        await work(
            watch, lambda number: core.patch_namespaced_pod(f"train-{number}", "default", PATCH)
        )


async def run_kr8s(api: FakeApi, work: Work) -> None:
    """Measure kr8s."""
    import kr8s
    from kr8s.asyncio.objects import Pod

    from bench.clients.fake_api import make_pod

    cluster = {"server": api.url, "certificate-authority": str(api.authority)}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": "none"}}],
    }
    path = api.authority.parent / "kubeconfig"
    path.write_text(json.dumps(kubeconfig))
    client = await kr8s.asyncio.api(kubeconfig=str(path), namespace="default")
    pods = [await Pod(make_pod(number), api=client) for number in range(PATCHES)]

    async def watch(count: int) -> None:
        async for _, pod in client.async_watch("pods", namespace="default"):
            count -= bool(pod.name)
            if not count:
                return

    await work(watch, lambda number: pods[number].patch(PATCH))


CLIENTS: dict[str, tuple[str, Callable[[FakeApi, Work], Coroutine[Any, Any, None]]]] = {
    "own": ("gpupool", run_own),
    "aiohttp": ("aiohttp", run_aiohttp),
    "kr8s": ("kr8s", run_kr8s),
    "kubernetes_asyncio": ("kubernetes_asyncio", run_kubernetes_asyncio),
}


async def measure_client(name: str, api: FakeApi) -> dict[str, float]:
    """Run one client in a process of its own; return its milliseconds for 1,000."""
    words = [sys.executable, "-m", "bench.clients.kubernetes", "--client", name]
    words += ["--url", api.url, "--authority", str(api.authority)]
    child = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    out, _ = await child.communicate()
    if child.returncode:
        raise RuntimeError(f"{name} ended with {child.returncode}")
    measured: dict[str, float] = json.loads(out)
    return measured


async def measure_all(rounds: int) -> None:
    """Measure every client that is installed, in turn, and print the medians."""
    names = [name for name, (module, _) in CLIENTS.items() if importlib.util.find_spec(module)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as folder:
        async with serve_fake_api(Path(folder), EVENTS) as api:
            for _ in range(rounds):
                for name in names:
                    found[name].append(await measure_client(name, api))
    print("| client | ms per 1,000 pod events | ms per 1,000 patches |\n|---|---|---|")
    for name, rows in found.items():
        events = statistics.median(row["events"] for row in rows)
        patches = statistics.median(row["patches"] for row in rows)
        print(f"| {name} | {events:.0f} | {patches:.0f} |")


def main(words: Sequence[str]) -> int:
    """Measure; with `--client` be the measured process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each client")
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--authority", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.client is None:
        asyncio.run(measure_all(options.rounds))
    else:
        _, run_client = CLIENTS[options.client]
        asyncio.run(run_client(FakeApi(options.url, options.authority), measure_work))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
