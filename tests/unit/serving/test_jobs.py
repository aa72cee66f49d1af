"""The job of a replica."""

from __future__ import annotations

from typing import Any

from gpupool.serving.jobs import make_replica_job


def test_a_replica_has_its_port_and_name_everywhere() -> None:
    body: dict[str, Any] = {
        "shape": {"gpu_milli": 500},
        "launch": {
            "argv": ["serve", "--at=:{port}"],
            "env": {"URL": "http://x:{port}/", "PORT": "1"},
        },
    }
    made = make_replica_job(body, "web", 3, 8002)
    assert made.name == "web-3"
    assert made.launch.argv == ["serve", "--at=:8002"]
    assert made.launch.env == {"URL": "http://x:8002/", "PORT": "8002", "GPUPOOL_SERVICE": "web"}
    assert body["launch"]["argv"] == ["serve", "--at=:{port}"]
