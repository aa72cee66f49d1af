"""The webhook's certificates: an authority of our own and a serving certificate, made, renewed and
kept by us.

They live in a Secret that only the webhook's account may read. Whichever replica finds them missing
or two thirds old writes new ones, naming the version it read; of two that write one is refused and
reads what the other wrote. An authority is kept beside its successor, so that what was signed by
either is trusted while replicas change over.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
SERVING_DAYS = 90
#: Of its life, after which a certificate is renewed.
USED_UP = 2 / 3
CA = "ca.crt"
KEY = "ca.key"
CERTIFICATE = "tls.crt"
SERVING_KEY = "tls.key"


@dataclass(frozen=True)
class Certificates:
    """PEM texts. `bundle` is what to trust: the authority, and the one before it where it is still
    in use."""

    bundle: str
    authority_key: str
    serving: str
    serving_key: str

    def to_secret(self) -> dict[str, str]:
        """`data` of a Secret."""
        parts = {
            CA: self.bundle,
            KEY: self.authority_key,
            CERTIFICATE: self.serving,
            SERVING_KEY: self.serving_key,
        }
        return {name: base64.b64encode(text.encode()).decode() for name, text in parts.items()}

    @classmethod
    def from_secret(cls, data: dict[str, str]) -> Certificates | None:
        """None where something is missing or cannot be read: new ones are made then."""
        try:
            texts = []
            for name in (CA, KEY, CERTIFICATE, SERVING_KEY):
                texts.append(base64.b64decode(data[name]).decode())
            found = cls(*texts)
            found.authority()
            found.serving_certificate()
        except (KeyError, ValueError):
            return None
        return found

    def authority(self) -> x509.Certificate:
        """Return the authority that signs now."""
        return x509.load_pem_x509_certificates(self.bundle.encode())[0]

    def serving_certificate(self) -> x509.Certificate:
        """Return the certificate that the webhook serves."""
        return x509.load_pem_x509_certificate(self.serving.encode())


def renew_certificates(
    known: Certificates | None, hosts: Sequence[str], now: datetime
) -> Certificates:
    """The same where nothing is due, else with what is due made anew."""
    if known is None or is_renewal_due(known.authority(), now):
        return _new_authority(known, hosts, now)
    if is_renewal_due(known.serving_certificate(), now) or not _names(
        known.serving_certificate()
    ) >= set(hosts):
        key = serialization.load_pem_private_key(known.authority_key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        serving, serving_key = _serving(known.authority(), key, hosts, now)
        return Certificates(known.bundle, known.authority_key, serving, serving_key)
    return known


def _new_authority(known: Certificates | None, hosts: Sequence[str], now: datetime) -> Certificates:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpupool admission")])
    made = (
        _begun(name, name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    serving, serving_key = _serving(made, key, hosts, now)
    before = (
        _pem(known.authority()) if known and known.authority().not_valid_after_utc > now else ""
    )
    return Certificates(_pem(made) + before, _key_pem(key), serving, serving_key)


def _serving(
    authority: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    now: datetime,
) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    made = (
        _begun(authority.subject, name, key.public_key(), now, SERVING_DAYS)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _pem(made), _key_pem(key)


def _begun(
    issuer: x509.Name, subject: x509.Name, key: Any, now: datetime, days: int
) -> x509.CertificateBuilder:
    """Valid from an hour ago: clocks of machines differ."""
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    """For signing certificates, or for serving by one."""
    others = (
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "encipher_only",
    )
    none = dict.fromkeys((*others, "decipher_only"), False)
    return x509.KeyUsage(digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, **none)


def is_renewal_due(certificate: x509.Certificate, now: datetime) -> bool:
    begin = certificate.not_valid_before_utc
    end = certificate.not_valid_after_utc
    return now < begin or now - begin >= USED_UP * (end - begin)


def _names(certificate: x509.Certificate) -> set[str]:
    said = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(said.get_values_for_type(x509.DNSName))


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    ).decode()
