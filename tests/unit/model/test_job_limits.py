"""Which resource limits a job gets of those that its request names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadOption
from gpupool.model.job_limits import (
    DEFAULTS,
    UNLIMITED,
    USUAL,
    JobLimits,
    parse_job_limits,
    tighten,
)

NUMBERS = st.integers(-(1 << 70), 1 << 70)
PAIRS = st.dictionaries(st.sampled_from([*DEFAULTS, "a:b"]), st.tuples(NUMBERS, NUMBERS))
OWN = st.dictionaries(
    st.sampled_from(list(DEFAULTS)), st.tuples(NUMBERS, NUMBERS).map(lambda p: (tighten(*p), p[1]))
)


@given(PAIRS, st.none() | OWN, OWN)
def test_no_request_gets_more_than_its_caller_and_the_administrator_have(asked, own, most):  # type: ignore[no-untyped-def]
    granted = JobLimits(most).grant_limits(asked, own)
    assert granted.keys() == DEFAULTS.keys()
    for name, (soft, hard) in granted.items():
        assert tighten(soft, hard) == soft or soft == hard
        for bound in (
            (own or {}).get(name, DEFAULTS[name]),
            most.get(name, (UNLIMITED, UNLIMITED)),
        ):
            assert tighten(hard, bound[1]) == hard or (hard < 0 and bound[1] < 0)


def test_what_a_caller_has_and_asks_for_it_gets() -> None:
    own = {"nofile": (1024, 4096), "rtprio": (5, 5)}
    granted = USUAL.grant_limits({"nofile": (2048, 4096)}, own)
    assert granted["nofile"] == (2048, 4096)
    assert granted["rtprio"] == (5, 5)


def test_a_caller_of_unknown_limits_gets_the_defaults_at_most() -> None:
    granted = USUAL.grant_limits(
        {"nofile": (20_000, UNLIMITED), "rtprio": (99, 99), "nice": (40, 40)}, None
    )
    assert granted["nofile"] == (20_000, 524_288)
    assert granted["rtprio"] == granted["nice"] == (0, 0)


def test_options_are_read() -> None:
    limits = parse_job_limits(
        ["nofile=100:200", "memlock=unlimited", "core=5", "processes=64", "host-memory=2GiB"]
    )
    assert limits.most == {"nofile": (100, 200), "memlock": (UNLIMITED, UNLIMITED), "core": (5, 5)}
    assert (limits.processes, limits.host_memory_bytes(1 << 40)) == (64, 2 << 30)
    assert limits.restrict_to({"nofile": (10, 150)}).most["nofile"] == (100, 150)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nofile",
        "nofile=",
        "nofile=-7",
        "files=3",
        "nofile=9:3",
        "nofile=1:x",
        "processes=0",
        "core=1:2:3",
    ],
)
def test_what_is_no_limit_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadOption, match=f"--job-limit {text}"):
        parse_job_limits([text])


@pytest.mark.parametrize("gib", [1, 2, 16, 2048])
def test_a_job_leaves_memory_to_the_system(gib: int) -> None:
    assert gib << 29 <= USUAL.host_memory_bytes(gib << 30) <= (gib << 30) - (1 << 29)
