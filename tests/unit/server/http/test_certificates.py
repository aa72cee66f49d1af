"""How long a certificate holds, read from its bytes, and what is said before and after."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpupool.base.certificate_dates import read_validity
from gpupool.server.http.certificates import certificate_check
from tests.e2e.test_cli_tls import certificate

NS = 10**9
DAY = 86_400


def told(text: str) -> datetime:
    """`notAfter=Nov 24 13:00:00 2026 GMT`, as openssl writes it."""
    return datetime.strptime(text.partition("=")[2].strip(), "%b %d %H:%M:%S %Y GMT").replace(
        tzinfo=UTC
    )


def test_a_validity_is_what_openssl_reads(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path)
    command = ["openssl", "x509", "-in", str(cert), "-noout", "-startdate", "-enddate"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert read_validity(cert.read_text()) == (told(lines[0]), told(lines[1]))


@pytest.mark.parametrize(
    "text", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"]
)
def test_a_text_without_a_certificate_has_no_validity(text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        read_validity(text)


@pytest.mark.parametrize(
    ("days", "state", "words"),
    [(0, "warn", "holds until"), (2, "fail", "expired at"), (-2, "fail", "does not hold before")],
)
def test_a_certificate_is_judged_by_the_clock(
    tmp_path: Path, days: int, state: str, words: str
) -> None:
    cert, _ = certificate(tmp_path)
    _, end = read_validity(cert.read_text())
    now = (int(end.timestamp()) - DAY + days * DAY) * NS
    found = certificate_check(cert, lambda: now)()
    assert (found.state, words in found.text) == (state, True), found
    assert found.following
