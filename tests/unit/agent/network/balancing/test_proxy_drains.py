"""What is drained is kept beside the proxy, for as long as the job is behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.network.balancing.proxy_drains import ProxyDrains, is_proxy
from gpupool.agent.network.daemons import locate_engine


@pytest.fixture
def drains(tmp_path: Path) -> ProxyDrains:
    made = ProxyDrains(replace(locate_engine(tmp_path), run=tmp_path))
    for proxy, seconds in (("h-1", 5), ("h-2", 20)):
        made.locate(proxy).mkdir(parents=True)
        made.write_backends(proxy, {"n-1": ["route0"]}, seconds)
    made.write_backends("h-2", {"n-1": ["route0"], "n-2": ["route0", "route1"]}, 20)
    return made


def test_a_job_waits_as_long_as_its_most_patient_proxy_lets_it(drains: ProxyDrains) -> None:
    assert [drains.find_seconds(port) for port in ("n-1", "n-2", "n-3")] == [20, 20, 0]


def test_a_drain_outlives_a_new_configuration_and_ends_with_the_job(drains: ProxyDrains) -> None:
    # No proxy runs, so none serves requests.
    assert drains.drain("n-2") == 0
    assert (drains.list_draining("h-1"), drains.list_draining("h-2")) == (frozenset(), {"n-2"})
    drains.write_backends("h-2", {"n-2": ["route0"]}, 20)
    assert drains.list_draining("h-2") == {"n-2"}
    drains.write_backends("h-2", {"n-1": ["route0"]}, 20)
    assert drains.list_draining("h-2") == frozenset()


def test_a_drain_waits_for_a_configuration_that_may_not_know_of_it(drains: ProxyDrains) -> None:
    with drains.change("h-2"):
        assert (drains.drain("n-1"), drains.drain("n-2")) == (1, 1)
    assert drains.drain("n-2") == 0
    with pytest.raises(ValueError, match="refused"), drains.change("h-2"):
        raise ValueError("refused")
    assert drains.drain("n-2") == 0


def test_proxies_are_listed_and_removed(drains: ProxyDrains) -> None:
    assert drains.list_proxies() == ["h-1", "h-2"]
    drains.remove("h-1")
    drains.remove("h-1")
    assert drains.list_proxies() == ["h-2"]
    assert (is_proxy("h-2"), is_proxy("n-2")) == (True, False)


def test_a_proxy_that_is_deleted_meanwhile_serves_nothing(
    drains: ProxyDrains, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = drains._list_users("n-2")
    drains.remove("h-2")
    monkeypatch.setattr(drains, "_list_users", lambda _port: found)
    assert drains.drain("n-2") == 0
    assert drains.list_proxies() == ["h-1"]
