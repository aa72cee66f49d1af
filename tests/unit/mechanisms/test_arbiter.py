"""An arbiter is kept alive and told everything: one that speaks as docs/reference/arbiter.md says
and can be killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool_native import arbiter_path
from tests.support.supervised import is_alive, until
from tests.unit.native.fence_share import make_share

SPEAKER = """#!{python} -S
import os, sys
known = set()
log = open({log!r}, "a", buffering=1)
print("ready", 1, os.getpid(), sep="\\t", flush=True)
print("start", os.getpid(), file=log)
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    print(*words, file=log)
    fine = words[0] == "add" and words[1] not in known or words[0] != "add" and words[1] in known
    (known.add if words[0] == "add" else known.discard if words[0] == "remove" else str)(words[1])
    print("ok" if fine else "error", words[0], words[1], *([] if fine else ["no"]), sep="\\t", flush=True)
print("end", file=log)
"""


class Speaker:
    def __init__(self, place: Path) -> None:
        self.log, self.program = place / "log", place / "arbiter"
        self.log.touch()
        self.program.write_text(SPEAKER.format(python=sys.executable, log=str(self.log)))
        self.program.chmod(0o755)
        self.arbiter = ArbiterProcess(self.program, lambda: 0.0)

    def heard(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if not line.startswith("start")]

    def heard_by_the_last(self) -> list[str]:
        """Since the latest start."""
        return self.log.read_text().rpartition("start ")[2].splitlines()[1:]

    def starts(self) -> int:
        return self.log.read_text().count("start")


@pytest.fixture
def speaker(tmp_path: Path) -> Iterator[Speaker]:
    made = Speaker(tmp_path)
    yield made
    made.arbiter.close()
    made.arbiter.join(10)


def add(speaker: Speaker, name: str) -> bool:
    return speaker.arbiter.add_share(name, Path(f"/{name}/share"), Path(f"/{name}/usage"))


def test_nothing_runs_before_the_first_allocation_and_after_the_last(speaker: Speaker) -> None:
    assert speaker.arbiter.find_pid() is None
    add(speaker, "al-1")
    pid = until(speaker.arbiter.find_pid)
    assert pid is not None
    until(lambda: "add al-1 /al-1/share /al-1/usage" in speaker.heard())
    speaker.arbiter.remove_share("al-1")
    until(lambda: not is_alive(pid), "the arbiter's end")
    assert speaker.heard()[-2:] == ["remove al-1", "end"]
    assert speaker.arbiter.find_pid() is None


def test_one_that_is_killed_is_started_again_and_told_everything(speaker: Speaker) -> None:
    add(speaker, "al-1")
    add(speaker, "al-2")
    both = {"add al-1 /al-1/share /al-1/usage", "add al-2 /al-2/share /al-2/usage"}
    until(lambda: set(speaker.heard_by_the_last()) == both, "the first arbiter with both")
    first = speaker.arbiter.find_pid()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    until(
        lambda: speaker.starts() == 2 and set(speaker.heard_by_the_last()) == both,
        "a second arbiter with both",
    )
    assert speaker.arbiter.find_pid() != first
    assert until(lambda: speaker.arbiter.notify_change("al-2"))


def test_adding_twice_is_adding_once(speaker: Speaker) -> None:
    add(speaker, "al-1")
    until(speaker.arbiter.find_pid)
    assert add(speaker, "al-1")
    assert until(lambda: speaker.arbiter.notify_change("al-1"))
    assert [line for line in speaker.heard() if line.startswith("add")] == [
        "add al-1 /al-1/share /al-1/usage"
    ]


def test_an_allocation_that_comes_while_the_last_one_goes_finds_an_arbiter(
    speaker: Speaker,
) -> None:
    for round_ in range(5):
        add(speaker, f"al-{round_}")
        until(speaker.arbiter.find_pid)
        speaker.arbiter.remove_share(f"al-{round_}")
    add(speaker, "al-last")
    assert until(lambda: speaker.arbiter.notify_change("al-last"))


LOSER = """#!{python} -S
import sys
print("ready", 1, 1, sep="\\t", flush=True)
share = "share\\tal-1\\t0" + "\\t7" * 11 + "\\twhole"
for number, line in enumerate(sys.stdin):
    words = line.rstrip("\\n").split("\\t")[:2]
    answer = "\\t".join(["ok", *words])
    lines = [share, answer] if words == ["status"] else [answer]
    print(*(["lost\\t1"] if number == 1 else lines), sep="\\n", flush=True)
"""
"""An arbiter that drops the answer to the second command."""


def test_an_answer_that_was_lost_delays_no_later_one(tmp_path: Path) -> None:
    program = tmp_path / "arbiter"
    program.write_text(LOSER.format(python=sys.executable))
    program.chmod(0o755)
    arbiter = ArbiterProcess(program, lambda: 0.0)
    arbiter.add_share("al-1", Path("/share"), Path("/usage"))
    until(arbiter.find_pid)
    assert arbiter.query_status() is None  # this answer is lost
    for _ in range(2):
        said = arbiter.query_status()
        assert said is not None
        assert [one.allocation for one in said[1]] == ["al-1"]
        assert arbiter.notify_change("al-1")
    arbiter.close()
    arbiter.join(10)


def test_a_share_that_the_arbiter_could_not_open_is_sent_again(tmp_path: Path) -> None:
    arbiter = ArbiterProcess(arbiter_path(), lambda: 0.0)
    base = tmp_path / "share"
    arbiter.add_share("al-1", base / "share", base / "usage")
    until(arbiter.find_pid)
    assert not arbiter.notify_change("al-1")
    make_share(base)
    arbiter.query_status()
    assert arbiter.notify_change("al-1")
    assert arbiter.add_share("al-1", base / "share", base / "usage")
    arbiter.close()
    arbiter.join(10)


def test_without_the_program_and_after_closing_the_answer_is_no(speaker: Speaker) -> None:
    assert not ArbiterProcess(None, lambda: 0.0).add_share("al-1", Path("/s"), Path("/u"))
    speaker.arbiter.close()
    assert not add(speaker, "al-1")
    assert speaker.starts() == 0


def test_it_ends_with_its_agent(speaker: Speaker) -> None:
    """Whatever ends the agent closes the pipe."""
    child = os.fork()
    if child == 0:
        try:
            add(speaker, "al-1")
            until(speaker.arbiter.find_pid)
            until(lambda: speaker.heard())
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)  # a failure must not run the rest of the tests twice
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    pid = int(speaker.log.read_text().split()[1])
    until(lambda: not is_alive(pid), "the arbiter's end")
    assert speaker.heard()[-1] == "end"


def test_an_arbiter_that_could_not_be_started_is_tried_again_and_told_all(
    speaker: Speaker, caplog: pytest.LogCaptureFixture
) -> None:
    away = speaker.program.rename(speaker.program.with_name("away"))
    add(speaker, "a")
    add(speaker, "b")
    until(lambda: "could not be started" in caplog.text, "the first failure")
    away.rename(speaker.program)
    until(lambda: len(speaker.heard_by_the_last()) == 2, "both told")
    assert sorted(line.split()[1] for line in speaker.heard()) == ["a", "b"]
