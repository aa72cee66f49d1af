"""What is shown of subscriptions and deliveries: no secret, no path of a chat's URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from gpupool.notifications.tables import deliveries
from gpupool.wire.notifications import DeliveryOut, SubscriptionOut


def count_deliveries(connection: sa.Connection) -> dict[tuple[int, str], int]:
    """Count the deliveries that wait or are dead, by subscription and state."""
    columns = (deliveries.c.subscription_id, deliveries.c.state)
    query = sa.select(*columns, sa.func.count()).where(deliveries.c.state != "sent")
    return {(row[0], row[1]): row[2] for row in connection.execute(query.group_by(*columns))}


def describe_subscription(row: Any, counts: dict[tuple[int, str], int]) -> SubscriptionOut:
    """Describe a row of subscriptions with its user and tenant."""
    return SubscriptionOut(
        name=row.name,
        user=row.user,
        tenant=row.tenant,
        format=row.format,
        address=row.address,
        signed=bool(row.secret),
        topics=row.topics,
        scope=row.scope,
        waiting_seconds=row.waiting_s,
        language=row.language,
        quiet_hours=row.quiet_hours,
        time_zone=row.time_zone,
        digest_seconds=row.digest_s,
        waiting=counts.get((row.id, "waiting"), 0),
        dead=counts.get((row.id, "dead"), 0),
        created_ns=row.created_ns,
    )


def hide_path(address: str) -> str:
    """Return a URL without its path and query, which are secrets of chats."""
    url = urlsplit(address)
    return f"{url.scheme}://{url.netloc}/…"


def describe_delivery(row: Any) -> DeliveryOut:
    """Describe a row of deliveries with its subscription and user."""
    return DeliveryOut(
        id=row.public_id,
        subscription=row.name,
        user=row.user,
        topic=row.topic,
        subject=row.subject,
        data=row.data,
        at_ns=row.at_ns,
        state=row.state,
        due_ns=row.due_ns,
        attempts=row.attempts,
        error=row.error,
        ended_ns=row.ended_ns,
    )
