"""What a console reads of the whole pool, over the API: map, shares, overview, previews, searches."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.allocations.submission.preview_budget import BURST
from tests.api.test_fleet import node_body
from tests.support.api import RunningApp, running_app

GIB = 1 << 30
JOB: dict[str, Any] = {
    "shape": {"gpu_milli": 300, "memory_bytes": 8 * GIB},
    "launch": {"argv": ["python", "train.py"]},
}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as running:
        running.client().put("nodes/sim-0", node_body(2))
        running.services.allocations.placer.load()
        yield running


def test_an_unchanged_map_is_answered_304_and_compressed_where_asked(pool: RunningApp) -> None:
    caller = pool.client(uid=4001)
    first = caller.get("map", headers={"Accept-Encoding": "gzip"})
    assert (first.status, first.headers["content-encoding"]) == (200, "gzip")
    body = json.loads(gzip.decompress(first.body))
    assert body["nodes"]["name"] == ["sim-0"]
    again = caller.get("map", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    plain = caller.get("map")
    assert "content-encoding" not in plain.headers
    assert plain.json() == body
    pool.client().post("jobs", JOB)
    changed = caller.get("map", headers={"If-None-Match": first.headers["etag"]})
    assert (changed.status, changed.json()["shares"]) == (200, [0, 0, 300])
    patch = caller.get("map", params={"after": body["cursor"]})
    assert patch.headers["cache-control"] == "no-store"
    assert (patch.json()["changed"], patch.json()["shares"]) == ([0], [0, 0, 300])
    assert patch.json()["cursor"] == changed.json()["cursor"]
    unknown = caller.get("map", params={"after": "m-0000000000.1"})
    assert unknown.json() == changed.json()


def test_the_map_goes_on_with_the_watch_from_its_number(pool: RunningApp) -> None:
    admin = pool.client()
    seq = admin.get("map").json()["seq"]
    assert seq == admin.get("pool").json()["last_event"]
    admin.post("jobs", JOB)
    events = admin.get("events", params={"after": seq}).json()
    assert "job.submitted" in [event["kind"] for event in events]


def test_shares_of_a_card_are_listed_by_its_name(pool: RunningApp) -> None:
    pool.client().post("jobs", {**JOB, "name": "train"})
    (share,) = pool.client().get("devices/sim-0:0/shares").json()
    assert (share["name"], share["gpu_milli"], share["used_bytes"]) == ("train", 300, None)
    assert pool.client().get("devices/sim-0:9/shares").status == 404


def test_a_search_goes_on_behind_its_last_job(pool: RunningApp) -> None:
    admin = pool.client()
    for number in range(3):
        admin.post("jobs", {**JOB, "name": f"train-{number}", "wait": True})
    query = {"q": "TRAIN", "sort": "name", "limit": 2}
    first = admin.get("jobs", params=query).json()
    assert [job["name"] for job in first["items"]] == ["train-0", "train-1"]
    assert (first["total_estimate"], first["total_exact"]) == (3, True)
    rest = admin.get("jobs", params={**query, "cursor": first["next"]}).json()
    assert ([job["name"] for job in rest["items"]], rest["next"]) == (["train-2"], None)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"sort": "color"}, "GP-1005"),
        ({"sort": "name", "cursor": "-submitted:values:1:2"}, "GP-1010"),
        ({"sort": "gpu", "cursor": "gpu:values:1:x"}, "GP-1010"),
        ({"q": "x" * 81}, "GP-1010"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(
    pool: RunningApp, query: dict[str, Any], code: str
) -> None:
    answer = pool.client().get("jobs", params=query)
    assert (answer.status, answer.code) == (400 if code == "GP-1005" else answer.status, code)


def test_a_preview_fits_and_leaves_no_trace(pool: RunningApp) -> None:
    admin = pool.client()
    seq = admin.get("pool").json()["last_event"]
    found = admin.post("jobs/preview", JOB).json()
    assert (found["outcome"], found["code"], found["starts_now"]) == ("fits", None, 1)
    assert [seat["device"] for seat in found["on"]] == ["sim-0:0"]
    assert found["command"] == "gpupool submit --gpu 0.3 --memory 8GiB -- python train.py"
    assert admin.get("pool").json()["last_event"] == seq
    assert admin.get("jobs").json()["items"] == []


def test_a_preview_that_can_never_fit_has_the_code_of_the_submission(pool: RunningApp) -> None:
    admin = pool.client()
    large = {**JOB, "shape": {"gpu_milli": 300, "memory_bytes": 900 * GIB}}
    refused = admin.post("jobs", large)
    found = admin.post("jobs/preview", large)
    assert (found.status, found.json()["outcome"]) == (200, "never")
    assert found.json()["code"] == refused.code == "GP-2001"
    assert found.json()["reason"] == refused.json()["detail"]


def test_a_preview_of_nonsense_is_refused_as_its_submission(pool: RunningApp) -> None:
    admin = pool.client()
    wrong = {**JOB, "priority": "urgent"}
    assert admin.post("jobs/preview", wrong).code == admin.post("jobs", wrong).code == "GP-1005"


def test_previews_of_one_user_are_limited_and_of_another_not(pool: RunningApp) -> None:
    mine = pool.client(uid=4001)
    answers = [mine.post("jobs/preview", JOB) for _ in range(2 * BURST)]
    limited = [answer for answer in answers if answer.status == 429]
    assert limited
    assert limited[0].code == "GP-5034"
    assert int(limited[0].headers["retry-after"]) >= 1
    assert pool.client().post("jobs/preview", JOB).status == 200


def test_the_overview_of_a_user_has_no_other_tenant(pool: RunningApp) -> None:
    admin = pool.client()
    admin.post("tenants", {"name": "lab"})
    admin.post("users", {"name": "guest", "tenant": "lab"})
    admin.post("jobs", {**JOB, "name": "secret"})
    seen = pool.client(None, token=pool.token("guest")).get("overview")
    found = seen.json()
    assert (found["held_milli"], found["capacity_milli"]) == (300, 2000)
    assert [one["tenant"] for one in found["tenants"]] == ["lab"]
    assert found["mine"]["recent"] == []
    assert b"secret" not in seen.body
    everything = admin.get("overview").json()
    assert [one["tenant"] for one in everything["tenants"]] == ["default"]
    assert everything["mine"]["starting"] == 1
    assert [model["largest_milli"] for model in everything["models"]] == [1000]
