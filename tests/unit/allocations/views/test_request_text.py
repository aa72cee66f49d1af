"""A request as text: the command line that is shown asks for the same when it is typed."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml

from gpupool.allocations.views.request_text import format_command, format_manifest
from gpupool.base.units import GIB, MIB
from gpupool.terminal.share_options import make_job_body, read_plain
from gpupool.wire.submissions import JobIn

SHAPE = {"gpu_milli": 300, "memory_bytes": 8 * GIB, "count": 1}
LAUNCH: dict[str, Any] = {"argv": ["sh", "-c", "echo 'a b'"]}
#: Bodies of requests, each with what is not plain in it.
BODIES: dict[str, dict[str, Any]] = {
    "share": {"shape": SHAPE},
    "odd memory": {"shape": {**SHAPE, "memory_bytes": 1536 * MIB}},
    "whole cards": {"shape": {"gpu_milli": 1000, "count": 4}},
    "shares of two cards": {"shape": {**SHAPE, "count": 2}},
    "partition": {"shape": {"profile": "1g.18gb", "count": 1}},
    "node": {
        "shape": {
            **SHAPE,
            "cpu_milli": 2500,
            "host_bytes": 32 * GIB,
            "model": "H200",
            "labels": {"rack": "r1"},
            "sharing": "burst",
            "within": {"preferred": "numa"},
            "needs": {"isolation": "hard", "goal": "latency", "host": "process"},
        }
    },
    "job": {
        "shape": SHAPE,
        "name": "train",
        "tenant": "lab",
        "project": "llm",
        "priority": -5,
        "max_seconds": 5400,
        "preemptible": True,
        "requeue": True,
        "idle_seconds": 600,
        "reservation": "night",
        "wait": False,
        "fence": False,
    },
    "array": {"shape": SHAPE, "array": 100},
    "gang": {
        "shape": SHAPE,
        "gang": {
            "name": "gang",
            "within": {"required": "rack"},
            "parts": [{"name": "member", "count": 8, "minimum": 4}],
        },
    },
    "network": {
        "shape": SHAPE,
        "launch": {
            **LAUNCH,
            "network": {"name": "lab", "security_groups": ["web"], "address": "10.0.0.9"},
        },
    },
}


@pytest.mark.parametrize("case", BODIES)
def test_the_command_asks_for_the_same(case: str) -> None:
    body = JobIn.model_validate({"launch": LAUNCH, **BODIES[case]})
    command = format_command(body)
    assert command is not None
    program, name, *words = shlex.split(command)
    assert (program, name) == ("gpupool", "submit")
    options = read_plain("submit", words)
    assert options is not None
    typed = JobIn.model_validate(make_job_body(options, attached=False, local=False))
    # Directory, variables and limits are those of the shell in which it is typed.
    launch = typed.launch.model_copy(update={"env": {}, "cwd": "/", "limits": {}, "umask": 0o022})
    shape = typed.shape.model_copy(update={"memory_typed": None})
    assert typed.model_copy(update={"launch": launch, "shape": shape}) == body


@pytest.mark.parametrize("case", BODIES)
def test_the_manifest_is_the_body(case: str) -> None:
    body = JobIn.model_validate({"launch": LAUNCH, **BODIES[case]})
    text = format_manifest(body)
    assert JobIn.model_validate(yaml.safe_load(text)) == body
    assert "limits" not in text


def test_a_container_has_its_options_and_variables() -> None:
    container = {
        "image": "registry.example/llama:3",
        "pull": "missing",
        "user": "1000",
        "workdir": "/w",
        "volumes": [{"source": "/data", "target": "/d", "read_only": True}],
    }
    launch = {**LAUNCH, "container": container, "env": {"A": "1 2"}}
    command = format_command(JobIn.model_validate({"shape": SHAPE, "launch": launch}))
    assert command == (
        "gpupool submit --gpu 0.3 --memory 8GiB --image registry.example/llama:3 --pull missing "
        "--user 1000 --workdir /w --volume /data:/d:ro --env 'A=1 2' -- sh -c 'echo '\"'\"'a b'\"'\"''"
    )


def test_a_gang_of_roles_has_no_command_line_of_its_own() -> None:
    parts = [{"name": "one", "count": 1}, {"name": "two", "count": 2}]
    body = JobIn.model_validate(
        {"shape": SHAPE, "launch": LAUNCH, "gang": {"name": "gang", "parts": parts}}
    )
    assert format_command(body) is None
    assert "two" in format_manifest(body)
