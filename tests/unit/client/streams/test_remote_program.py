"""A program over TLS: a record that comes in parts and a full buffer are no end of the connection."""

from __future__ import annotations

import array
import fcntl
import json
import os
import socket
import ssl
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.client.streams.byte_connection import ByteConnection
from gpupool.client.streams.frames import EXIT, INPUT, INPUT_END, OUTPUT, FrameReader, encode_frame
from gpupool.client.streams.remote_program import RemoteProgram
from tests.support.supervised import until
from tests.unit.server.conftest import certificate

__all__ = ["certificate"]
DATA = os.urandom(3 << 20)
END = encode_frame(EXIT, json.dumps({"code": 7, "signal": None}).encode())


class Session:
    """The far end of a stream over TLS, whose bytes a test passes on as it likes."""

    def __init__(self, files: tuple[Path, Path]) -> None:
        near, self.raw = socket.socketpair()
        # A client that waits for ever is a failure, and no test that hangs.
        self.raw.settimeout(20)
        self._received = ssl.MemoryBIO()
        self._sent = ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        self._tls = context.wrap_bio(self._received, self._sent, server_side=True)
        greeting = threading.Thread(target=self._greet)
        greeting.start()
        client = ssl.create_default_context(cafile=str(files[0]))
        self.client = client.wrap_socket(near, server_hostname="localhost")
        greeting.join(20)

    def _greet(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.raw.sendall(self._sent.read())
                self._received.write(self.raw.recv(65536))
        self.raw.sendall(self._sent.read())

    def encrypt(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._sent.read()

    def receive(self) -> bytes:
        """Block until bytes have come; empty: the connection has ended."""
        while True:
            try:
                return self._tls.read(65536)
            except ssl.SSLWantReadError:
                data = self.raw.recv(65536)
                if not data:
                    return b""
                self._received.write(data)

    def close(self) -> None:
        self.client.close()
        self.raw.close()


@pytest.fixture
def session(certificate: tuple[Path, Path]) -> Iterator[Session]:
    made = Session(certificate)
    yield made
    made.close()


def count_unread(connection: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, count)
    return count[0]


def run_program(session: Session, streams: tuple[int, int, int]) -> int:
    return RemoteProgram(ByteConnection(session.client, b""), streams, has_terminal=False).run()


def test_output_of_which_a_record_comes_in_two_parts_is_whole(session: Session) -> None:
    record = session.encrypt(encode_frame(OUTPUT, b"the output") + END)

    def send() -> None:
        session.raw.sendall(record[:20])
        until(lambda: not count_unread(session.client), "the client has read the first part")
        session.raw.sendall(record[20:])

    sending = threading.Thread(target=send)
    sending.start()
    read, write = os.pipe()
    code = run_program(session, (-1, write, 2))
    sending.join(20)
    os.close(write)
    with os.fdopen(read, "rb") as output:
        assert (code, output.read()) == (7, b"the output")


def test_input_that_is_larger_than_the_buffers_is_whole(session: Session, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(DATA)
    typed = bytearray()

    def serve() -> None:
        try:
            until(lambda: count_unread(session.raw), "the client has written")
            frames = FrameReader()
            kinds = {INPUT}
            while INPUT_END not in kinds and (data := session.receive()):
                for kind, content in frames.feed(data):
                    kinds.add(kind)
                    typed.extend(content)
            session.raw.sendall(session.encrypt(END))
        finally:
            session.raw.shutdown(socket.SHUT_WR)

    serving = threading.Thread(target=serve)
    serving.start()
    with (tmp_path / "data").open("rb") as source:
        assert run_program(session, (source.fileno(), 1, 2)) == 7
    serving.join(20)
    assert typed == DATA
