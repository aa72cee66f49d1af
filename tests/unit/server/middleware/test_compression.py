"""Which answers are compressed."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response, StreamingResponse

from gpupool.server.middleware.compression import (
    SMALLEST_BYTES,
    THREAD_BYTES,
    CompressionMiddleware,
)
from tests.support.api import running_app

GZIP = {"Accept-Encoding": "gzip"}


def answer(
    response: Response, method: str = "GET", encoding: bytes = b"gzip", path: str = "/api/v1/jobs"
) -> list[Any]:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(3600)
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"accept-encoding", encoding)]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(CompressionMiddleware(response)(scope, receive, send))
    return sent


def headers_of(sent: list[Any]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.mark.parametrize("size", [SMALLEST_BYTES, THREAD_BYTES + 1])
def test_long_json_is_compressed_whole(size: int) -> None:
    sent = answer(JSONResponse("x" * size, headers={"ETag": '"7"'}))
    headers = headers_of(sent)
    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == "Accept-Encoding"
    assert headers["etag"] == '"7"'
    body = sent[1]["body"]
    assert int(headers["content-length"]) == len(body) < size / 10
    assert json.loads(gzip.decompress(body)) == "x" * size
    assert len(sent) == 2


@pytest.mark.parametrize(
    ("response", "method", "encoding"),
    [
        (JSONResponse("x" * 100), "GET", b"gzip"),
        (JSONResponse("x" * 5000), "POST", b"gzip"),
        (JSONResponse("x" * 5000), "GET", b"br"),
        (JSONResponse("x" * 5000), "GET", b"gzip;q=0"),
        (JSONResponse("x" * 5000, headers={"Content-Encoding": "br"}), "GET", b"gzip"),
        (Response(b"x" * 5000, media_type="text/plain"), "GET", b"gzip"),
    ],
)
def test_other_answers_pass_as_they_are(response: Response, method: str, encoding: bytes) -> None:
    sent = answer(response, method, encoding)
    assert headers_of(sent).get("content-encoding") in (None, "br")
    assert sent[1]["body"] == response.body


@pytest.mark.parametrize("kind", ["application/x-ndjson", "text/event-stream", "application/json"])
def test_a_stream_is_never_held_back(kind: str) -> None:
    pieces = ["x" * 5000, "y" * 5000]
    sent = answer(StreamingResponse(iter(pieces), media_type=kind))
    assert "content-encoding" not in headers_of(sent)
    assert [part["body"].decode() for part in sent[1:] if part["body"]] == pieces


def test_the_answer_of_a_service_is_not_held_until_it_is_whole() -> None:
    sent = answer(JSONResponse("x" * 5000), path="/services/web/v1/models")
    assert "content-encoding" not in headers_of(sent)


def test_a_long_list_is_compressed_and_a_write_is_not(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        admin = pool.client()
        for n in range(8):
            assert admin.post("tenants", {"name": f"tenant-{n}"}, headers=GZIP).status == 201
        plain = admin.get("tenants")
        packed = admin.get("tenants", headers=GZIP)
    assert len(packed.body) < len(plain.body) / 3
    assert json.loads(gzip.decompress(packed.body)) == plain.json()
