"""The requests of each format."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gpupool.notifications.formats import Format, Message, build_request, find_refusal

NOW = 1_750_000_000_123_456_789
MESSAGE = Message("d-1", "title", ["a <b> & 作业", "second"], [{"topic": "job-failed"}])
URL = "https://hooks.example/x?key=1"


def built(kind: Format, secret: str = "") -> tuple[Any, Any]:
    request = build_request(kind, URL, secret, MESSAGE, NOW)
    return request, json.loads(request.body)


def test_a_webhook_has_everything_and_a_signature_over_time_and_body() -> None:
    request, body = built(Format.WEBHOOK, "s3cret")
    assert body == {
        "id": "d-1",
        "title": "title",
        "text": "a <b> & 作业\nsecond",
        "items": [{"topic": "job-failed"}],
    }
    signed = b"1750000000." + request.body
    expected = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
    assert request.headers["Gpupool-Signature"] == f"v1={expected}"
    assert request.headers["Gpupool-Delivery"] == "d-1"
    assert "Gpupool-Signature" not in built(Format.WEBHOOK)[0].headers


def test_texts_of_tenants_mention_no_one_in_a_chat() -> None:
    assert built(Format.SLACK)[1]["text"] == "a &lt;b&gt; &amp; 作业\nsecond"
    assert "<" not in built(Format.FEISHU)[1]["content"]["text"]
    assert "<" not in built(Format.WECOM)[1]["text"]["content"]
    assert built(Format.DINGTALK)[1]["at"] == {"isAtAll": False}


def test_texts_of_tenants_make_no_link_in_a_card_of_teams() -> None:
    token = "Token [renew](https://evil.example) expires."
    message = Message("d-1", token, [token], [])
    body = json.loads(build_request(Format.TEAMS, URL, "", message, 0).body)
    (block,) = body["attachments"][0]["content"]["body"]
    assert block["text"] == "Token ［renew](https://evil.example) expires."


def test_each_chat_gets_its_own_shape() -> None:
    blocks = built(Format.TEAMS)[1]["attachments"][0]["content"]["body"]
    assert [one["text"] for one in blocks] == ["a <b> & 作业", "second"]
    assert built(Format.WECOM)[1] == {
        "msgtype": "text",
        "text": {"content": MESSAGE.text.replace("<", "＜")},
    }


def test_a_long_text_ends_between_two_characters_for_wecom() -> None:
    long = Message("d-1", "title", ["作" * 1000], [])
    body = json.loads(build_request(Format.WECOM, URL, "", long, NOW).body)
    assert body["text"]["content"] == "作" * 682


def test_feishu_and_dingtalk_sign_as_they_say() -> None:
    body = built(Format.FEISHU, "k")[1]
    expected = hmac.new(b"1750000000\nk", b"", hashlib.sha256).digest()
    assert (body["timestamp"], base64.b64decode(body["sign"])) == ("1750000000", expected)
    query = parse_qs(urlsplit(built(Format.DINGTALK, "k")[0].url).query)
    expected = hmac.new(b"k", b"1750000000123\nk", hashlib.sha256).digest()
    assert query["key"] == ["1"]
    assert base64.b64decode(query["sign"][0]) == expected


@pytest.mark.parametrize(
    ("kind", "body", "refused"),
    [
        (Format.SLACK, b"ok", False),
        (Format.FEISHU, b'{"code":0,"msg":"success"}', False),
        (Format.FEISHU, b'{"code":19021,"msg":"sign match fail"}', True),
        (Format.DINGTALK, b'{"errcode":310000,"errmsg":"keywords not in content"}', True),
        (Format.WECOM, b'{"errcode":0,"errmsg":"ok"}', False),
        (Format.WECOM, b"<html>", True),
        (Format.WECOM, b"[]", True),
    ],
)
def test_a_refusal_in_an_answer_of_status_200_is_found(
    kind: Format, body: bytes, refused: bool
) -> None:
    assert bool(find_refusal(kind, body)) is refused
