"""Lists that come in pages."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gpupool.base.client_settings import ClientSettings
from gpupool.client.paging import iterate_items, list_first
from gpupool.client.transport import Api
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

NAMES = [f"j{number}" for number in range(5)]


def give_two(asked: Request) -> bytes:
    """A page has at most two items, whatever is asked for."""
    query = parse_qs(urlsplit(asked.target).query)
    begin = int(query.get("after", ["0"])[0])
    end = begin + min(2, int(query["limit"][0]))
    following = str(end) if end < len(NAMES) else None
    return reply({"items": [{"id": name} for name in NAMES[begin:end]], "next": following})


def api_of(pool: ScriptedPool) -> Api:
    return Api(ClientSettings(state_dir=pool.state_dir))


def test_iterate_items_follows_the_pages_to_the_last(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, give_two) as pool:
        found = [one["id"] for one in iterate_items(api_of(pool), "jobs", {"state": "running"})]
    assert found == NAMES
    assert len(pool.requests) == 3
    assert all("state=running" in asked.target for asked in pool.requests)


def test_list_first_stops_at_the_limit_and_says_that_there_are_more(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, give_two) as pool:
        found, has_more = list_first(api_of(pool), "jobs", limit=3)
    assert ([one["id"] for one in found], has_more) == (NAMES[:3], True)
    assert ["limit=3" in pool.requests[0].target, "limit=1" in pool.requests[1].target] == [
        True
    ] * 2


def test_list_first_of_a_short_list_has_no_more(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, give_two) as pool:
        found, has_more = list_first(api_of(pool), "jobs", limit=5)
        assert (len(found), has_more) == (5, False)
        assert list_first(api_of(pool), "jobs", limit=100)[1] is False
