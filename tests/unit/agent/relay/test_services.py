"""The socket of a job is connected to if the job's user owns and serves it; nothing is followed."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpupool.agent.relay.refusal import StreamRefusal
from gpupool.agent.relay.services import connect_service
from gpupool.agent.supervisor.run_directory import (
    RUN_DIRECTORY,
    make_run_directory,
    remove_run_directory,
)

ME = os.geteuid()


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A listener at a path of any length."""
    directory = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(f"/proc/self/fd/{directory}/{path.name}")
        os.close(directory)
        server.listen(4)
        yield server


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run_directory(tmp_path, ME, os.getegid())


def test_connect_service_reaches_the_socket_and_reads_its_token(tmp_path: Path, run: Path) -> None:
    (run / "nb.token").write_text("abc\n")
    with listening(run / "nb.sock") as server:
        found = connect_service(tmp_path, "nb", ME)
        assert (found.token, found.is_at_root) == ("abc", False)
        with found.socket as connection, server.accept()[0] as peer:
            connection.sendall(b"hello")
            assert peer.recv(5) == b"hello"


def test_connect_service_follows_no_link(tmp_path: Path, run: Path) -> None:
    with listening(tmp_path / "other.sock"):
        (run / "nb.sock").symlink_to(tmp_path / "other.sock")
        with pytest.raises(StreamRefusal, match="no socket of the job's user"):
            connect_service(tmp_path, "nb", ME)


def test_connect_service_reads_no_token_through_a_link(tmp_path: Path, run: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of-another")
    (run / "nb.token").symlink_to(secret)
    with listening(run / "nb.sock"):
        found = connect_service(tmp_path, "nb", ME)
    found.socket.close()
    assert found.token == ""


@pytest.mark.parametrize(
    "text", ["caf\u00e9", "two words", "a\x7fb"], ids=["latin", "space", "control"]
)
def test_connect_service_takes_no_token_that_no_header_can_hold(
    tmp_path: Path, run: Path, text: str
) -> None:
    (run / "nb.token").write_text(text)
    with listening(run / "nb.sock"):
        found = connect_service(tmp_path, "nb", ME)
    found.socket.close()
    assert found.token == ""


@pytest.mark.parametrize("is_link", [False, True])
def test_connect_service_takes_a_root_file_of_the_user_and_no_link(
    tmp_path: Path, run: Path, is_link: bool
) -> None:
    if is_link:
        (tmp_path / "file").touch()
        (run / "vscode.root").symlink_to(tmp_path / "file")
    else:
        (run / "vscode.root").touch()
    with listening(run / "vscode.sock"):
        found = connect_service(tmp_path, "vscode", ME)
    found.socket.close()
    assert found.is_at_root is not is_link


def test_connect_service_follows_no_link_to_another_directory(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / RUN_DIRECTORY).symlink_to(other)
    with listening(other / "nb.sock"), pytest.raises(StreamRefusal, match="no run directory"):
        connect_service(tmp_path, "nb", ME)


@pytest.mark.parametrize("name", ["../x", "", "a/b", "A", "x" * 33, ".."])
def test_connect_service_takes_plain_names_alone(tmp_path: Path, run: Path, name: str) -> None:
    with pytest.raises(StreamRefusal, match="not the name of a service"):
        connect_service(tmp_path, name, ME)


def test_connect_service_of_another_user_is_refused(tmp_path: Path, run: Path) -> None:
    with listening(run / "nb.sock"), pytest.raises(StreamRefusal, match="no socket of"):
        connect_service(tmp_path, "nb", ME + 1)


def test_connect_service_that_listens_no_more_is_refused(tmp_path: Path, run: Path) -> None:
    with listening(run / "nb.sock"):
        pass
    with pytest.raises(StreamRefusal, match="nothing in the job listens"):
        connect_service(tmp_path, "nb", ME)
    (run / "nb.sock").unlink()
    with pytest.raises(StreamRefusal, match="has not made"):
        connect_service(tmp_path, "nb", ME)


def test_make_run_directory_keeps_what_a_running_job_has_there(tmp_path: Path, run: Path) -> None:
    (run / "nb.token").write_text("abc")
    assert make_run_directory(tmp_path, ME, os.getegid()) == run
    assert (run / "nb.token").exists()
    assert run.stat().st_mode & 0o777 == 0o700
    remove_run_directory(tmp_path)
    remove_run_directory(tmp_path)
    assert not run.exists()
