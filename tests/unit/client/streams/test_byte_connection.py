"""Bytes pass in both directions until both have ended, however slow a side is."""

from __future__ import annotations

import os
import socket
import threading

from gpupool.client.streams.byte_connection import ByteConnection, ByteFlow, relay_bytes

DATA = os.urandom(3 << 20)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(65536):
        data += part
    return data


def test_relay_bytes_passes_more_than_the_buffers_hold_both_ways() -> None:
    client, near = socket.socketpair()
    far, job = socket.socketpair()
    relay = threading.Thread(target=relay_bytes, args=((ByteFlow(near, far), ByteFlow(far, near)),))
    relay.start()
    answers = list[bytes]()
    reading = threading.Thread(target=lambda: answers.append(read_all(client)))
    reading.start()

    def serve() -> None:
        data = read_all(job)
        job.sendall(data[::-1])
        job.shutdown(socket.SHUT_WR)

    serving = threading.Thread(target=serve)
    serving.start()
    client.sendall(DATA)
    client.shutdown(socket.SHUT_WR)
    for thread in (serving, reading, relay):
        thread.join(20)
        assert not thread.is_alive()
    assert answers == [DATA[::-1]]
    for one in (client, near, far, job):
        one.close()


def test_relay_bytes_ends_when_a_side_is_gone() -> None:
    client, near = socket.socketpair()
    far, job = socket.socketpair()
    relay = threading.Thread(target=relay_bytes, args=((ByteFlow(near, far), ByteFlow(far, near)),))
    relay.start()
    job.close()
    client.close()
    relay.join(20)
    assert not relay.is_alive()
    near.close()
    far.close()


def test_read_line_keeps_what_comes_behind_it() -> None:
    here, there = socket.socketpair()
    connection = ByteConnection(here, b"ea")
    there.sendall(b"rly\nlate")
    assert connection.read_line(5) == b"early\n"
    assert connection.early == b"late"
    there.close()
    assert connection.read_line(5) == b""
    connection.close()
