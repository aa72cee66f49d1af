"""Routes of subscriptions, deliveries and settings of messages, below /api/v1."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Query, Request, Response

from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.notifications.service import MOST_DELIVERIES, SubscriptionService
from gpupool.notifications.settings import NotificationSettings
from gpupool.tenancy.access import require_caller
from gpupool.tenancy.routes import IfMatch, parse_generation
from gpupool.wire.notifications import (
    DeliveryOut,
    DeliveryTestOut,
    NotificationSettingsIn,
    NotificationSettingsOut,
    SubscriptionIn,
    SubscriptionOut,
)

router = Router(tags=["notifications"])


def get_subscriptions(request: Request) -> SubscriptionService:
    found: SubscriptionService = request.app.state.subscriptions
    return found


def get_settings(request: Request) -> NotificationSettings:
    found: NotificationSettings = request.app.state.notification_settings
    return found


Service = Annotated[SubscriptionService, Depends(get_subscriptions)]
Settings = Annotated[NotificationSettings, Depends(get_settings)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
Owner = Annotated[str | None, Query(max_length=63, description="whose; default: the caller's own")]
PoolManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]


@router.get("/subscriptions")
def list_subscriptions(service: Service, caller: Reader) -> list[SubscriptionOut]:
    """Subscriptions: the caller's, those of the tenant for its admins, all for an admin."""
    return service.list_subscriptions(caller)


@router.post("/subscriptions", status_code=201)
def create_subscription(service: Service, caller: Reader, body: SubscriptionIn) -> SubscriptionOut:
    """Subscribe a receiver to what happens from now on."""
    return service.create_subscription(caller, body)


@router.get("/subscriptions/{subscription}")
def get_subscription(
    service: Service, caller: Reader, subscription: str, user: Owner = None
) -> SubscriptionOut:
    """One subscription."""
    return service.get_subscription(caller, subscription, user)


@router.delete("/subscriptions/{subscription}", status_code=204)
def delete_subscription(
    service: Service, caller: Reader, subscription: str, user: Owner = None
) -> Response:
    """Delete a subscription and its deliveries."""
    service.delete_subscription(caller, subscription, user)
    return Response(status_code=204)


@router.post("/subscriptions/{subscription}/test")
def send_test_message(
    service: Service, caller: Reader, subscription: str, user: Owner = None
) -> DeliveryTestOut:
    """Send a test message now, and say what became of it."""
    return service.send_test_message(caller, subscription, user)


@router.get("/deliveries")
def list_deliveries(
    service: Service,
    caller: Reader,
    state: Literal["waiting", "sent", "dead"] | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST_DELIVERIES)] = 100,
) -> list[DeliveryOut]:
    """Deliveries of the subscriptions that the caller sees, the newest first."""
    return service.list_deliveries(caller, state, limit)


@router.post("/deliveries/{delivery}/retry")
def retry_delivery(service: Service, caller: Reader, delivery: str) -> DeliveryOut:
    """Try a delivery that was given up once more, now."""
    return service.retry_delivery(caller, delivery)


@router.get("/notification-settings")
def get_notification_settings(
    settings: Settings, _caller: PoolManager, response: Response
) -> NotificationSettingsOut:
    """Hosts that messages may be sent to, and the mail server without its password. The `ETag` names
    what a change must have read."""
    return _tag(settings.read(), response)


@router.put("/notification-settings")
def set_notification_settings(
    settings: Settings,
    caller: PoolManager,
    body: NotificationSettingsIn,
    response: Response,
    if_match: IfMatch = None,
) -> NotificationSettingsOut:
    """Change what is named. With `If-Match`, only if the settings are still those that were read."""
    return _tag(settings.change(caller, body, parse_generation(if_match)), response)


def _tag(found: tuple[NotificationSettingsOut, int], response: Response) -> NotificationSettingsOut:
    response.headers["ETag"] = f'"{found[1]}"'
    return found[0]
