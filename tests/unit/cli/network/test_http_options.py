"""Routes and certificates as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadInput
from gpupool.cli.network.http_options import parse_route, read_certificate


@pytest.mark.parametrize(
    ("text", "host", "path", "backends", "port"),
    [
        ("api.example.com/v1=api:9000", "api.example.com", "/v1", ["api"], 9000),
        ("*.example.com=a,b:80", "*.example.com", "/", ["a", "b"], 80),
        ("/static=files:8000", None, "/static", ["files"], 8000),
        ("=any:1", None, "/", ["any"], 1),
    ],
)
def test_a_route_has_a_host_a_path_jobs_and_a_port(
    text: str, host: str | None, path: str, backends: list[str], port: int
) -> None:
    assert parse_route(text) == {
        "host": host,
        "path": path,
        "backends": backends,
        "target_port": port,
    }


@pytest.mark.parametrize("text", ["", "a", "a=b", "a=b:", "a=:80", "a/b=c:d", "a=b:123456"])
def test_what_is_no_route_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not a route"):
        parse_route(text)


def test_a_certificate_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read the certificate"):
        read_certificate(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="cannot read the certificate"):
        read_certificate(tmp_path / "binary")
    (tmp_path / "pem").write_text("-----BEGIN")
    assert read_certificate(tmp_path / "pem") == "-----BEGIN"
