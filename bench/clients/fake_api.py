"""A server on loopback with TLS that answers as an API server does, at almost no cost of its own.

A watch of pods sends the same prepared events to every client; a patch answers with the pod.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpupool.kubernetes.admission.certificates import renew_certificates

#: Events in one write of a watch.
BATCH = 20
PODS = "/api/v1/namespaces/default/pods"
#: What clients ask before the first request; `kr8s` needs all of it.
DISCOVERY: Mapping[str, Any] = {
    "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "pods",
                "singularName": "pod",
                "kind": "Pod",
                "namespaced": True,
                "shortNames": ["po"],
                "verbs": ["get", "list", "patch", "watch"],
            }
        ],
    },
}


@dataclass(frozen=True)
class FakeApi:
    """A running server: its address and the file with its authority."""

    url: str
    authority: Path


def make_pod(number: int) -> dict[str, Any]:
    """Return a pod as API servers send one for a training job: 2.5 KiB, 4 conditions."""
    name = f"train-{number}"
    instant = "2026-11-23T10:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": instant}
        for kind in kinds
    ]
    container = {
        "name": "main",
        "image": "registry.example.com/research/train:2026-11-20",
        "command": ["python", "train.py", "--config", "/etc/train/config.yaml"],
        "env": [{"name": f"SETTING_{index}", "value": f"value-{index}"} for index in range(8)],
        "resources": {"limits": {"gpupool.io/gpu": "300"}, "requests": {"gpupool.io/gpu": "300"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": instant,
            "labels": {"app": "train", "team": "nlp", "job-name": "train"},
            "annotations": {"gpupool.io/request": "1 x 0.3 GPU + 8Gi"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1"}
            ],
        },
        "spec": {
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [container],
            "restartPolicy": "Never",
            "nodeName": f"node-{number % 50}",
            "schedulerName": "default-scheduler",
            "schedulingGates": [{"name": "gpupool.io/cards"}],
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "status": {"phase": "Running", "conditions": conditions, "podIP": "10.0.0.7"},
    }


@asynccontextmanager
async def serve_fake_api(folder: Path, events: int) -> AsyncIterator[FakeApi]:
    """Serve until the block ends; a watch sends `events` events and then stays open."""
    certificates = renew_certificates(None, ["localhost"], datetime.now(UTC))
    (folder / "ca.crt").write_text(certificates.bundle)
    (folder / "tls.crt").write_text(certificates.serving)
    (folder / "tls.key").write_text(certificates.serving_key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    lines = []
    for number in range(events):
        event = {"type": "MODIFIED", "object": make_pod(number)}
        lines.append(json.dumps(event, separators=(",", ":")).encode() + b"\n")
    batches = [b"".join(lines[at : at + BATCH]) for at in range(0, events, BATCH)]
    handler = _Handler(batches)
    server = await asyncio.start_server(handler.serve, "localhost", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield FakeApi(f"https://localhost:{port}", folder / "ca.crt")
    finally:
        server.close()


class _Handler:
    """Answers the requests of a connection one after another."""

    def __init__(self, batches: list[bytes]) -> None:
        self._batches = batches
        self._patched = json.dumps(make_pod(1), separators=(",", ":")).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, _ = head.split(b" ", 2)
                await reader.readexactly(_length(head))
                if b"watch=" in target:
                    await self._watch(writer)
                elif method == b"GET":
                    path = target.decode().partition("?")[0].rstrip("/")
                    _answer(writer, json.dumps(_document(path)).encode())
                else:
                    _answer(writer, self._patched)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _watch(self, writer: asyncio.StreamWriter) -> None:
        kind = b"Content-Type: application/json\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"Transfer-Encoding: chunked\r\n\r\n")
        for batch in self._batches:
            writer.write(f"{len(batch):x}\r\n".encode() + batch + b"\r\n")
            await writer.drain()


def _document(path: str) -> Any:
    empty = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
    return DISCOVERY.get(path, empty | {"items": []})


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _answer(writer: asyncio.StreamWriter, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    writer.write(head.encode() + b"\r\n\r\n" + body)
