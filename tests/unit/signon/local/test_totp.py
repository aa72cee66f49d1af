"""Codes of RFC 6238, appendix B, cut to six digits."""

from __future__ import annotations

import pytest

from gpupool.signon.local.totp import find_step, make_code, make_uri, write_secret

SECRET = write_secret(b"12345678901234567890")


@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_are_those_of_the_specification(seconds: int, code: str) -> None:
    assert make_code(SECRET, seconds // 30) == code
    assert find_step(SECRET, code, seconds * 10**9, 0) == seconds // 30


def test_a_code_serves_one_step_to_either_side_and_once() -> None:
    now_ns = 1111111111 * 10**9
    step = 1111111111 // 30
    for near in (step - 1, step, step + 1):
        assert find_step(SECRET, make_code(SECRET, near), now_ns, 0) == near
    for far in (step - 2, step + 2):
        assert find_step(SECRET, make_code(SECRET, far), now_ns, 0) is None
    assert find_step(SECRET, make_code(SECRET, step), now_ns, step) is None
    assert find_step(SECRET, make_code(SECRET, step + 1), now_ns, step) == step + 1


def test_the_uri_has_what_authenticators_read() -> None:
    uri = make_uri(SECRET, "alice", "p-1")
    assert uri.startswith("otpauth://totp/gpupool%3Aalice%40p-1?secret=GEZDGNBVGY3TQOJQ")
    assert "period=30" in uri
