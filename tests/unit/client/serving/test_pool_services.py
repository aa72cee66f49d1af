"""The SDK asks for services what the command line would ask."""

from __future__ import annotations

from pathlib import Path

from gpupool.client import Pool
from gpupool.client.submission import job_body
from gpupool.wire.common import Event
from gpupool.wire.serving.services import ServiceOut, ServicePlanOut, ServiceRule
from tests.unit.cli.sample import sample_pool
from tests.unit.client.scripted_pool import Request, reply

SERVICE = ServiceOut(
    id="v-0000000001",
    name="web",
    tenant="default",
    user="ada",
    state="active",
    explain="1 of 1 healthy",
    path="/services/web/",
    rule=ServiceRule(),
    port=8000,
    desired=1,
    ready=1,
    live=1,
    load=None,
    waiting=0,
    scaled_ns=None,
    created_ns=1,
)


def answer(asked: Request) -> bytes:
    one = SERVICE.model_dump(mode="json")
    is_list = (asked.method, asked.target) == ("GET", "/api/v1/services")
    return reply({"items": [one], "next": None} if is_list else one)


def test_services_are_made_changed_and_read(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as running, Pool(tmp_path) as pool:
        running.handler = answer
        rule = {"max_replicas": 4}
        made = pool.services.create("web", "sh -c 'x {port}'", rule=rule, gpu=0.25)
        pool.services.create_from_template("chat", "vllm", {"model": "m"}, rule=rule)
        pool.services.scale("web", 2)
        assert pool.services.list() == [made] == [pool.services.get("web")] == [SERVICE]
        pool.services.delete("web")
        sent = [(asked.method, asked.target.rpartition("/v1/")[2]) for asked in running.requests]
        bodies = [asked.json for asked in running.requests if asked.method in ("POST", "PATCH")]
    assert sent == [
        ("POST", "services"),
        ("POST", "services"),
        ("PATCH", "services/web"),
        ("GET", "services"),
        ("GET", "services/web"),
        ("DELETE", "services/web"),
    ]
    job = bodies[0].pop("job")
    assert job["launch"]["argv"] == ["sh", "-c", "x {port}"]
    assert job["shape"] == job_body(["sh"], gpu="0.25")["shape"]
    assert bodies == [
        {"name": "web", "port": None, "rule": rule},
        {"name": "chat", "template": "vllm", "use": {"values": {"model": "m"}}, "rule": rule},
        {"rule": {"min_replicas": 2, "max_replicas": 2}},
    ]


def test_a_plan_and_events_of_a_service_are_read(tmp_path: Path) -> None:
    plan = ServicePlanOut(rule=ServiceRule(), desired_before=1, desired=3, starts=2, ends=[])
    event = Event(seq=7, at_ns=1, kind="service.created", subject="web", tenant="default")

    def tell(asked: Request) -> bytes:
        told = event if asked.method == "GET" else plan
        one = told.model_dump(mode="json")
        return reply({"items": [one], "next": None} if told is event else one)

    with sample_pool(tmp_path) as running, Pool(tmp_path) as pool:
        running.handler = tell
        assert pool.services.plan("web", min_replicas=3, max_replicas=3) == plan
        assert pool.services.list_events("web", limit=9) == [event]
        sent = [(asked.method, asked.target.rpartition("/v1/")[2]) for asked in running.requests]
        body = running.requests[0].json
    assert sent == [("POST", "services/web/plan"), ("GET", "services/web/events?limit=9")]
    assert body == {"rule": {"min_replicas": 3, "max_replicas": 3}}
