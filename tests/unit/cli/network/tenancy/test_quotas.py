"""`network quota-set` and `quota-list`: what is sent and printed, and what is refused before that."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.network.tenancy.quotas import _list_quotas, _set_quotas
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

QUOTAS = [
    {"kind": "networks", "most": 4, "used": 1},
    {"kind": "load_balancers", "most": None, "used": 12},
]


def answer(asked: Request) -> bytes:
    return reply({"tenant": "nlp"} if asked.target.endswith("whoami") else QUOTAS)


def test_named_quotas_alone_are_sent_and_all_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["quota-set", "nlp", "--networks", "4", "--load-balancers", "none"]
    with ScriptedPool(tmp_path, answer) as server:
        assert _set_quotas(parse_command("network", words), CommandContext(str(tmp_path))) == 0
        (asked,) = server.requests
    assert (asked.method, asked.target) == ("PUT", "/api/v1/tenants/nlp/network-quota")
    assert asked.json == {"networks": 4, "load_balancers": None}
    assert capsys.readouterr().out.splitlines() == [
        "OF              USED  QUOTA",
        "networks           1      4",
        "load balancers    12   none",
    ]


def test_the_own_tenant_is_listed_where_none_is_named(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, answer) as server:
        _list_quotas(parse_command("network", ["quota-list"]), CommandContext(str(tmp_path)))
        assert server.requests[-1].target == "/api/v1/tenants/nlp/network-quota"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--networks", "-1"], "no quota"),
        (["--networks", "1.5"], "no quota"),
        (["--networks", "1000001"], "no quota"),
        ([], "no quota to set"),
    ],
)
def test_what_is_no_quota_is_refused_before_the_pool_is_asked(
    tmp_path: Path, words: list[str], message: str
) -> None:
    with ScriptedPool(tmp_path, answer) as server:
        with pytest.raises(BadOption, match=message):
            _set_quotas(
                parse_command("network", ["quota-set", "nlp", *words]),
                CommandContext(str(tmp_path)),
            )
        assert server.requests == []
