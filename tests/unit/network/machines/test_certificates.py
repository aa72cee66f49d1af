"""Certificates: which authority issues when, and that a stranger to the code agrees (OpenSSL)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from gpupool.network.machines.certificates import (
    AUTHORITY_NS,
    MACHINE_NS,
    RENEWAL_NS,
    SUCCESSOR_NS,
    Authority,
    choose_issuer,
    is_successor_due,
    issue_certificate,
    join_trusted,
    make_authority,
)

NOW = 1_800_000_000_000_000_000


def make_text_authority(name: str, created_ns: int) -> Authority:
    return Authority(name, f"key of {name}", created_ns, created_ns + AUTHORITY_NS)


def test_the_first_authority_issues_at_once() -> None:
    first = make_text_authority("first", NOW)
    assert is_successor_due([], NOW)
    assert not is_successor_due([first], NOW)
    assert choose_issuer([first], NOW) == first


def test_a_successor_issues_once_every_machine_has_had_to_renew() -> None:
    first = make_text_authority("first", NOW)
    later = NOW + AUTHORITY_NS - SUCCESSOR_NS + 1
    assert is_successor_due([first], later)
    second = make_text_authority("second", later)
    assert not is_successor_due([first, second], later)
    # A machine that renewed just before learns of it with its next certificate.
    for since in (0, RENEWAL_NS, MACHINE_NS - 1):
        assert choose_issuer([first, second], later + since) == first
        assert join_trusted([first, second], later + since) == "firstsecond"
    assert choose_issuer([first, second], later + MACHINE_NS) == second
    # Nothing that the first one has issued lives on when it is no longer trusted.
    last_issue = later + MACHINE_NS
    assert last_issue + MACHINE_NS < first.expires_ns
    assert join_trusted([first, second], first.expires_ns) == "second"


@pytest.mark.parametrize("left_ns", [-SUCCESSOR_NS, 0, MACHINE_NS - 1])
def test_an_authority_that_ends_before_its_certificates_issues_none(left_ns: int) -> None:
    # Networks were off for years, and no certificate was renewed in time.
    old = make_authority("pool", NOW + left_ns - AUTHORITY_NS)
    assert is_successor_due([old], NOW)
    new = make_authority("pool", NOW)
    issuer = choose_issuer([old, new], NOW)
    made = issue_certificate(issuer, "node-1", NOW)
    assert issuer == new
    assert made.renew_ns < issuer.expires_ns


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_trusts_a_certificate_of_its_authority_and_of_no_other(tmp_path: Path) -> None:
    own = make_authority("pool", NOW)
    other = make_authority("pool", NOW)
    issued = issue_certificate(own, "a-machine-with-a-name-of-many-letters" * 3, NOW)
    assert issued.renew_ns == NOW + RENEWAL_NS
    (tmp_path / "leaf.pem").write_text(issued.certificate)

    def verify(trusted: str, at_ns: int) -> bool:
        (tmp_path / "trusted.pem").write_text(trusted)
        words = ["openssl", "verify", "-attime", str(at_ns // 10**9), "-x509_strict"]
        words += ["-CAfile", str(tmp_path / "trusted.pem"), str(tmp_path / "leaf.pem")]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    assert verify(own.certificate, NOW)
    assert verify(other.certificate + own.certificate, NOW)
    assert not verify(other.certificate, NOW)
    assert not verify(own.certificate, NOW + MACHINE_NS + 10**9)
