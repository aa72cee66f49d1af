"""How long the certificate of the TLS listeners holds, read from its bytes (X.509, RFC 5280 section 4.1)."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gpupool.base.health import Check, Finding, fail, warn, well

#: Days before its end from which on it is said.
SOON_DAYS: Final = 14
_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def certificate_check(path: Path, now_ns: Callable[[], int]) -> Check:
    """Whether the certificate that is loaded now holds. Reads the file once: a renewed one counts after a restart."""
    begin, end = validity(path.read_text(encoding="ascii", errors="replace"))

    def look() -> Finding:
        now = datetime.fromtimestamp(now_ns() / 1e9, UTC)
        following = f"renew {path}, then  gpupool restart"
        if now >= end:
            return fail(f"{path} expired at {end:%Y-%m-%dT%H:%M:%SZ}: clients refuse it", following)
        if now < begin:
            said = f"{path} does not hold before {begin:%Y-%m-%dT%H:%M:%SZ}: clients refuse it"
            return fail(said, "set the clock right (NTP)")
        days = (end - now).days
        said = f"{path} holds until {end:%Y-%m-%d}, {days} days"
        return warn(said, following) if days < SOON_DAYS else well(said)

    return look


def validity(text: str) -> tuple[datetime, datetime]:
    """From when until when the first certificate of a PEM file holds. Raises ValueError for what is none."""
    begin, end = text.find(_BEGIN), text.find(_END)
    if begin < 0 or end < begin:
        raise ValueError("no certificate in PEM")
    certificate = _inside(ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END)]), _SEQUENCE)
    fields = _parts(_inside(certificate, _SEQUENCE))
    if fields[0][0] == _VERSION:
        fields = fields[1:]
    # serial number, signature, issuer, validity
    (begin_tag, begin_text), (end_tag, end_text) = _parts(fields[3][1])
    return _instant(begin_tag, begin_text), _instant(end_tag, end_text)


def _inside(data: bytes, tag: int) -> bytes:
    found = _parts(data)
    if not found or found[0][0] != tag:
        raise ValueError(f"no value with tag {tag:#x} where one belongs")
    return found[0][1]


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """The values of a DER sequence, with their tags. Raises ValueError where one is cut off."""
    found = []
    at = 0
    while at + 2 <= len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(data[at : at + width], "big")
            at += width
        if at + size > len(data):
            raise ValueError("a value is cut off")
        found.append((tag, data[at : at + size]))
        at += size
    return found


def _instant(tag: int, text: bytes) -> datetime:
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii"), form).replace(tzinfo=UTC)
