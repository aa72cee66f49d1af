"""Reads from a certificate's bytes how long it holds (X.509, RFC 5280 section 4.1).

The standard library reads one only through a connection, and no dependency is taken for it.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

#: Tags of DER, ITU-T X.690: SEQUENCE, the version's [0], UTCTime.
_SEQUENCE = 0x30
_VERSION = 0xA0
_UTC_TIME = 0x17
_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"


def read_validity(text: str) -> tuple[datetime, datetime]:
    """Return from when until when the first certificate of a PEM file holds.

    Raises:
        ValueError: It is no certificate.
    """
    begin = text.find(_BEGIN)
    end = text.find(_END)
    if begin < 0 or end < begin:
        raise ValueError("no certificate in PEM")
    certificate = _unwrap_value(ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END)]), _SEQUENCE)
    fields = _split_values(_unwrap_value(certificate, _SEQUENCE))
    if fields[0][0] == _VERSION:
        fields = fields[1:]
    # serial number, signature, issuer, validity
    (begin_tag, begin_text), (end_tag, end_text) = _split_values(fields[3][1])
    return _parse_instant(begin_tag, begin_text), _parse_instant(end_tag, end_text)


def _unwrap_value(data: bytes, tag: int) -> bytes:
    found = _split_values(data)
    if not found or found[0][0] != tag:
        raise ValueError(f"no value with tag {tag:#x} where one belongs")
    return found[0][1]


def _split_values(data: bytes) -> list[tuple[int, bytes]]:
    """Return the values of a DER sequence, with their tags. Raises ValueError for a cut one."""
    found = []
    at = 0
    while at + 2 <= len(data):
        tag = data[at]
        size = data[at + 1]
        at += 2
        # The long form: the low bits say how many bytes hold the size.
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(data[at : at + width], "big")
            at += width
        if at + size > len(data):
            raise ValueError("a value is cut off")
        found.append((tag, data[at : at + size]))
        at += size
    return found


def _parse_instant(tag: int, text: bytes) -> datetime:
    # UTCTime has two digits of the year, GeneralizedTime four (RFC 5280, 4.1.2.5).
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii"), form).replace(tzinfo=UTC)
