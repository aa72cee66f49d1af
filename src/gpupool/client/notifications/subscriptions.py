"""Subscriptions to messages, their deliveries, and what an admin allows, for programs.

pool.notifications.allow("hooks.example.com")
pool.notifications.add("team", "slack", url, ["job-failed", "promise-moved"], scope="tenant")
for one in pool.notifications.deliveries(state="dead"):
    pool.notifications.retry(one.id)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpupool.client.messages import path_segment
from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from gpupool.client.transport import Api
    from gpupool.wire.notifications import (
        DeliveryOut,
        DeliveryTestOut,
        NotificationSettingsOut,
        SubscriptionOut,
    )


class Notifications:
    """The messages of a pool: iterate over the subscriptions that the caller sees."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __iter__(self) -> Iterator[SubscriptionOut]:
        from gpupool.wire.notifications import SubscriptionOut

        for item in self._api.request("GET", "subscriptions"):
            yield read_answer(SubscriptionOut, item)

    def get(self, name: str, *, user: str | None = None) -> SubscriptionOut:
        """Return a subscription; `user`: whose. Raises UnknownSubscription."""
        from gpupool.wire.notifications import SubscriptionOut

        path = f"subscriptions/{path_segment(name)}"
        return read_answer(SubscriptionOut, self._api.request("GET", path, query={"user": user}))

    def add(
        self,
        name: str,
        kind: str,
        address: str,
        topics: Sequence[str],
        *,
        scope: str = "mine",
        secret: str = "",
        **more: Any,
    ) -> SubscriptionOut:
        """Subscribe a receiver to what happens from now on.

        Args:
            name: its name, for its owner.
            kind: mail, webhook, slack, teams, feishu, dingtalk or wecom.
            address: a mail address or a URL.
            topics: as `gpupool notify add --help` names them.
            scope: mine, tenant or pool.
            secret: signs the messages; is not shown again.
            more: further fields of `SubscriptionIn`, as `language` and `digest_seconds`.

        Raises:
            BadOption, ForbiddenReceiver, NameTaken, NoPermission, TooManySubscriptions.
        """
        from gpupool.wire.notifications import SubscriptionOut

        body = {"name": name, "format": kind, "address": address, "topics": list(topics)}
        body |= {"scope": scope, "secret": secret, **more}
        return read_answer(SubscriptionOut, self._post("subscriptions", body))

    def delete(self, name: str, *, user: str | None = None) -> None:
        """Delete a subscription and its deliveries. Raises UnknownSubscription."""
        path = f"subscriptions/{path_segment(name)}"
        self._api.request("DELETE", path, query={"user": user})

    def test(self, name: str) -> DeliveryTestOut:
        """Send a test message now; blocks until it arrived or failed."""
        from gpupool.wire.notifications import DeliveryTestOut

        path = f"subscriptions/{path_segment(name)}/test"
        return read_answer(DeliveryTestOut, self._api.request("POST", path, {}, timeout=60))

    def deliveries(self, *, state: str | None = None, limit: int = 100) -> list[DeliveryOut]:
        """List deliveries, the newest first; `state`: waiting, sent or dead."""
        from gpupool.wire.notifications import DeliveryOut

        query = {"state": state, "limit": limit}
        found = self._api.request("GET", "deliveries", query=query)
        return [read_answer(DeliveryOut, one) for one in found]

    def retry(self, delivery: str) -> DeliveryOut:
        """Try a dead delivery again, now. Raises UnknownDelivery, DeliveryNotDead."""
        from gpupool.wire.notifications import DeliveryOut

        path = f"deliveries/{path_segment(delivery)}/retry"
        return read_answer(DeliveryOut, self._post(path, {}))

    def settings(self) -> NotificationSettingsOut:
        """Return the hosts that may get messages, and the mail server; for admins."""
        from gpupool.wire.notifications import NotificationSettingsOut

        return read_answer(
            NotificationSettingsOut, self._api.request("GET", "notification-settings")
        )

    def allow(self, host: str, *, private: bool = False, plain: bool = False) -> None:
        """Let messages be sent to a host. Idempotent.

        Raises StaleGeneration where another admin changed the hosts meanwhile.

        Args:
            private: Private and loopback addresses too.
            plain: http too.
        """
        hosts = self._list_hosts(without=host)
        hosts.append({"host": host, "private": private, "plain": plain})
        self._change({"hosts": hosts}, if_match=self._api.etag)

    def deny(self, host: str) -> None:
        """Let messages be sent to a host no more. Idempotent. Raises StaleGeneration."""
        hosts = self._list_hosts(without=host)
        self._change({"hosts": hosts}, if_match=self._api.etag)

    def set_mail_server(self, host: str, sender: str, **more: Any) -> None:
        """Set the server that takes the pool's mails.

        Args:
            more: Further fields of `MailServerIn`: port, security, user, password.
        """
        self._change({"mail": {"host": host, "sender": sender, **more}})

    def _list_hosts(self, *, without: str) -> list[dict[str, Any]]:
        found = self._api.request("GET", "notification-settings")["hosts"]
        return [one for one in found if one["host"] != without]

    def _change(self, body: dict[str, Any], *, if_match: str | None = None) -> None:
        self._api.request("PUT", "notification-settings", body, if_match=if_match)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        # With a key, so that a repetition after a lost answer makes no second one.
        return self._api.request("POST", path, body, idempotency_key=os.urandom(16).hex())
