"""Where each service stands now: its replicas by state, its bounds, its requests. Blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.serving.routing import RequestLoad
from gpupool.serving.rows import IS_OVER, SERVICE
from gpupool.serving.sights import count_wanted
from gpupool.serving.tables import service_replicas, services
from gpupool.serving.traffic import ServiceLabels
from gpupool.store.database import Store
from gpupool.wire.serving.services import ServiceRule


@dataclass(frozen=True)
class ServiceStanding:
    """One service.

    Attributes:
        desired: replicas that it should have; 0 once it is removed or its owner has left.
        replicas: those that have not ended, by state.
        in_flight: requests under way or waiting, with open WebSockets.
    """

    labels: ServiceLabels
    desired: int
    least: int
    most: int
    replicas: Mapping[str, int]
    in_flight: int
    waiting: int


def read_standings(store: Store, load: RequestLoad) -> list[ServiceStanding]:
    """Read where the services of all tenants stand."""
    live = (
        sa.select(service_replicas.c.service_id, service_replicas.c.state, sa.func.count())
        .where(sa.not_(IS_OVER))
        .group_by(service_replicas.c.service_id, service_replicas.c.state)
    )
    with store.read() as connection:
        rows = connection.execute(SERVICE.order_by(services.c.id)).all()
        counted = connection.execute(live).all() if rows else []
    by_service: dict[int, dict[str, int]] = {row.id: {} for row in rows}
    for service, state, count in counted:
        by_service[service][state] = count
    found = list[ServiceStanding]()
    for row in rows:
        rule = ServiceRule.model_validate(row.rule)
        found.append(
            ServiceStanding(
                ServiceLabels(row.tenant, row.name),
                count_wanted(row),
                rule.min_replicas,
                rule.max_replicas,
                by_service[row.id],
                load.count(row.id),
                load.count_waiting(row.id),
            )
        )
    return found
