"""The requests that each kind of receiver takes. Pure.

Sources of the wire formats: Slack, "Sending messages using incoming webhooks"; Microsoft Teams,
"Create incoming webhooks with Workflows" and Adaptive Cards 1.4; Feishu, "custom bot" (signature:
the HMAC of an empty text, keyed by `timestamp\\nsecret`); DingTalk, "custom robot" (the HMAC of
`timestamp\\nsecret`, keyed by the secret, in the query); WeCom, "group robot". The signature of the
generic webhook is ours.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

from gpupool.notifications.timing import NANOS

_MOST_WECOM_BYTES: Final = 2048


class Format(StrEnum):
    MAIL = "mail"
    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    FEISHU = "feishu"
    DINGTALK = "dingtalk"
    WECOM = "wecom"


#: Bytes of all sentences of a message at most, with `LINE_BYTES` for each; the others have no
#: limit. WeCom takes 2,048 bytes of text. Of whole requests Feishu and DingTalk take 20,000, Teams
#: 28 KB; Slack takes 40,000 characters, which its entities may make of fewer.
MOST_TEXT_BYTES: Final[Mapping[Format, int]] = {
    Format.WECOM: _MOST_WECOM_BYTES,
    Format.FEISHU: 16_000,
    Format.DINGTALK: 16_000,
    Format.TEAMS: 16_000,
    Format.SLACK: 16_000,
}
#: What a sentence needs beside its text, at most: a block of a Teams card.
LINE_BYTES: Final = 48


@dataclass(frozen=True)
class Message:
    """What is sent at once to one subscription.

    Attributes:
        key: The same at every attempt, so that a receiver can drop a repetition.
        items: One object for each occurrence, for programs.
    """

    key: str
    title: str
    sentences: Sequence[str]
    items: Sequence[Mapping[str, Any]]

    @property
    def text(self) -> str:
        return "\n".join(self.sentences)


@dataclass(frozen=True)
class HookRequest:
    """A POST request with a body of JSON."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def build_request(
    kind: Format, url: str, secret: str, message: Message, now_ns: int
) -> HookRequest:
    """Build the request that carries a message.

    Args:
        kind: Any but mail.
        secret: Signs the request where the format has a signature; empty: none.
    """
    if kind is Format.WEBHOOK:
        return _build_webhook(url, secret, message, now_ns)
    if kind is Format.DINGTALK and secret:
        url = _sign_dingtalk(url, secret, now_ns)
    content = _BODIES[kind](message)
    if kind is Format.FEISHU and secret:
        content |= _sign_feishu(secret, now_ns)
    return HookRequest(url, _encode(content), {"Gpupool-Delivery": message.key})


def _build_webhook(url: str, secret: str, message: Message, now_ns: int) -> HookRequest:
    content = {"id": message.key, "title": message.title, "text": message.text}
    body = _encode(content | {"items": list(message.items)})
    headers = {"Gpupool-Delivery": message.key, "Gpupool-Timestamp": f"{now_ns // NANOS}"}
    if secret:
        # With the time, so that an old request cannot be sent again.
        signed = headers["Gpupool-Timestamp"].encode() + b"." + body
        digest = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        headers["Gpupool-Signature"] = f"v1={digest}"
    return HookRequest(url, body, headers)


def _write_slack(message: Message) -> dict[str, Any]:
    text = message.text
    # Slack's own three; so a name cannot mention people or make a link.
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, entity)
    return {"text": text}


def _write_teams(message: Message) -> dict[str, Any]:
    # A card reads Markdown, and `[text](address)` would be a link.
    texts = [one.replace("[", "［") for one in message.sentences]
    blocks = [{"type": "TextBlock", "text": one, "wrap": True} for one in texts]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _write_feishu(message: Message) -> dict[str, Any]:
    # In its texts `<at …>` mentions people.
    text = message.text.replace("<", "＜")
    return {"msg_type": "text", "content": {"text": text}}


def _write_dingtalk(message: Message) -> dict[str, Any]:
    return {"msgtype": "text", "text": {"content": message.text}, "at": {"isAtAll": False}}


def _write_wecom(message: Message) -> dict[str, Any]:
    # As in Feishu: `<@user>` mentions people.
    text = message.text.replace("<", "＜")
    text = text.encode()[:_MOST_WECOM_BYTES].decode(errors="ignore")
    return {"msgtype": "text", "text": {"content": text}}


_BODIES: Final = {
    Format.SLACK: _write_slack,
    Format.TEAMS: _write_teams,
    Format.FEISHU: _write_feishu,
    Format.DINGTALK: _write_dingtalk,
    Format.WECOM: _write_wecom,
}


def _sign_feishu(secret: str, now_ns: int) -> dict[str, str]:
    seconds = f"{now_ns // NANOS}"
    digest = hmac.new(f"{seconds}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": seconds, "sign": base64.b64encode(digest).decode()}


def _sign_dingtalk(url: str, secret: str, now_ns: int) -> str:
    milliseconds = f"{now_ns // 1_000_000}"
    digest = hmac.new(
        secret.encode(), f"{milliseconds}\n{secret}".encode(), hashlib.sha256
    ).digest()
    sign = quote(base64.b64encode(digest).decode(), safe="")
    return f"{url}{'&' if '?' in url else '?'}timestamp={milliseconds}&sign={sign}"


def find_refusal(kind: Format, body: bytes) -> str:
    """Return what a receiver says in an answer of status 200 that it refused; empty: nothing.

    Feishu answers `code`, DingTalk and WeCom `errcode`, all of them 0 when it is well.
    """
    if kind not in (Format.FEISHU, Format.DINGTALK, Format.WECOM):
        return ""
    try:
        answer = json.loads(body)
    except ValueError:
        return "the answer is no JSON"
    if not isinstance(answer, dict):
        return "the answer is no object"
    code = answer.get("code", answer.get("errcode", 0))
    said = str(answer.get("msg", answer.get("errmsg", "")))[:200]
    return f"code {code}: {said}" if code else ""


def _encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
