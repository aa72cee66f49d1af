"""A port for the hub's proxy: what it does while the server in the job does not answer."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import pytest

from gpupool.base.client_settings import client_settings
from gpupool.client.transport import Api
from gpupool_jupyterhub.relay import JobRelay
from tests.support.supervised import until


def make_api(directory: Path) -> Api:
    return Api(client_settings({}, state_dir=str(directory)))


def test_a_connection_to_a_pool_that_is_away_is_closed_and_the_next_is_taken(
    tmp_path: Path,
) -> None:
    relay = JobRelay(lambda: make_api(tmp_path), "j-1", "hub")
    try:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", relay.port), 20) as client:
                client.settimeout(20)
                assert client.recv(1) == b""
    finally:
        relay.close()


def test_a_hub_that_had_no_descriptor_left_takes_connections_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    relay = JobRelay(lambda: make_api(tmp_path), "j-1", "hub")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with socket.socket() as client:
            client.settimeout(20)
            # The kernel has a descriptor for the connection that is awaited, and none for the next.
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
            try:
                client.connect(("127.0.0.1", relay.port))
                until(lambda: "is taken" in caplog.text, "a warning")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            assert client.recv(1) == b""
        with socket.create_connection(("127.0.0.1", relay.port), 20) as client:
            assert client.recv(1) == b""
    finally:
        relay.close()


def test_close_frees_the_port_and_can_be_repeated(tmp_path: Path) -> None:
    relay = JobRelay(lambda: make_api(tmp_path), "j-1", "hub")
    relay.close()
    relay.close()
    again = JobRelay(lambda: make_api(tmp_path), "j-1", "hub", relay.port)
    again.close()
    assert again.port == relay.port


def test_a_port_that_is_taken_is_said_at_once(tmp_path: Path) -> None:
    relay = JobRelay(lambda: make_api(tmp_path), "j-1", "hub")
    try:
        with pytest.raises(OSError, match="in use"):
            JobRelay(lambda: make_api(tmp_path), "j-2", "hub", relay.port)
    finally:
        relay.close()
