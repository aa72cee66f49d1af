"""The path that a service sees that knows no prefix."""

from __future__ import annotations

import pytest

from gpupool.workspaces.exchange import cut_prefix
from gpupool.workspaces.streams import StreamHello, parse_hello


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        (b"/jobs/j-1/vscode/", b"/"),
        (b"/jobs/j-1/vscode", b"/"),
        (b"/jobs/j-1/vscode/static/a%2Fb", b"/static/a%2Fb"),
        (b"/jobs/j-1/vscode//x", b"//x"),
    ],
)
def test_cut_prefix_leaves_what_is_below_the_service(path: bytes, seen: bytes) -> None:
    assert cut_prefix(path) == seen


def test_parse_hello_takes_a_service_at_its_root_from_an_agent_that_says_so() -> None:
    assert parse_hello(b'{"token": "t", "root": true}') == StreamHello("", "t", True)
    # An agent of an earlier release, and one that says nonsense.
    assert parse_hello(b'{"token": "t"}') == StreamHello("", "t", False)
    assert parse_hello(b'{"root": "yes"}') == StreamHello()
