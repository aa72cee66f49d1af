"""The doctor says how long the webhook's certificate is good."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

from gpupool.kubernetes.plugin import certificate

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_a_certificate_has_days_left_or_has_run_out() -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    made = (
        x509.CertificateBuilder()
        .issuer_name(name)
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(1)
    )
    made = made.not_valid_before(NOW).not_valid_after(NOW + timedelta(days=90))
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    secret = {"data": {"tls.crt": base64.b64encode(pem).decode()}}
    at = [certificate.check_certificate(secret, NOW + timedelta(days=days)) for days in (0, 85, 91)]
    assert [one["state"] for one in at] == ["ok", "warn", "fail"]
    assert at[0]["text"] == "good until 2027-02-20, 90 days"
    assert certificate.check_certificate({"data": {}}, NOW)["state"] == "fail"
