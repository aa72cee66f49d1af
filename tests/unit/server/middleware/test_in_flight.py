"""Requests of one user at a time are bounded, by user and not by connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.server.middleware import in_flight
from tests.support.api import running_app


def test_requests_of_one_user_at_a_time_are_bounded_whatever_credential_they_come_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = in_flight.InFlightMiddleware.__init__
    monkeypatch.setattr(
        in_flight.InFlightMiddleware, "__init__", lambda self, app, most=0: begin(self, app, 3)
    )
    with running_app(tmp_path) as pool:
        assert pool.client().post("users", {"name": "worker"}).status == 201
        assert pool.client().post("users", {"name": "mate"}).status == 201
        callers = [pool.client(None, token=pool.token("worker")) for _ in range(4)]
        mate = pool.client(None, token=pool.token("mate"))
        with (
            callers[0].stream("watch") as one,
            callers[1].stream("watch") as two,
            callers[2].stream("watch") as three,
        ):
            for stream in (one, two, three):
                stream.piece()
            refused = callers[3].get("whoami")
            assert (refused.status, refused.code, refused.headers["retry-after"]) == (
                429,
                "GP-5034",
                "5",
            )
            assert (refused.json()["numbers"]["open"], refused.json()["numbers"]["most"]) == (3, 3)
            assert mate.get("whoami").status == 200
            assert [pool.client().get("whoami").status for _ in range(5)] == [200] * 5
        assert callers[3].get("whoami").status == 200
