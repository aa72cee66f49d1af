"""Gangs whose roles ask for different models, where quotas are of models."""

from tests.conformance.quota_cases import plan

CARDS = {"H100": 3, "H200": 3}
LIMITS = {"gpu:H100": [3, 0], "gpu:H200": [3, 0]}
PARTS = [{"gpu": 2, "model": "H100"}, {"gpu": 2, "model": "H200"}]
GANG = {"name": "gang", "tenant": "nlp", "parts": PARTS}


def outcome(tenants, *claims):
    found = plan({"cards": CARDS, "tenants": tenants, "claims": claims})
    return list(found.evicted), {name: dict(on) for name, on in found.seats.items()}


def test_each_role_is_counted_on_its_own_model() -> None:
    assert outcome({"nlp": LIMITS}, GANG) == ([], {"gang": {"H100": 2, "H200": 2}})


def test_a_gang_is_refused_where_one_role_finds_no_quota() -> None:
    assert outcome({"nlp": LIMITS | {"gpu:H200": [1, 0]}}, GANG) == ([], {})


def test_a_gang_takes_back_for_each_role_what_is_borrowed_of_its_model() -> None:
    tenants = {"nlp": LIMITS, "guest": {"gpu:H100": [0, None], "gpu:H200": [0, None]}}
    held = [
        {"name": f"{model}-{n}", "tenant": "guest", "gpu": {model: 1}, "started": -n}
        for model in CARDS
        for n in range(3)
    ]
    evicted, _ = outcome(tenants, *held, GANG)
    assert evicted == ["H100-0", "H100-1", "H200-0", "H200-1"]
