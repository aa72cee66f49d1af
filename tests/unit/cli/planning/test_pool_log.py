"""The whole event log is for callers that see all of it, and is read to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import NoPermission
from gpupool.cli.planning.pool_log import read_pages, read_policy
from gpupool.terminal.context import CommandContext
from tests.unit.cli.golden import AnswerWith
from tests.unit.cli.sample import answers
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply


@pytest.fixture
def context(tmp_path: Path) -> CommandContext:
    return CommandContext(str(tmp_path))


def test_pool_log_is_refused_to_a_caller_that_sees_one_tenant(
    pool: ScriptedPool, context: CommandContext
) -> None:
    with pytest.raises(NoPermission, match="only an admin sees the jobs of all tenants") as refused:
        read_policy(context)
    assert (refused.value.code, refused.value.exit_code) == ("GP-3002", 4)


def test_pool_log_names_the_policy_to_an_admin(
    answer_with: AnswerWith, context: CommandContext
) -> None:
    admin = {**answers()["whoami"], "permissions": ["read", "manage-pool"]}
    answer_with("GET", "whoami", admin)
    assert read_policy(context) == "default"


def test_pool_log_pages_follow_each_other_until_an_empty_one(
    pool: ScriptedPool, context: CommandContext
) -> None:
    log = [{"seq": 3}, {"seq": 5}, {"seq": 9}]

    def answer(asked: Request) -> bytes:
        after = int(asked.target.partition("after=")[2].partition("&")[0])
        return reply([event for event in log if event["seq"] > after][:2])

    pool.handler = answer
    assert list(read_pages(context)) == [log[:2], log[2:]]
    asked = [one.target.partition("?")[2] for one in pool.requests]
    assert asked == [f"after={after}&limit=1000" for after in (0, 5, 9)]
