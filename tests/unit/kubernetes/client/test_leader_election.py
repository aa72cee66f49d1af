"""One of several replicas leads; none leads on a lease that it could not renew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.kubernetes.client.leader_election import LeaseCandidate, LeaseTimes
from tests.support.scripted_api import CONFLICT, NOT_FOUND, ScriptedApi
from tests.support.virtual_time import loop_time, on_virtual_time

LEASES = "/apis/coordination.k8s.io/v1/namespaces/pool/leases"
LEASE = f"{LEASES}/controller"
TERMS = LeaseTimes()


def build_lease(holder: str, version: str = "1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "controller", "resourceVersion": version},
        "spec": {"holderIdentity": holder, **spec},
    }


def build_candidate(api: ScriptedApi) -> LeaseCandidate:
    return LeaseCandidate(api, "pool", "controller", "me", loop_time)


def lead_for(candidate: LeaseCandidate, seconds: float) -> list[float]:
    """When the work began and ended; the candidate is stopped after so many seconds."""
    times: list[float] = []

    async def work() -> None:
        times.append(loop_time())
        try:
            await asyncio.Event().wait()
        finally:
            times.append(loop_time())

    async def run() -> None:
        try:
            async with asyncio.timeout(seconds):
                await candidate.lead(work)
        except TimeoutError:
            pass

    on_virtual_time(run())
    return times


def test_free_lease_is_created_and_given_back_at_the_end() -> None:
    api = ScriptedApi({("GET", LEASE): [NOT_FOUND, build_lease("me", "2")]})
    assert lead_for(build_candidate(api), 1.0) == [0.0, 1.0]
    assert api.calls[:2] == [("GET", LEASE), ("POST", LEASES)]
    created = api.sent[1][2]["spec"]
    assert (created["holderIdentity"], created["leaseDurationSeconds"]) == ("me", 15)
    assert created["leaseTransitions"] == 0
    method, path, given_back = api.sent[-1]
    assert (method, path) == ("PUT", LEASE)
    assert given_back["spec"]["holderIdentity"] == ""
    assert given_back["metadata"]["resourceVersion"] == "2"


def test_lease_of_another_is_taken_once_it_did_not_change_for_its_duration() -> None:
    api = ScriptedApi({("GET", LEASE): build_lease("other", leaseTransitions=4)})
    candidate = build_candidate(api)
    began = lead_for(candidate, 60.0)[0]
    assert TERMS.lease <= began < TERMS.lease + TERMS.every
    taken = next(body for method, _, body in api.sent if method == "PUT")
    assert taken["spec"]["leaseTransitions"] == 5
    assert taken["metadata"]["resourceVersion"] == "1"


def test_lease_that_another_renews_is_never_taken() -> None:
    api = ScriptedApi({("GET", LEASE): [build_lease("other", str(n)) for n in range(100)]})
    candidate = build_candidate(api)
    assert lead_for(candidate, 60.0) == []
    assert candidate.holder == "other"
    assert all(method == "GET" for method, _ in api.calls)


def test_candidate_whose_write_came_second_does_not_lead() -> None:
    api = ScriptedApi({("GET", LEASE): build_lease(""), ("PUT", LEASE): CONFLICT})
    assert lead_for(build_candidate(api), 10.0) == []


def test_leader_that_cannot_renew_stops_before_the_lease_ends() -> None:
    api = ScriptedApi({("GET", LEASE): [NOT_FOUND, ServiceUnavailable("no answer")]})
    began, ended = lead_for(build_candidate(api), 60.0)
    assert ended - began == pytest.approx(TERMS.renew_within)
    assert ended - began < TERMS.lease


def test_error_of_the_work_is_raised_after_the_lease_was_given_back() -> None:
    api = ScriptedApi({("GET", LEASE): build_lease("me")})

    async def fail() -> None:
        raise ValueError("the work failed")

    with pytest.raises(ValueError, match="the work failed"):
        on_virtual_time(build_candidate(api).lead(fail))
    assert api.sent[-1][2]["spec"]["holderIdentity"] == ""
