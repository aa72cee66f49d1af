"""The rig's own certificate authority, and what it signs."""

import base64
import datetime
import ipaddress
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.cluster.directory import Directory

LIFETIME = datetime.timedelta(days=30)
CLOCK_SLACK = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


class Authority:
    """Everything is made once and found again; a pair without its certificate was cut short and is
    made anew."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.folder = directory / "pki"

    @property
    def root(self) -> Pair:
        pair = self._pair("ca")
        if not pair.certificate.exists():
            key = self._new_key(pair.key)
            self._write(pair.certificate, _root_certificate(key))
        return pair

    def issue(
        self, file: str, common_name: str, organization: str = "", names: Sequence[str] = ()
    ) -> Pair:
        """A certificate for client and server use. `names` are DNS names and addresses."""
        root, pair = self.root, self._pair(file)
        if not pair.certificate.exists():
            key = self._new_key(pair.key)
            signer = _load_key(root.key)
            issuer = x509.load_pem_x509_certificate(root.certificate.read_bytes()).subject
            self._write(
                pair.certificate,
                _leaf_certificate(key, _name(common_name, organization), names, issuer, signer),
            )
        return pair

    def service_account_key(self) -> Pair:
        """The key that signs service account tokens; `certificate` is its public half."""
        pair = self._pair("service-account")
        if not pair.certificate.exists():
            public = self._new_key(pair.key).public_key()
            form = serialization.PublicFormat.SubjectPublicKeyInfo
            self._write(pair.certificate, public.public_bytes(serialization.Encoding.PEM, form))
        return pair

    def kubeconfig(self, file: str, common_name: str, organization: str = "") -> Path:
        pair = self.issue(file, common_name, organization)
        user = {
            "client-certificate-data": _encoded(pair.certificate),
            "client-key-data": _encoded(pair.key),
        }
        return self.kubeconfig_of(file, user)

    def kubeconfig_of(self, file: str, user: Mapping[str, Any]) -> Path:
        """A kubeconfig for credentials of any kind: a certificate, `{"token": …}`, or `{"exec":
        …}`."""
        server = f"https://127.0.0.1:{self._directory.port('api')}"
        cluster = {"server": server, "certificate-authority-data": _encoded(self.root.certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rig",
            "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": file, "user": user}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": file}}],
        }
        path = self._directory / f"{file}.kubeconfig"
        self._write(path, json.dumps(content, indent=1).encode())
        return path

    def _pair(self, file: str) -> Pair:
        return Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")

    def _new_key(self, path: Path) -> ec.EllipticCurvePrivateKey:
        key = ec.generate_private_key(ec.SECP256R1())
        pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        self._write(path, key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
        return key

    def _write(self, path: Path, content: bytes) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_bytes(content)
        os.chmod(new, 0o600)
        new.replace(path)


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _name(common_name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _root_certificate(key: ec.EllipticCurvePrivateKey) -> bytes:
    name = _name("gpupool-cluster-ca")
    builder = _builder(name, name, key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    usage = _usage(signs_certificates=True)
    return _signed(builder.add_extension(usage, critical=True), key)


def _leaf_certificate(
    key: ec.EllipticCurvePrivateKey,
    subject: x509.Name,
    names: Sequence[str],
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
) -> bytes:
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
    builder = _builder(subject, issuer, key).add_extension(uses, critical=False)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    if names:
        alternative = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternative, critical=False)
    return _signed(builder, signer)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
