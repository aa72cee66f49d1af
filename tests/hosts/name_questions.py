"""Asks the name server of `/etc/resolv.conf` what its arguments say, and prints one line for each.

An argument is `NAME TYPE [tcp] [edns]`; a line is `RCODE ANSWERS ADDRESSES`, or `timeout`. Without
the product's own code: it is what the product is tested with.
"""

import socket
import struct
import sys

TYPES = {"A": 1, "MX": 15, "PTR": 12, "AAAA": 28}


def ask(server: str, name: str, kind: str, *how: str) -> str:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = labels + b"\0" + struct.pack("!2H", TYPES[kind], 1)
    extra = struct.pack("!BHHIH", 0, 41, 4096, 0, 0) if "edns" in how else b""
    message = struct.pack("!6H", 99, 0x0100, 1, 0, 0, 1 if extra else 0) + question + extra
    try:
        if "tcp" in how:
            with socket.create_connection((server, 53), 3) as stream:
                stream.sendall(struct.pack("!H", len(message)) + message)
                size = struct.unpack("!H", read(stream, 2))[0]
                answer = read(stream, size)
        else:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
                datagrams.settimeout(3)
                datagrams.connect((server, 53))
                datagrams.send(message)
                answer = datagrams.recv(65535)
    except TimeoutError:
        return "timeout"
    number, flags, _, count, _, more = struct.unpack_from("!6H", answer)
    assert number == 99
    found = []
    position = 12 + len(question)
    for _ in range(count):
        # dnsmasq compresses each name to a pointer.
        kind_found, _, _, length = struct.unpack_from("!2HIH", answer, position + 2)
        data = answer[position + 12 : position + 12 + length]
        if kind_found == 1:
            found.append(socket.inet_ntoa(data))
        if kind_found == 28:
            found.append(socket.inet_ntop(socket.AF_INET6, data))
        position += 12 + length
    if "edns" in how:
        assert more == 1, "the answer has no OPT record"
    return " ".join([str(flags & 15), str(count), *sorted(found)])


def read(stream: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = stream.recv(size - len(found))
        assert piece, "the stream ended"
        found += piece
    return found


def find_server() -> str:
    with open("/etc/resolv.conf") as file:
        return next(line.split()[1] for line in file if line.startswith("nameserver"))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(ask(find_server(), *argument.split()))
