"""Numbers that a machine has once are given to one test process at a time, and back when it
ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.claims import PORTS, NothingFreeError, claim_port, claimed, claimed_port

HOLDS = """
import sys
from tests.support.claims import claimed
with claimed(sys.argv[1], range(2)) as number:
    print(number, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def kind() -> str:
    return f"test-{os.getpid()}"


def test_two_claims_get_two_numbers_and_a_third_is_refused(kind: str) -> None:
    with claimed(kind, range(2)) as first, claimed(kind, range(2)) as second:
        assert {first, second} == {0, 1}
        with pytest.raises(NothingFreeError, match="from 0 to 1"), claimed(kind, range(2)):
            raise AssertionError("a number was given twice")
    with claimed(kind, range(1)) as again:
        assert again == 0


def test_a_claim_of_another_process_ends_with_it_by_kill_too(kind: str) -> None:
    root = Path(__file__).parents[2]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, kind], cwd=root, stdin=pipe, stdout=pipe
    ) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        with claimed(kind, range(2)) as ours:
            assert ours != theirs
        other.kill()
    with claimed(kind, [theirs]) as free_again:
        assert free_again == theirs


def test_ports_differ_and_none_is_one_that_clients_get_or_that_is_taken() -> None:
    first = claim_port()
    with socket.create_server(("127.0.0.1", first)):
        found = {claim_port() for _ in range(5)}
    assert first not in found
    assert len(found) == 5
    assert found <= set(PORTS)
    first_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(PORTS) < first_of_clients


def test_a_port_claimed_for_a_block_is_given_back_at_its_end() -> None:
    with claimed_port() as first, claimed_port() as second:
        assert first != second
        with pytest.raises(NothingFreeError), claimed("port", [first]):
            pass
    with claimed("port", [first]) as again:
        assert again == first
