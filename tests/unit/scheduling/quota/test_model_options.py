"""Quotas of card models and claims that name none."""

from tests.conformance.quota_cases import plan

TWO_MODELS = {"H100": 2, "H200": 2}
BORROWER = {"gpu:H100": [0, None], "gpu:H200": [0, None]}


def outcome(tenants, *claims):
    found = plan({"cards": TWO_MODELS, "tenants": tenants, "claims": claims})
    return list(found.evicted), dict(found.placed)


def running(name, tenant, model):
    return {"name": name, "tenant": tenant, "gpu": {model: 1}, "started": -60}


def full(tenant="guest"):
    return [running(f"{model}-{n}", tenant, model) for model in TWO_MODELS for n in range(2)]


def waiting(name, tenant, **more):
    return {"name": name, "tenant": tenant, "gpu": 1, **more}


def test_a_claim_that_names_no_model_takes_nothing_back_where_no_model_is_guaranteed() -> None:
    tenants = {"nlp": BORROWER, "guest": BORROWER}
    assert outcome(tenants, *full(), waiting("any", "nlp")) == ([], {})


def test_a_claim_that_names_no_model_takes_back_cards_of_the_model_that_is_guaranteed() -> None:
    tenants = {"nlp": {"gpu:H100": [0, None], "gpu:H200": [2, 0]}, "guest": BORROWER}
    evicted, _ = outcome(tenants, *full(), waiting("any", "nlp"))
    assert evicted
    assert all(job.startswith("H200") for job in evicted)


def test_a_claim_that_is_inside_its_guarantee_on_one_model_goes_before_a_borrower() -> None:
    tenants = {
        "nlp": {"gpu:H100": [0, None], "gpu:H200": [1, 0]},
        "guest": BORROWER,
        "vision": BORROWER,
    }
    three = (("g1", "H100"), ("g2", "H100"), ("g3", "H200"))
    held = [{**running(name, "vision", model), "priority": 10} for name, model in three]
    borrower = waiting("borrower", "guest", priority=10, submitted=-60)
    assert outcome(tenants, *held, borrower, waiting("owner", "nlp")) == ([], {"owner": "H200"})


def test_a_claim_borrows_where_every_model_that_it_allows_is_used_up() -> None:
    tenants = {
        "nlp": {"gpu:H100": [1, None], "gpu:H200": [0, None]},
        "guest": {"gpu:H100": [1, 0], "gpu:H200": [2, 0]},
    }
    held = [{**running("mine", "nlp", "H100"), "priority": 10}]
    owner = waiting("owner", "guest", model="H100")
    found = outcome(
        tenants, *held, waiting("more", "nlp", priority=10, submitted=-60, model="H100"), owner
    )
    assert found == ([], {"owner": "H100"})


def test_a_claim_is_placed_on_the_model_of_which_it_borrows_nothing() -> None:
    for own in TWO_MODELS:
        tenants = {"nlp": BORROWER | {f"gpu:{own}": [2, 0]}, "guest": BORROWER}
        assert outcome(tenants, waiting("any", "nlp")) == ([], {"any": own})


def test_a_claim_borrows_another_model_where_its_own_is_in_use() -> None:
    tenants = {"nlp": BORROWER | {"gpu:H100": [2, 0]}, "guest": BORROWER}
    held = [{**running(f"mine-{n}", "nlp", "H100"), "priority": 10} for n in range(2)]
    assert outcome(tenants, *held, waiting("any", "nlp")) == ([], {"any": "H200"})
