"""What `gpupool up` prints once the pool answers."""

from __future__ import annotations

from gpupool.cli.pool import welcome
from tests.unit.cli.golden import compare
from tests.unit.cli.sample import cards, pool


def test_the_welcome_says_cards_places_next_steps_and_how_to_stop() -> None:
    text = welcome.format_welcome(
        pool(),
        cards(),
        ["/tmp/pool/gpupool.sock", "http://127.0.0.1:8470"],
        chosen=" --state-dir /tmp/pool",
    )
    text += "\n=== detached\n" + welcome.format_welcome(
        {**pool(), "jobs_live": 0}, [], [], detached=True
    )
    compare("welcome", text + "\n")


def test_a_person_at_a_terminal_gets_a_link_that_logs_in_once() -> None:
    link = {"url": "http://127.0.0.1:4/login#token=t", "user": "ann", "expires_ns": 10**18}
    lines = welcome.format_welcome(pool(), cards(), [], link=link).splitlines()
    at = lines.index("  console    http://127.0.0.1:4/login#token=t")
    assert lines[at + 1].strip() == "logs one browser in as ann, once, until 2001-09-09T01:46:40Z"
    assert any(line.endswith("another link to the web console") for line in lines)
