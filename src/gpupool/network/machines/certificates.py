"""Certificates of the engine's machines: what is issued by which authority, and when. Pure but for
random keys.

Rotation needs no step by hand. A new authority is trusted by all machines for as long as a
certificate lives before it issues one, so no machine meets a certificate that it does not trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.units import NANOS_PER_SECOND

_DAY_NS: Final = 86_400 * NANOS_PER_SECOND
#: Life of an authority, and before its end the time at which its successor is made.
AUTHORITY_NS: Final = 5 * 365 * _DAY_NS
SUCCESSOR_NS: Final = 365 * _DAY_NS
#: Life of a machine's certificate. OVSDB servers read no revocation lists, so it is short.
MACHINE_NS: Final = 30 * _DAY_NS
#: After this part of its life a certificate is renewed.
RENEWAL_NS: Final = 20 * _DAY_NS
#: Clocks of machines differ: a certificate is valid from so long before its issue.
_CLOCKS_NS: Final = _DAY_NS


@dataclass(frozen=True)
class Authority:
    """An authority: its certificate and key (PEM), and when it was made and ends."""

    certificate: str
    private_key: str
    created_ns: int
    expires_ns: int


@dataclass(frozen=True)
class MachineCertificate:
    """A machine's certificate and key (PEM), and when the next one is issued."""

    certificate: str
    private_key: str
    renew_ns: int


def make_authority(pool: str, now_ns: int) -> Authority:
    """Make an authority with a new key. Raises NetworkingUnavailable without the library."""
    library = _import_library()
    key = library.ec.generate_private_key(library.ec.SECP256R1())
    name = f"gpupool networks of {pool}"[:64]
    expires_ns = now_ns + AUTHORITY_NS
    builder = _begin(library, name, key.public_key(), now_ns, expires_ns)
    builder = builder.issuer_name(_make_name(library, name))
    builder = builder.add_extension(
        library.x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    builder = builder.add_extension(_make_usage(library, signs_certificates=True), critical=True)
    builder = builder.add_extension(
        library.x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    signed = builder.sign(key, library.hashes.SHA256())
    return Authority(_write(library, signed), _write_key(library, key), now_ns, expires_ns)


def issue_certificate(authority: Authority, machine: str, now_ns: int) -> MachineCertificate:
    """Issue a certificate with a new key to a machine."""
    library = _import_library()
    issuer_key = library.serialization.load_pem_private_key(
        authority.private_key.encode(), password=None
    )
    issuer = library.x509.load_pem_x509_certificate(authority.certificate.encode())
    key = library.ec.generate_private_key(library.ec.SECP256R1())
    expires_ns = min(now_ns + MACHINE_NS, authority.expires_ns)
    builder = _begin(library, machine[:64], key.public_key(), now_ns, expires_ns)
    builder = builder.issuer_name(issuer.subject)
    builder = builder.add_extension(
        library.x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_make_usage(library, signs_certificates=False), critical=True)
    builder = builder.add_extension(
        library.x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
        critical=False,
    )
    signed = builder.sign(issuer_key, library.hashes.SHA256())
    return MachineCertificate(
        _write(library, signed), _write_key(library, key), now_ns + RENEWAL_NS
    )


def is_successor_due(authorities: Sequence[Authority], now_ns: int) -> bool:
    """Whether the newest authority ends soon, or there is none."""
    newest = max((one.expires_ns for one in authorities), default=0)
    return newest - now_ns < SUCCESSOR_NS


def choose_issuer(authorities: Sequence[Authority], now_ns: int) -> Authority:
    """Choose the newest authority that every machine trusts by now; there must be one.

    One that ends before a certificate of its would is left from a pool that was long without
    networks; its successor issues at once.
    """
    known = sorted(authorities, key=lambda one: one.created_ns)
    living = [one for one in known if one.expires_ns - now_ns >= MACHINE_NS] or known[-1:]
    trusted = [one for one in living if now_ns - one.created_ns >= MACHINE_NS]
    return trusted[-1] if trusted else living[0]


def join_trusted(authorities: Sequence[Authority], now_ns: int) -> str:
    """Return the certificates of all authorities that have not ended, the oldest first."""
    known = sorted(authorities, key=lambda one: one.created_ns)
    return "".join(one.certificate for one in known if one.expires_ns > now_ns)


class _Library:
    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        self.x509 = x509
        self.hashes = hashes
        self.serialization = serialization
        self.ec = ec


def _import_library() -> _Library:
    try:
        return _Library()
    except ImportError as error:
        raise NetworkingUnavailable(
            f"networks over several machines need certificates: {error}",
            hint="pip install 'gpupool[network]'",
        ) from error


def _make_usage(library: _Library, *, signs_certificates: bool) -> Any:
    return library.x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _make_name(library: _Library, name: str) -> Any:
    common_name = library.x509.oid.NameOID.COMMON_NAME
    return library.x509.Name([library.x509.NameAttribute(common_name, name)])


def _begin(library: _Library, name: str, key: Any, now_ns: int, expires_ns: int) -> Any:
    x509 = library.x509
    return (
        x509.CertificateBuilder()
        .subject_name(_make_name(library, name))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_read_instant(now_ns - _CLOCKS_NS))
        .not_valid_after(_read_instant(expires_ns))
    )


def _read_instant(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns // NANOS_PER_SECOND, UTC)


def _write(library: _Library, certificate: Any) -> str:
    text: bytes = certificate.public_bytes(library.serialization.Encoding.PEM)
    return text.decode()


def _write_key(library: _Library, key: Any) -> str:
    text: bytes = key.private_bytes(
        library.serialization.Encoding.PEM,
        library.serialization.PrivateFormat.PKCS8,
        library.serialization.NoEncryption(),
    )
    return text.decode()
