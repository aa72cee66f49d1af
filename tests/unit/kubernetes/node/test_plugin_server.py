"""The device plugin asks one question for each container, over a socket of root alone."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import pytest

from gpupool.kubernetes.node.container_limits import ContainerReport
from gpupool.kubernetes.node.plugin_server import PluginServer
from gpupool.kubernetes.slots import HANDED_OUT


class Agent:
    """Prepares each slot but `s2`; counts how often it is woken."""

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.limited: list[ContainerReport] = []
        self.woken = asyncio.Event()

    def prepare(self, slot: str) -> str:
        self.prepared.append(slot)
        return "GP-2033: wait" if slot == "s2" else ""

    def limit(self, report: ContainerReport) -> str:
        self.limited.append(report)
        return "the driver says no" if report.allocation == "u.bad" else ""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A short path: a Unix socket's holds 107 bytes.
    made: Path = tmp_path_factory.mktemp("p") / "s"
    return made


async def ask(place: Path, question: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(place)
    writer.write(question)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


def ask_all(place: Path, *questions: bytes) -> tuple[Agent, list[bytes]]:
    """The answers to each question, by one server."""

    async def run() -> tuple[Agent, list[bytes]]:
        agent = Agent()
        server = PluginServer(place, agent.prepare, agent.limit, agent.woken.set)
        serving = asyncio.create_task(server.serve_forever())
        answers = []
        while not place.is_socket() or stat.S_IMODE(place.stat().st_mode) != 0o600:
            assert not serving.done(), serving.exception()
            await asyncio.sleep(0.001)
        for question in questions:
            agent.woken.clear()
            answers.append(await ask(place, question))
            await agent.woken.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return agent, answers

    return asyncio.run(run())


def test_answer_says_why_a_container_has_to_wait_or_nothing(place: Path) -> None:
    agent, answers = ask_all(place, b'{"slot": "s1"}\n', b'{"slot": "s2"}\n')
    assert [json.loads(answer) for answer in answers] == [
        {"refused": ""},
        {"refused": "GP-2033: wait"},
    ]
    assert agent.prepared == ["s1", "s2"]


def test_question_that_cannot_be_read_ends_its_connection_alone(place: Path) -> None:
    agent, answers = ask_all(place, b"{\n", b"[]\n", b"{}\n", b"", b'{"slot": "s1"}\n')
    assert answers[:4] == [b"", b"", b"", b""]
    assert json.loads(answers[4]) == {"refused": ""}
    assert agent.prepared == ["s1"]


def test_socket_of_a_killed_agent_is_replaced(place: Path) -> None:
    place.write_text("left behind")
    assert len(ask_all(place, b'{"slot": "s1"}\n')[1]) == 1


def test_report_of_a_container_is_answered_once_it_is_limited(place: Path) -> None:
    report = {"container": "u.main", "groups": "0::/a\n", "own_namespace": False}
    half = {"container": "u.main"}
    refused = {**report, "container": "u.bad"}
    agent, answers = ask_all(
        place, *[json.dumps(one).encode() + b"\n" for one in (report, half, refused)]
    )
    assert answers == [b"{}\n", b"", b'{"unlimited": "the driver says no"}\n']
    assert agent.limited[0] == ContainerReport("u.main", "0::/a\n", own_namespace=False)


def test_offer_of_slots_is_a_file_beside_the_socket(place: Path) -> None:
    agent = Agent()
    server = PluginServer(place, agent.prepare, agent.limit, agent.woken.set)
    found = []
    for offered in (True, True, False, False):
        server.offer_slots(offered=offered)
        found.append(place.with_name(HANDED_OUT).exists())
    assert found == [True, True, False, False]
