"""Who is heard: an agent is awaited from the start, silent after three heartbeats, and back with its next word."""

from __future__ import annotations

from gpupool.fleet.hearing import SILENT_AFTER_SECONDS, Hearing
from gpupool.server.checks import nodes_check

S = 10**9
PATIENCE_NS = SILENT_AFTER_SECONDS * S


def test_an_agent_that_never_said_a_word_falls_silent_once() -> None:
    hearing = Hearing()
    hearing.begin({"node-1": "one", "node-2": "two"}, 0)
    hearing.heard("two", 10 * S)
    assert hearing.fall_silent(PATIENCE_NS - 1) == ([], PATIENCE_NS)
    assert hearing.fall_silent(PATIENCE_NS) == (["one"], PATIENCE_NS + 10 * S)
    assert hearing.fall_silent(PATIENCE_NS) == ([], PATIENCE_NS + 10 * S)
    assert (hearing.is_silent("one"), hearing.is_silent("two")) == (True, False)


def test_nodes_of_a_silent_agent_are_named_by_the_check_until_it_is_heard() -> None:
    hearing = Hearing()
    check = nodes_check(hearing.silent_nodes)
    hearing.begin({"node-1": "one", "node-2": "one", "node-3": "two"}, 0)
    assert check().state == "ok"
    hearing.heard("two", S)
    hearing.fall_silent(PATIENCE_NS)
    found = check()
    assert (found.state, bool(found.following)) == ("fail", True)
    assert found.text.startswith("silent: node-1, node-2;")
    hearing.heard("one", PATIENCE_NS)
    assert check().state == "ok"


def test_a_word_ends_silence_and_says_that_it_did() -> None:
    hearing = Hearing()
    hearing.begin({"node-1": "one"}, 0)
    assert not hearing.heard("one", S), "it was only awaited"
    hearing.fall_silent(S + PATIENCE_NS)
    assert hearing.heard("one", 2 * S + PATIENCE_NS)
    assert not hearing.is_silent("one")
    assert hearing.last_ns("one") == 2 * S + PATIENCE_NS
    assert hearing.last_ns("nobody") == 0


def test_where_nobody_is_awaited_the_next_look_is_a_whole_patience_away() -> None:
    assert Hearing().fall_silent(7 * S) == ([], 7 * S + PATIENCE_NS)


def test_a_name_that_is_no_nodes_is_an_agents_own() -> None:
    hearing = Hearing()
    hearing.serves("host", "node-1")
    assert [hearing.agent_of(name) for name in ("node-1", "host", "alone")] == ["host", "host", "alone"]


def test_a_server_that_stood_still_awaits_every_agent_anew() -> None:
    hearing = Hearing()
    hearing.begin({"node-1": "one"}, 0)
    assert hearing.fall_silent(0) == ([], PATIENCE_NS)
    late = PATIENCE_NS + 60 * S
    assert hearing.fall_silent(late) == ([], late + PATIENCE_NS), "in that minute it could hear nobody"
    assert hearing.fall_silent(late + PATIENCE_NS)[0] == ["one"]
