"""Whatever the wire accepts as a launch, the supervisor's own parser accepts, and the agent can
read back."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpupool.agent.supervisor.job_spec import (
    BadSpec,
    JobSpec,
    ResourceLimit,
    decode_spec,
    encode_spec,
)
from gpupool.model.launch import LARGEST_LIMIT, LIMIT_NAMES, NO_LIMIT
from gpupool.wire.submissions import LaunchIn
from tests.unit.native.fence_build import shared
from tests.unit.native.front_pool import NATIVE, ROOT, compiler

SUPERVISOR = ROOT / "native" / "supervisor"
PROBE = ROOT / "tests" / "unit" / "native" / "spec_probe.c"
Parser = Callable[[bytes], str]

# Texts that have broken parsers: separators of the format, control characters, lone surrogates, and
# any other text.
ODD_TEXT = st.one_of(
    st.sampled_from(
        ["", "=", "a=b", "a:b", "\0", "\n", "/..", "/", "\udc80", "\ud800", "unlimited", "1:2:3"]
    ),
    st.text(max_size=40),
)
NUMBERS = st.one_of(
    st.sampled_from(
        [NO_LIMIT, 0, 1, -7, LARGEST_LIMIT, LARGEST_LIMIT + 1, 2**64 - 1, 2**64, 10**30]
    ),
    st.integers(-10, 10**6),
)
LIMITS = st.dictionaries(
    st.one_of(st.sampled_from(sorted(LIMIT_NAMES)), ODD_TEXT),
    st.tuples(NUMBERS, NUMBERS),
    max_size=3,
)
LAUNCHES = st.fixed_dictionaries(
    {"argv": st.lists(ODD_TEXT, max_size=4)},
    optional={
        "cwd": st.one_of(ODD_TEXT, st.builds("/{}".format, ODD_TEXT)),
        "env": st.dictionaries(ODD_TEXT, ODD_TEXT, max_size=4),
        "umask": st.integers(-1, 0o1777),
        "limits": LIMITS,
    },
)


def _compile(folder: Path) -> None:
    sources = [
        PROBE,
        SUPERVISOR / "spec.c",
        SUPERVISOR / "isolation/numa.c",
        NATIVE / "common/small_file.c",
    ]
    command = [compiler(), "-std=gnu11", "-O1", "-fPIC", "-shared"]
    command += [f"-I{NATIVE}", f"-I{SUPERVISOR}", *map(str, sources)]
    subprocess.run([*command, "-o", str(folder / "spec.so")], check=True)


@pytest.fixture(scope="session")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Parser:
    """What the supervisor's parser says against a description; empty when it accepts it."""
    library = ctypes.CDLL(str(shared(tmp_path_factory, "spec-c", _compile) / "spec.so"))
    library.spec_probe.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]

    def parse(content: bytes) -> str:
        why = ctypes.create_string_buffer(512)
        return (
            ""
            if library.spec_probe(content, len(content), why, len(why))
            else why.value.decode() or "refused"
        )

    return parse


def described(launch: LaunchIn) -> JobSpec:
    """As `agent.jobs.launch.job_spec` describes it, without what the pool adds."""

    def value(number: int) -> int | None:
        return None if number == NO_LIMIT else number

    limits = {
        name: ResourceLimit(value(soft), value(hard))
        for name, (soft, hard) in launch.limits.items()
    }
    return JobSpec(
        "a-1", tuple(launch.argv), launch.cwd, launch.env, umask=launch.umask, limits=limits
    )


@given(LAUNCHES)
def test_the_parser_accepts_every_launch_that_the_wire_accepts(
    parser: Parser, body: dict[str, Any]
) -> None:
    try:
        launch = LaunchIn.model_validate(body)
    except ValidationError:
        return
    content = encode_spec(described(launch))
    assert parser(content) == "", content
    assert decode_spec(content) == described(launch)


@pytest.mark.parametrize("name", sorted(LIMIT_NAMES))
def test_the_parser_knows_every_limit_that_the_wire_names(parser: Parser, name: str) -> None:
    launch = LaunchIn(argv=["true"], limits={name: (1, NO_LIMIT)})
    assert parser(encode_spec(described(launch))) == ""


REFUSED = {
    "unknown name": {"limits": {"a:b": [1, 2]}},
    "negative": {"limits": {"nofile": [-7, 10]}},
    "too large": {"limits": {"nofile": [10**30, NO_LIMIT]}},
    "soft above hard": {"limits": {"nofile": [20, 10]}},
    "soft without end above hard": {"limits": {"nofile": [NO_LIMIT, 10]}},
    "relative directory": {"cwd": "tmp"},
    "directory with NUL": {"cwd": "/tmp\0"},
    "directory of 5000 bytes": {"cwd": "/" + "ä" * 2500},
    "variable without a name": {"env": {"=A": "1"}},
    "argument with NUL": {"argv": ["a\0b"]},
    "argument that execve refuses": {"argv": ["ä" * 70_000]},
    "more than one description holds": {"env": {f"V{n}": "x" * 100_000 for n in range(40)}},
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_wire_refuses_what_a_node_would_refuse(case: str) -> None:
    with pytest.raises(ValidationError):
        LaunchIn.model_validate({"argv": ["true"], **REFUSED[case]})


@given(st.binary(max_size=200))
def test_damaged_descriptions_are_bad_specs(rest: bytes) -> None:
    content = b"gpupool-job 1\n" + rest + b"\0"
    try:
        decode_spec(content)
    except BadSpec:
        return
