"""Reading the forwarded port from the text of QEMU's monitor."""

from __future__ import annotations

from gpupool.vm.address import LiveVm, parse_ssh_address

# As QEMU 7.2 prints it.
USERNET = (
    "Hub -1 (net0):\r\n"
    "  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n"
    "  TCP[ESTABLISHED]   13       127.0.0.1 44093       10.0.2.15    22     0     0\r\n"
    "  TCP[HOST_FORWARD]  11       127.0.0.1 40000       10.0.2.15    80     0     0\r\n"
    "  TCP[HOST_FORWARD]  12       127.0.0.1 44093       10.0.2.15    22     0     0\r\n"
)


def test_the_forward_to_port_22_is_found_among_connections() -> None:
    assert parse_ssh_address(USERNET) == ("127.0.0.1", 44093)


def test_without_a_forward_there_is_no_address() -> None:
    assert parse_ssh_address("Hub -1 (net0):\r\n") is None
    assert LiveVm("running", None).address_text is None


def test_an_address_is_shown_with_its_port() -> None:
    assert LiveVm("running", ("127.0.0.1", 44093)).address_text == "127.0.0.1:44093"
