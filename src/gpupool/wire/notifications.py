"""Bodies and answers about subscriptions to messages, their deliveries, and what an admin allows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

FormatName = Literal["mail", "webhook", "slack", "teams", "feishu", "dingtalk", "wecom"]
TopicName = Literal[
    "job-ended",
    "job-failed",
    "job-requeued",
    "job-idle",
    "job-handed-over",
    "job-advised",
    "job-waiting",
    "budget-crossed",
    "card-failed",
    "node-silent",
    "reservation-ended",
    "job-placed",
    "job-started",
    "job-retried",
    "job-moved",
    "promise-moved",
    "schedule-paused",
    "schedule-failed",
    "token-expiring",
    "reservation-begins",
]
ScopeName = Literal["mine", "tenant", "pool"]


class SubscriptionIn(WireModel):
    """A receiver and what it is to hear of."""

    name: Name
    format: FormatName
    address: str = Field(min_length=3, max_length=1000, description="a URL, or a mail address")
    secret: str = Field("", max_length=200, description="signs messages; is not shown again")
    topics: list[TopicName] = Field(min_length=1, max_length=40)
    scope: ScopeName = Field(
        "mine", description="of one's own jobs; `tenant` is for its admins, `pool` for the pool's"
    )
    waiting_seconds: int = Field(
        1800, ge=60, le=30 * 86400, description="how long a job waits before `job-waiting`"
    )
    language: Literal["en", "zh"] = "en"
    quiet_hours: str = Field("", max_length=11, description="as 22:00-07:00: sent at their end")
    time_zone: str = Field("UTC", max_length=64)
    digest_seconds: int = Field(
        0, ge=0, le=7 * 86400, description="messages of so many seconds come as one; 0: at once"
    )


class SubscriptionOut(WireModel):
    """`address` of a chat's webhook is shown without its path, which is a secret."""

    name: str
    user: str
    tenant: str
    format: FormatName
    address: str
    signed: bool
    topics: list[TopicName]
    scope: ScopeName
    waiting_seconds: int
    language: str
    quiet_hours: str
    time_zone: str
    digest_seconds: int
    waiting: int = Field(description="messages that are still to be sent")
    dead: int = Field(description="messages that are not tried any more")
    created_ns: int


class DeliveryOut(WireModel):
    """One message to one receiver."""

    id: str
    subscription: str
    user: str
    topic: TopicName
    subject: str
    data: dict[str, Any]
    at_ns: int
    state: Literal["waiting", "sent", "dead"]
    due_ns: int = Field(description="when it is tried next")
    attempts: int
    error: str
    ended_ns: int | None


class DeliveryTestOut(WireModel):
    """What became of a test message."""

    delivered: bool
    error: str = ""


class AllowedHost(WireModel):
    """A host that messages may be sent to."""

    host: str = Field(
        min_length=1,
        max_length=253,
        pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:]+)$",
        description="name or address as in the URL, in small letters",
    )
    private: bool = Field(False, description="private and loopback addresses too")
    plain: bool = Field(False, description="http too")


class MailServerIn(WireModel):
    """The server that takes the pool's mails."""

    host: str = Field(min_length=1, max_length=253)
    port: int = Field(587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    sender: str = Field(min_length=3, max_length=254, pattern=r"^[!-~]+@[!-~]+$")
    user: str = Field("", max_length=254)
    password: str | None = Field(
        None, max_length=254, description="null: the one that is kept, of the same host and user"
    )


class NotificationSettingsIn(WireModel):
    """What is left out stays as it is."""

    hosts: list[AllowedHost] | None = Field(None, max_length=200)
    mail: MailServerIn | None = None


class MailServerOut(WireModel):
    host: str
    port: int
    security: str
    sender: str
    user: str
    has_password: bool


class NotificationSettingsOut(WireModel):
    hosts: list[AllowedHost]
    mail: MailServerOut | None
