"""Sign-on and leavers in the SDK: one request each, and answers as the wire has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpupool.client import Pool
from gpupool.client.signon.people import SignOn
from tests.unit.cli.signon.test_leaver_policies import POLICY
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

ANSWERS: dict[str, Any] = {
    "POST /api/v1/users/ann/handover": {
        "user": "ann",
        "to": "bob",
        "dry_run": True,
        "units": [],
        "handed": 0,
        "jobs": 0,
    },
    "PUT /api/v1/sso/leaver-policies": POLICY,
    "GET /api/v1/sso/leaver-policies": [POLICY],
    "GET /api/v1/sso/leavers?all=true": {"items": [], "next": None},
    "GET /api/v1/sso/providers": [],
    "GET /api/v1/sso/rules": {"rules": []},
    "PUT /api/v1/sso/rules": {"rules": []},
    "POST /api/v1/sso/sync": {"checked": 2, "leavers": [], "stopped": 0, "handed": 0},
}


def answer(asked: Request) -> bytes:
    return reply(ANSWERS[f"{asked.method} {asked.target}"])


def test_each_verb_is_one_request_and_its_answer_is_typed(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, answer) as server, Pool(tmp_path) as pool:
        people = SignOn(pool.api)
        assert people.hand_over("ann", "bob", only=["train"], dry_run=True).to == "bob"
        assert people.set_policy(act="keep", tenant="nlp", keep_seconds=86400).act == "keep"
        assert [policy.tenant for policy in people.list_policies()] == ["nlp"]
        assert people.list_leavers(every=True) == []
        assert people.list_providers() == []
        people.set_rules(people.read_rules().rules)
        assert people.sync("corp", unseen_days=90).checked == 2
    assert [f"{one.method} {one.target}" for one in server.requests] == list(ANSWERS)
    assert server.requests[0].json == {"to": "bob", "only": ["train"], "dry_run": True}
