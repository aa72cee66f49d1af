"""Services for their users: rights, bounds, templates."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gpupool.base.errors import BadService, NameTaken, NoPermission, UnknownService
from gpupool.serving.traffic import ServiceLabels
from gpupool.templates.service import TemplateService
from gpupool.wire.serving.services import ServiceAdd, ServiceChange, ServiceRule
from gpupool.wire.templates.documents import TemplateIn
from gpupool.wire.templates.uses import TemplateAdd
from tests.support.shop import Shop


def test_a_service_is_seen_in_its_tenant_and_changed_by_its_owner(shop: Shop) -> None:
    house = shop.house
    house.tenancy.tenants.create(house.admin, "acme", None)
    ada = house.member("ada", "acme")
    bob = house.member("bob", "acme")
    eve = house.member("eve", "default")
    made = shop.add(who=ada)
    assert (made.tenant, made.user, made.command) == ("acme", "ada", ["serve", "{port}"])
    seen = shop.serving.get("web", bob)
    assert seen.command == []
    change = ServiceChange(rule={"max_replicas": 2})
    for who, refusal in ((bob, NoPermission), (eve, UnknownService)):
        with pytest.raises(refusal):
            shop.serving.change("web", change, who)
        with pytest.raises(refusal):
            shop.serving.remove("web", who)
    assert shop.serving.list_services(eve) == []
    assert shop.serving.change(made.id, change, ada).rule.max_replicas == 2
    assert [one.name for one in shop.serving.list_services(house.admin)] == ["web"]


def test_a_service_tells_of_its_own_latest_requests_alone(shop: Shop) -> None:
    shop.add("web")
    shop.add("chat")
    assert shop.get("web").recent is None
    traffic = shop.serving.controller.traffic
    labels = ServiceLabels(shop.house.admin.tenant, "web")
    for outcome in ("2xx", "2xx", "2xx", "5xx"):
        traffic.note_answer(labels, outcome, 0.2)
    found = shop.get("web").recent
    assert found is not None
    assert (found.requests, found.errors) == (4, 1)
    assert found.p50_seconds == pytest.approx(0.175)
    assert found.per_second == pytest.approx(4 / found.seconds, rel=0.5)
    assert shop.get("chat").recent is None
    by_name = {one.name: one.recent for one in shop.serving.list_services(shop.house.admin)}
    assert by_name["web"] is not None
    traffic.forget_others([])


def test_a_name_is_once_in_a_tenant(shop: Shop) -> None:
    shop.add()
    with pytest.raises(NameTaken):
        shop.add()


@pytest.mark.parametrize(
    "job",
    [{"array": 2}, {"name": "mine"}, {"attached": True}, {"tenant": "acme"}],
)
def test_what_is_not_one_plain_job_is_no_service(shop: Shop, job: dict[str, Any]) -> None:
    with pytest.raises(BadService):
        shop.add(job=job)


def test_bounds_that_contradict_each_other_are_refused(shop: Shop) -> None:
    with pytest.raises(ValidationError, match="min_replicas is 3 and max_replicas 2"):
        ServiceRule(min_replicas=3, max_replicas=2)
    with pytest.raises(ValidationError, match="expected 1 to 100 percent"):
        ServiceRule(measure="gpu", target=101)
    shop.add()
    for rule in ({"min_replicas": 5}, {"no_such_field": 1}, {"target": 0}):
        with pytest.raises(BadService):
            shop.serving.change("web", ServiceChange(rule=rule), shop.house.admin)
    changed = shop.serving.change(
        "web", ServiceChange(rule={"min_replicas": 2, "max_replicas": 2}), shop.house.admin
    )
    assert (changed.desired, changed.rule.effective_target) == (2, 10)


@pytest.mark.parametrize(
    ("template", "values", "word", "health"),
    [
        ("vllm", {"model": "/models/llama"}, "{port}", "/health"),
        ("triton", {"repository": "/models"}, "--http-port={port}", "/v2/health/ready"),
    ],
)
def test_a_template_that_serves_makes_a_service(
    shop: Shop, template: str, values: dict[str, Any], word: str, health: str
) -> None:
    body = ServiceAdd.model_validate(
        {"name": "chat", "template": template, "use": {"values": {**values, "port": 9000}}}
    )
    made = shop.serving.render(body, shop.house.admin)
    assert made.job is not None
    assert word in made.job.launch.argv
    assert (made.job.array, made.job.name, made.port) == (None, None, 9000)
    assert (made.rule.check_path, made.template) == (health, f"{template}@1")
    out = shop.serving.add(made, shop.house.admin, None)
    assert out.template == f"{template}@1"


def test_a_template_whose_health_is_no_path_of_a_check_is_refused(shop: Shop) -> None:
    job = {"argv": ["serve"], "gpu": 0.3, "memory_gib": 1}
    document = {"name": "blank", "version": 1, "summary": {"en": "x"}}
    port = {"number": 8000, "health": "/is it well"}
    template = TemplateIn.model_validate({**document, "job": {**job, "port": port}})
    templates = TemplateService(shop.house.store, shop.house.tenancy)
    templates.add(shop.house.admin, TemplateAdd(template=template, tenant=None))
    body = ServiceAdd.model_validate({"name": "chat", "template": "blank"})
    with pytest.raises(BadService, match="check_path: "):
        shop.serving.render(body, shop.house.admin)
    templates.remove(shop.house.admin, "blank", None, None)


@pytest.mark.parametrize(
    ("template", "values"),
    [("training", {"script": "train.py"}), ("vllm", {"model": "m", "replicas": 3})],
)
def test_a_template_that_is_no_single_server_is_refused(
    shop: Shop, template: str, values: dict[str, Any]
) -> None:
    body = ServiceAdd.model_validate(
        {"name": "chat", "template": template, "use": {"values": values}}
    )
    with pytest.raises(BadService):
        shop.serving.render(body, shop.house.admin)
