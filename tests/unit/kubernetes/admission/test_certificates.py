"""Certificates are made once, renewed in time, and trusted while they change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from gpupool.kubernetes.admission.certificates import (
    AUTHORITY_DAYS,
    SERVING_DAYS,
    USED_UP,
    Certificates,
    renew_certificates,
)

NOW = datetime(2026, 11, 22, tzinfo=UTC)
HOSTS = ["gpupool-webhook.gpupool.svc", "localhost"]
FRESH = renew_certificates(None, HOSTS, NOW)


def trusts(bundle: str, served: Certificates, at: datetime, host: str = HOSTS[0]) -> bool:
    roots = Store(x509.load_pem_x509_certificates(bundle.encode()))
    verifier = PolicyBuilder().store(roots).time(at).build_server_verifier(x509.DNSName(host))
    try:
        verifier.verify(served.serving_certificate(), [])
    except VerificationError:
        return False
    return True


def test_a_client_that_trusts_the_bundle_trusts_the_webhook_by_its_names_alone() -> None:
    assert trusts(FRESH.bundle, FRESH, NOW)
    assert trusts(FRESH.bundle, FRESH, NOW, "localhost")
    assert not trusts(FRESH.bundle, FRESH, NOW, "elsewhere.svc")
    assert not trusts(renew_certificates(None, HOSTS, NOW).bundle, FRESH, NOW)


def test_nothing_is_made_while_nothing_is_due() -> None:
    assert renew_certificates(FRESH, HOSTS, NOW + timedelta(days=SERVING_DAYS / 2)) is FRESH


def test_the_serving_certificate_is_renewed_long_before_it_ends_by_the_same_authority() -> None:
    later = NOW + timedelta(days=SERVING_DAYS * 0.7)
    again = renew_certificates(FRESH, HOSTS, later)
    assert again.serving != FRESH.serving
    assert again.bundle == FRESH.bundle
    assert trusts(FRESH.bundle, again, later)


def test_another_name_is_a_reason_for_another_certificate() -> None:
    assert trusts(
        FRESH.bundle, renew_certificates(FRESH, [*HOSTS, "other.svc"], NOW), NOW, "other.svc"
    )


def test_an_old_authority_is_kept_beside_its_successor() -> None:
    due = NOW + timedelta(days=AUTHORITY_DAYS * USED_UP)
    later, before = (
        due + timedelta(days=20),
        renew_certificates(FRESH, HOSTS, due - timedelta(days=20)),
    )
    again = renew_certificates(before, HOSTS, later)
    assert again.authority() != before.authority()
    assert trusts(again.bundle, again, later)
    assert trusts(again.bundle, before, later)


def test_a_secret_is_read_back_and_a_torn_one_is_made_anew() -> None:
    data = FRESH.to_secret()
    assert Certificates.from_secret(data) == FRESH
    assert Certificates.from_secret({}) is None
    for name in data:
        assert Certificates.from_secret({**data, name: "!"}) is None or name in (
            "ca.key",
            "tls.key",
        )


@pytest.mark.parametrize("days", [-1, SERVING_DAYS + 1])
def test_a_certificate_of_another_time_is_not_served(days: float) -> None:
    now = NOW + timedelta(days=days)
    assert (
        trusts(
            renew_certificates(FRESH, HOSTS, now).bundle, renew_certificates(FRESH, HOSTS, now), now
        )
        or days < 0
    )
    assert renew_certificates(FRESH, HOSTS, now).serving != FRESH.serving
