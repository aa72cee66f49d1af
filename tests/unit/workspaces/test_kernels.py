"""A notebook's own word on its use: what is not understood is not known, and so not idle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpupool.workspaces.kernels import NotebookSilent, find_latest, parse_list

AT = "2026-11-29T07:00:00.000000Z"
AT_NS = 1_795_935_600 * 10**9


def answer(content: object, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nServer: x\r\n\r\n{json.dumps(content)}".encode()


def now_ns() -> int:
    return 7


def kernel(state: str, at: str = AT) -> dict[str, Any]:
    return {"execution_state": state, "last_activity": at, "connections": 1}


def test_a_kernel_that_works_is_active_now() -> None:
    assert find_latest([kernel("idle"), kernel("busy")], [], now_ns) == 7


@pytest.mark.parametrize("state", ["idle", "starting"])
def test_an_open_page_alone_is_no_activity(state: str) -> None:
    assert find_latest([kernel(state)], [], now_ns) == AT_NS
    later = [{"name": "1", "last_activity": "2026-11-29T07:00:01Z"}]
    assert find_latest([kernel("idle")], later, now_ns) == AT_NS + 10**9


def test_a_notebook_without_kernels_was_never_active() -> None:
    assert find_latest([], [], now_ns) == 0


@pytest.mark.parametrize("at", ["", "yesterday", "2026-11-29T07:00:00"])
def test_a_time_that_is_not_understood_is_not_known(at: str) -> None:
    with pytest.raises(NotebookSilent):
        find_latest([kernel("idle", at)], [], now_ns)


def test_a_list_that_the_notebook_does_not_have_is_empty() -> None:
    assert parse_list(answer({"message": "no"}, "404 Not Found")) == []
    assert parse_list(answer([kernel("idle")])) == [kernel("idle")]


@pytest.mark.parametrize(
    "given",
    [b"", answer([], "403 Forbidden"), answer({}), answer([1]), b"HTTP/1.1 200 OK\r\n\r\n[{"],
)
def test_any_other_answer_is_not_known(given: bytes) -> None:
    with pytest.raises(NotebookSilent):
        parse_list(given)
