from collections.abc import Sequence
from pathlib import Path

import pytest

from gpupool.mechanisms.card_settings.records import CardRecord, CardUse
from gpupool.mechanisms.mps.control import ControlTarget
from gpupool.mechanisms.mps.replies import ControlReply, ReplyKind, classify_reply
from gpupool.mechanisms.mps.servers import (
    LimitedServer,
    NamespaceServer,
    SharedLimitServer,
    compute_percentage,
    name_namespace,
)
from tests.support.mps_fake import NO_DAEMON, FakeDaemon

GIB = 1 << 30
TARGET = ControlTarget(Path("/p"), Path("/l"), 4242, 4243)


class Wire:
    """A daemon that answers, or one text for every command that begins with a word."""

    def __init__(self, *, has_card: bool = True, **texts: str) -> None:
        self.daemon = FakeDaemon("/p", has_card=has_card)
        self.texts = texts

    def explain_absence(self) -> str:
        return ""

    def locate_program(self) -> str:
        return "/usr/bin/nvidia-cuda-mps-control"

    def has_namespaces(self) -> bool:
        return False

    def send_line(self, target: ControlTarget, line: str) -> ControlReply:
        text = self.texts.get(line.split()[0])
        return classify_reply(self.daemon.answer_line(line) if text is None else text)

    def send_words(self, target: ControlTarget, words: Sequence[str]) -> ControlReply:
        text = self.texts.get(words[0])
        if text == "hang":
            return ControlReply(ReplyKind.TIMEOUT)
        return classify_reply(self.daemon.answer_words(words) if text is None else text)


def record(**milli: int) -> CardRecord:
    users = {name: CardUse(1, share, 2 * GIB) for name, share in milli.items()}
    return CardRecord("GPU-1", "DEFAULT", "team", TARGET.uid, TARGET.gid, users)


@pytest.mark.parametrize("kind", [SharedLimitServer, NamespaceServer])
def test_configuring_twice_changes_nothing(kind: type[LimitedServer]) -> None:
    wire = Wire()
    server = kind(wire)  # type: ignore[call-arg]
    first = server.configure(TARGET, record(a=300))
    assert first.pid
    state = repr(vars(wire.daemon) | {"history": None})
    assert server.configure(TARGET, record(a=300)) == first
    assert repr(vars(wire.daemon) | {"history": None}) == state


def test_the_server_is_the_owners() -> None:
    wire = Wire()
    SharedLimitServer(wire).configure(TARGET, record(a=300))
    assert [one.uid for one in wire.daemon.servers.values()] == [4242]
    wire = Wire()
    NamespaceServer(wire).configure(TARGET, record(a=300))
    assert wire.daemon.named["gpupool"].uid == 4242
    assert wire.daemon.named["gpupool"].devices == "GPU-1"


def test_a_setting_that_is_unchanged_is_not_sent_again() -> None:
    wire = Wire()
    server = NamespaceServer(wire)
    server.configure(TARGET, record(a=300))
    wire.daemon.history.clear()
    server.configure(TARGET, record(a=300, b=200))
    sets = [line for line in wire.daemon.history if line.startswith("namespace set")]
    assert len(sets) == 1
    assert name_namespace("b") in sets[0]


def test_without_a_daemon_it_is_waited_for() -> None:
    for server in (
        SharedLimitServer(Wire(set_default_active_thread_percentage=NO_DAEMON)),
        NamespaceServer(Wire(server=NO_DAEMON)),
    ):
        state = server.configure(TARGET, record(a=300))
        assert (state.pid, state.has_daemon, state.missing) == (None, False, "its MPS daemon")


def test_without_a_card_the_server_is_waited_for() -> None:
    assert SharedLimitServer(Wire(has_card=False)).configure(TARGET, record(a=300)).missing
    state = NamespaceServer(Wire(has_card=False)).configure(TARGET, record(a=300))
    assert "Initializing" in state.missing


def test_a_daemon_that_hangs_is_waited_for() -> None:
    assert "answer" in NamespaceServer(Wire(server="hang")).configure(TARGET, record(a=1)).missing


def test_a_limit_that_was_not_taken_is_a_refusal_with_both_numbers() -> None:
    wire = Wire(get_default_active_thread_percentage="95.0")
    refusal = SharedLimitServer(wire).configure(TARGET, record(a=300)).refusal
    assert "'95.0'" in refusal
    assert "set_default_active_thread_percentage 30" in refusal


def test_an_unknown_command_is_a_refusal() -> None:
    wire = Wire(set_default_device_pinned_mem_limit='Unknown command "set_default"')
    assert "Unknown command" in SharedLimitServer(wire).configure(TARGET, record(a=300)).refusal


def test_clients_are_counted_over_the_server() -> None:
    wire = Wire()
    server = SharedLimitServer(wire)
    assert server.count_clients(TARGET) == 0
    server.configure(TARGET, record(a=300))
    next(iter(wire.daemon.servers.values())).clients = [11, 12, 13]
    assert server.count_clients(TARGET) == 3


def test_a_share_without_compute_gets_one_percent() -> None:
    assert compute_percentage(0) == 1.0
    assert compute_percentage(5) == 1.0
    assert compute_percentage(1000) == 100.0


def test_names_of_namespaces_are_what_the_daemon_takes() -> None:
    name = name_namespace("AL/1-Ü")
    assert name.isalnum()
    assert name.islower()
    assert len(name) <= 64
    assert name != name_namespace("al-1")
