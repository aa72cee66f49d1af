"""Who is heard: an agent is awaited from the start, silent after three heartbeats, and back with
its next word."""

from __future__ import annotations

from gpupool.fleet.agent_liveness import SILENT_AFTER_SECONDS, AgentLiveness
from gpupool.server.checks import nodes_check

S = 10**9
PATIENCE_NS = SILENT_AFTER_SECONDS * S


def test_an_agent_that_never_said_a_word_falls_silent_once() -> None:
    liveness = AgentLiveness()
    liveness.start_waiting({"node-1": "one", "node-2": "two"}, 0)
    liveness.record_heartbeat("two", 10 * S)
    assert liveness.mark_silent_agents(PATIENCE_NS - 1) == ([], PATIENCE_NS)
    assert liveness.mark_silent_agents(PATIENCE_NS) == (["one"], PATIENCE_NS + 10 * S)
    assert liveness.mark_silent_agents(PATIENCE_NS) == ([], PATIENCE_NS + 10 * S)
    assert (liveness.is_silent("one"), liveness.is_silent("two")) == (True, False)


def test_nodes_of_a_silent_agent_are_named_by_the_check_until_it_is_heard() -> None:
    liveness = AgentLiveness()
    check = nodes_check(liveness.list_silent_nodes)
    liveness.start_waiting({"node-1": "one", "node-2": "one", "node-3": "two"}, 0)
    assert check().state == "ok"
    liveness.record_heartbeat("two", S)
    liveness.mark_silent_agents(PATIENCE_NS)
    found = check()
    assert (found.state, bool(found.following)) == ("fail", True)
    assert found.text.startswith("silent: node-1, node-2;")
    liveness.record_heartbeat("one", PATIENCE_NS)
    assert check().state == "ok"


def test_a_word_ends_silence_and_says_that_it_did() -> None:
    liveness = AgentLiveness()
    liveness.start_waiting({"node-1": "one"}, 0)
    assert not liveness.record_heartbeat("one", S), "it was only awaited"
    liveness.mark_silent_agents(S + PATIENCE_NS)
    assert liveness.record_heartbeat("one", 2 * S + PATIENCE_NS)
    assert not liveness.is_silent("one")
    assert liveness.get_last_heartbeat_ns("one") == 2 * S + PATIENCE_NS
    assert liveness.get_last_heartbeat_ns("nobody") == 0


def test_where_nobody_is_awaited_the_next_look_is_a_whole_patience_away() -> None:
    assert AgentLiveness().mark_silent_agents(7 * S) == ([], 7 * S + PATIENCE_NS)


def test_a_name_that_is_no_nodes_is_an_agents_own() -> None:
    liveness = AgentLiveness()
    liveness.assign_node("host", "node-1")
    assert [liveness.find_agent(name) for name in ("node-1", "host", "alone")] == [
        "host",
        "host",
        "alone",
    ]


def test_a_server_that_stood_still_awaits_every_agent_anew() -> None:
    liveness = AgentLiveness()
    liveness.start_waiting({"node-1": "one"}, 0)
    assert liveness.mark_silent_agents(0) == ([], PATIENCE_NS)
    late = PATIENCE_NS + 60 * S
    assert liveness.mark_silent_agents(late) == ([], late + PATIENCE_NS), (
        "in that minute it could hear nobody"
    )
    assert liveness.mark_silent_agents(late + PATIENCE_NS)[0] == ["one"]
