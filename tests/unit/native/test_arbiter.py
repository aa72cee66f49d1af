"""gpupool-arbiter as a program: what it answers, what it survives, what it costs when nothing
happens.

Built with the sanitizers. The processes that wait and work are fenced programs on a simulated card,
as in test_fence_gate.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from tests.support.compute import NATIVE, compile_c
from tests.support.fenced_card import Arbiter, Card, Share, finish, running
from tests.support.supervised import until

SMALL = "step_us_50"
HELLO, RING, DRAINED = 1, 2, 3


class Bell(ctypes.LittleEndianStructure):
    """`struct fence_bell`."""

    _fields_ = (
        ("kind", ctypes.c_uint16),
        ("layout", ctypes.c_uint16),
        ("slot", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The arbiter with every check that a compiler has for memory and undefined behaviour."""
    sources = [
        *(NATIVE / "arbiter").glob("**/*.c"),
        NATIVE / "fence/src/process/ledger.c",
        NATIVE / "fence/src/process/process_id.c",
        NATIVE / "common/proc_stat.c",
    ]
    target = tmp_path_factory.mktemp("arbiter") / "gpupool-arbiter"
    return compile_c(target, sources, sanitize="address,undefined")


@pytest.fixture
def arbiter(program: Path) -> Iterator[Arbiter]:
    started = Arbiter(program)
    yield started
    if started.process.poll() is None:
        assert started.close() == 0


def connect(share: Share) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(str(share.base / regions.DOORBELL_FILE))
    return peer


def own_slot(share: Share, slot: int = 0) -> None:
    """Write this process into a slot, as a fence does before it says hello."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    owner = os.getpid() << 32 | int(fields[19]) & 0xFFFFFFFF
    place = ctypes.sizeof(regions.CUsageHead) + slot * ctypes.sizeof(regions.CSlot)
    with (share.base / regions.USAGE_FILE).open("r+b") as region:
        region.seek(place)
        region.write(owner.to_bytes(8, "little"))


def bell(kind: int, slot: int = 0, device: int = 0, layout: int = regions.LAYOUT) -> bytes:
    return bytes(Bell(kind, layout, slot, device, 0))


def hung_up(peer: socket.socket) -> bool:
    peer.settimeout(5)
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def wake_ups(pid: int) -> int:
    """How often the process gave up its processor to wait."""
    fields = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if "ctxt_switches" in line
    )
    return int(fields["voluntary_ctxt_switches"])


def is_quiet(pid: int) -> bool:
    """Whether it waits all the time in which the last lease runs out."""
    before = wake_ups(pid)
    time.sleep(0.3)
    return wake_ups(pid) == before


def test_commands_are_answered_in_their_order(arbiter: Arbiter, card: Card) -> None:
    share = card.share("a", 300)
    assert arbiter.ask("add", "a", share.base / "share", share.base / "usage") == [
        ["ok", "add", "a"]
    ]
    assert arbiter.ask("add", "a", share.base / "share", share.base / "usage")[0][:3] == [
        "error",
        "add",
        "a",
    ]
    ((kind, name, device, uuid, milli, *_, state), done) = arbiter.ask("status")
    assert (kind, name, device, milli, state) == ("share", "a", "0", "300", "whole")
    assert (
        f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}"
        == share.limits.devices[0].uuid
    )
    assert done == ["ok", "status"]
    assert arbiter.ask("remove", "a") == [["ok", "remove", "a"]]
    assert arbiter.ask("remove", "a")[0][:2] == ["error", "remove"]
    assert arbiter.ask("status") == [["ok", "status"]]


@pytest.mark.parametrize(
    "line", ["", "add", "add\ta", "add\ta\tb", "remove", "what", "\t\t\t\t", "x" * 5000]
)
def test_what_is_no_command_is_refused_and_changes_nothing(arbiter: Arbiter, line: str) -> None:
    assert arbiter.ask(line)[0][0] == "error"
    assert arbiter.ask("status") == [["ok", "status"]]


@pytest.mark.parametrize("file", [regions.LIMITS_FILE, regions.GRANTS_FILE, regions.USAGE_FILE])
@pytest.mark.parametrize("fault", ["missing", "short", "layout", "magic"])
def test_a_faulty_file_is_named_and_refused(
    arbiter: Arbiter, card: Card, file: str, fault: str
) -> None:
    share = card.share("a", 300)
    path = share.base / file
    if fault == "missing":
        path.unlink()
    elif fault == "short":
        os.truncate(path, 512)
    else:
        with path.open("r+b") as changed:
            changed.seek(8 if fault == "layout" else 0)
            changed.write(b"\xff")
    answer = arbiter.ask("add", "a", share.base / "share", share.base / "usage")[0]
    assert answer[:3] == ["error", "add", "a"]
    assert answer[3].startswith(path.name)
    assert arbiter.ask("status") == [["ok", "status"]]


def test_it_ends_with_the_agent(arbiter: Arbiter, card: Card) -> None:
    arbiter.add(card.share("a", 300))
    assert arbiter.close() == 0


def test_an_agent_that_does_not_read_does_not_stop_it(program: Path, card: Card) -> None:
    share = card.share("a", 300)
    arbiter = Arbiter(program)
    arbiter.add(share)
    assert arbiter.process.stdin
    before = grant_beat(share)
    own_slot(share)
    arbiter.process.stdin.write("status\n" * 3000)
    arbiter.process.stdin.flush()
    with connect(share) as peer:
        peer.send(bell(RING))
        deadline = time.monotonic() + 10
        while grant_beat(share) == before and time.monotonic() < deadline:
            time.sleep(0.01)
    assert grant_beat(share) > before
    while (line := arbiter.line())[0] != "lost":
        assert line[0] in ("share", "ok", "event")
        arbiter.process.stdin.write("status\n")
        arbiter.process.stdin.flush()
    assert int(line[1]) > 0
    arbiter.kill()


def grant_beat(share: Share) -> int:
    grants = regions.CGrants.from_buffer_copy((share.base / regions.GRANTS_FILE).read_bytes())
    beat: int = grants.device[0].beat_ns
    return beat


@pytest.mark.parametrize(
    "packet",
    [
        b"x",
        bell(HELLO) + b"x",
        bell(99),
        bell(HELLO, slot=1024),
        bell(HELLO, layout=7),
        bell(RING, device=16),
    ],
    ids=["short", "long", "unknown", "no such slot", "another layout", "no such card"],
)
def test_a_broken_peer_is_hung_up_on(arbiter: Arbiter, card: Card, packet: bytes) -> None:
    share = card.share("a", 300)
    arbiter.add(share)
    with connect(share) as peer:
        peer.send(packet)
        assert hung_up(peer)
    assert arbiter.await_event("a", "broken-peer")[3] == str(os.getpid())


def test_a_process_is_who_the_kernel_says_and_written_into_its_slot(
    arbiter: Arbiter, card: Card, load: Path
) -> None:
    share = card.share("a", 500)
    arbiter.add(share)
    with running(load, share, card, SMALL, 5, 0, 0, "kernel") as process:
        event = arbiter.await_event("a", "process")
        assert event[3:] == [str(process.pid), "0"]
        region = (share.base / regions.USAGE_FILE).read_bytes()
        assert process.pid.to_bytes(4, "little") in region[: 64 + 64 * 16 + 32]


def test_the_socket_is_open_to_whom_the_region_is_open_to(arbiter: Arbiter, card: Card) -> None:
    share = card.share("a", 300)
    region = share.base / regions.USAGE_FILE
    region.chmod(0o600)
    if os.getuid() == 0:
        os.chown(region, 54321, 54321)
    arbiter.add(share)
    made, owner = (share.base / regions.DOORBELL_FILE).stat(), region.stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (owner.st_uid, owner.st_gid, 0o600)


@pytest.mark.parametrize(
    "packet", [bell(HELLO), bell(RING), bell(DRAINED)], ids=["hello", "ring", "drained"]
)
def test_a_process_that_speaks_for_anothers_slot_is_hung_up_on_and_changes_nothing(
    arbiter: Arbiter, card: Card, load: Path, packet: bytes
) -> None:
    share = card.share("a", 500)
    arbiter.add(share)
    with running(load, share, card, SMALL, 5, 0, 0, "kernel") as process:
        arbiter.await_event("a", "process")
        with connect(share) as peer:
            peer.send(packet)
            assert hung_up(peer)
        assert arbiter.await_event("a", "stranger")[3] == str(os.getpid())
        arbiter.ask("status")
        assert [one.pid for one in share.usage().processes] == [process.pid]
        assert not [
            event for event in arbiter.events if event[2] in ("cleared", "ended", "process")
        ]


def test_a_slot_of_nobody_is_a_strangers(arbiter: Arbiter, card: Card) -> None:
    share = card.share("a", 300)
    arbiter.add(share)
    with connect(share) as peer:
        peer.send(bell(HELLO, slot=7))
        assert hung_up(peer)
    assert arbiter.await_event("a", "stranger")[3] == str(os.getpid())


def test_a_region_that_is_cut_short_harms_nobody_else(
    arbiter: Arbiter, card: Card, load: Path
) -> None:
    cut, whole = card.share("cut", 300), card.share("whole", 300)
    arbiter.add(cut)
    arbiter.add(whole)
    os.truncate(cut.base / regions.USAGE_FILE, 0)
    with connect(cut) as peer:
        peer.send(bell(RING))
        assert arbiter.await_event("cut", "damaged")
    with running(load, whole, card, SMALL, 0.4, 0, 0, "kernel") as process:
        assert finish(process)["launches"] > 100
    assert [line[-1] for line in arbiter.ask("status") if line[:2] == ["share", "cut"]] == [
        "damaged"
    ]
    assert arbiter.ask("remove", "cut") == [["ok", "remove", "cut"]]


def test_nonsense_in_a_region_is_survived_and_keeps_nobody_else_from_its_work(
    arbiter: Arbiter, card: Card, load: Path
) -> None:
    """How much others have at least beside such a one is proven on virtual time:
    test_fence_compute.py."""
    liar, other = card.share("liar", 300, "burst"), card.share("other", 300, "burst")
    arbiter.add(liar)
    arbiter.add(other)
    noise, path = random.Random(4), liar.base / regions.USAGE_FILE
    with running(load, other, card, SMALL, 0, 20_000, 0, "kernel") as process:
        while process.poll() is None:
            with connect(liar) as peer, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for slot in range(20):
                    own_slot(liar, slot)
                    peer.send(bell(HELLO, slot=slot))
                    with path.open("r+b") as region:
                        region.seek(noise.randrange(64, 40_000) & ~7)
                        region.write(noise.randbytes(8 * noise.randrange(1, 40)))
                    peer.send(bell(noise.choice((RING, DRAINED)), slot=slot))
        done = finish(process)
    assert done["launches"] == 20_000
    assert arbiter.ask("status")[-1] == ["ok", "status"]


def test_more_connections_than_a_share_has_processes_are_refused(
    arbiter: Arbiter, card: Card
) -> None:
    share = card.share("a", 300)
    arbiter.add(share)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(connect(share)) for _ in range(1200)]
        assert arbiter.ask("status")[-1] == ["ok", "status"]
        refused = sum(hung_up_now(peer) for peer in peers)
        assert 0 < refused <= 1200 - regions.MAX_SLOTS


def hung_up_now(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False


def test_an_arbiter_that_starts_clears_what_died_meanwhile_and_watches_what_lives(
    program: Path, card: Card, load: Path
) -> None:
    share = card.share("a", 500, "burst")
    first = Arbiter(program)
    first.add(share)
    with (
        running(load, share, card, SMALL, 20, 0, 0, "kernel") as dies,
        running(load, share, card, SMALL, 20, 0, 0, "kernel") as lives,
    ):
        for _ in range(2):
            first.await_event("a", "process")
        first.kill()
        dies.send_signal(signal.SIGKILL)
        dies.wait()
        second = Arbiter(program)
        second.add(share)
        assert [process.pid for process in share.usage().processes] == [lives.pid]
        lives.send_signal(signal.SIGKILL)
        assert second.await_event("a", "cleared")[3] == str(lives.pid)
    assert share.usage().processes == ()
    assert second.close() == 0


def test_a_clearing_that_was_cut_off_is_finished(program: Path, card: Card) -> None:
    share = card.share("a", 500)
    region = share.base / regions.USAGE_FILE
    head = ctypes.sizeof(regions.CUsageHead)
    with region.open("r+b") as file:
        file.seek(head)
        file.write(regions.OWNER_REAPING.to_bytes(8, "little"))
    arbiter = Arbiter(program)
    arbiter.add(share)
    with region.open("rb") as file:
        file.seek(head)
        assert file.read(8) == bytes(8)
    assert arbiter.close() == 0


def test_nothing_wakes_it_while_nothing_happens(program: Path, card: Card, load: Path) -> None:
    arbiter = Arbiter(program)
    shares = [
        card.share("a", 300),
        card.share("b", 300, "burst"),
        card.share("c", 0, "best-effort"),
    ]
    for share in shares:
        arbiter.add(share)
    with running(load, shares[0], card, SMALL, 0.2, 0, 0, "kernel") as process:
        finish(process)
    arbiter.await_event("a", "cleared")
    until(lambda: is_quiet(arbiter.process.pid), "the end of the last lease")
    before = wake_ups(arbiter.process.pid)
    time.sleep(0.7)
    assert wake_ups(arbiter.process.pid) == before
    assert arbiter.close() == 0


def test_a_deep_directory_is_no_hindrance(arbiter: Arbiter, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    share = Card(deep).share("a", 300)
    arbiter.add(share)
    directory = os.open(share.base / "usage", os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.connect(f"/proc/self/fd/{directory}/doorbell")
    os.close(directory)


def test_limits_that_changed_are_in_force_when_it_says_so(arbiter: Arbiter, card: Card) -> None:
    share = card.share("a", 300)
    arbiter.add(share)
    share.resize(700)
    arbiter.ask("changed", "a")
    assert arbiter.await_event("a", "limits") == ["event", "a", "limits", "4"]
    assert arbiter.ask("status")[0][4] == "700"


def test_the_program_has_no_thread(arbiter: Arbiter) -> None:
    assert len(os.listdir(f"/proc/{arbiter.process.pid}/task")) == 1
