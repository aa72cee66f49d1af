"""Attaching to a job: what its supervisor is told, and what its end means for us."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpupool.base.errors import BadInput, CommandNotFound, ServiceUnavailable, WrongState
from gpupool.client.attach import SupervisorChannel, attach_to_job, words_of

ANSWERS = {"hello": "hello 1", "wait": "ok", "attach": "attached"}


class ScriptedSupervisor:
    """Answers each word with a line, sends one more after `attach`, and hangs up."""

    def __init__(self, path: Path, answers: Mapping[str, str], end: str) -> None:
        self.lines: list[str] = []
        self.descriptors: list[int] = []
        self._answers = answers
        self._end = end
        self._listening = socket.socket(socket.AF_UNIX)
        folder = os.open(path.parent, os.O_PATH)
        self._listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)
        self._listening.listen(1)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.thread.join()
        for descriptor in self.descriptors:
            os.close(descriptor)

    def _serve(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return
        with connection:
            while True:
                data, descriptors, _, _ = socket.recv_fds(connection, 4096, 3)
                self.descriptors += descriptors
                for line in data.decode().splitlines():
                    self.lines.append(line)
                    word = line.split()[0]
                    connection.sendall(self._answers[word].encode() + b"\n")
                    if word == "attach":
                        connection.sendall(self._end.encode())
                        return
                if not data:
                    return


@contextmanager
def supervised(folder: Path, end: str = "", **answers: str) -> Iterator[ScriptedSupervisor]:
    made = ScriptedSupervisor(folder / "s", {**ANSWERS, **answers}, end)
    try:
        yield made
    finally:
        made.stop()


def run(folder: Path, end: str) -> int:
    with supervised(folder, end):
        job = attach_to_job(str(folder / "s"), pty=False)
        try:
            return job.run_until_exit()
        finally:
            job.close()


def test_attached_job_gets_our_three_descriptors(tmp_path: Path) -> None:
    with supervised(tmp_path, "exited state=done exit_code=0\n") as supervisor:
        job = attach_to_job(str(tmp_path / "s"), pty=False)
        job.run_until_exit()
        job.close()
    assert [line.split()[0] for line in supervisor.lines] == ["hello", "wait", "attach"]
    assert supervisor.lines[2] == "attach fds"
    assert len(supervisor.descriptors) == 3


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("exited state=done exit_code=7\n", 7),
        ("exited state=failed signal=9\n", 137),
        ("noise\nexited state=done exit_code=3 message=a=b\n", 3),
    ],
)
def test_exit_code_is_that_of_the_program_or_128_and_its_signal(
    tmp_path: Path, end: str, code: int
) -> None:
    assert run(tmp_path, end) == code


@pytest.mark.parametrize(
    ("end", "error", "says"),
    [
        ("", ServiceUnavailable, "supervisor is gone"),
        (
            "exited state=failed_to_start stage=exec errno=2 message=no such file: x y\n",
            CommandNotFound,
            "no such file: x y",
        ),
        ("exited state=failed_to_start stage=exec errno=13 message=denied\n", BadInput, "denied"),
        ("exited state=failed_to_start stage=chdir errno=2 message=gone\n", BadInput, "gone"),
    ],
)
def test_program_that_did_not_start_or_was_lost_is_an_error(
    tmp_path: Path, end: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        run(tmp_path, end)


def test_attach_that_is_refused_says_why(tmp_path: Path) -> None:
    with (
        supervised(tmp_path, wait="error attached already"),
        pytest.raises(WrongState, match="refused: attached already"),
    ):
        attach_to_job(str(tmp_path / "s"), pty=False)


def test_attach_to_a_job_that_is_gone_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(WrongState, match="can no longer be attached to") as caught:
        attach_to_job(str(tmp_path / "s"), pty=False)
    assert "gpupool ps --all" in caught.value.hint


def test_socket_path_longer_than_an_address_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with supervised(folder):
        channel = SupervisorChannel(str(folder / "s"))
        channel.send("hello 1 1")
        assert channel.receive()
        assert list(channel.lines()) == ["hello 1"]
        channel.close()


def test_words_of_an_answer_keep_the_message_whole() -> None:
    assert words_of("exited a=1 b= message=c=2 d") == {"a": "1", "b": "", "message": "c=2 d"}
    assert words_of("exited noise") == {}
