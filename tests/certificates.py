"""Certificates for tests: a private CA, and certificates of servers that it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PLAIN = serialization.NoEncryption()


def _pem(
    key: ec.EllipticCurvePrivateKey, protection: serialization.KeySerializationEncryption = PLAIN
) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, protection)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(subject))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=10))
    )


@dataclass
class Authority:
    """A CA; its certificate is in `file`."""

    file: Path
    key: ec.EllipticCurvePrivateKey

    @staticmethod
    def create(folder: Path) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        basic = x509.BasicConstraints(ca=True, path_length=0)
        made = _builder("test CA", "test CA", key).add_extension(basic, critical=True)
        file = folder / "ca.pem"
        file.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return Authority(file, key)

    def issue(self, cert: Path, key: Path, name: str = "127.0.0.1") -> int:
        """Write a certificate for a name or address and its key, each by a rename; returns the serial number."""
        own = ec.generate_private_key(ec.SECP256R1())
        try:
            general: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            general = x509.DNSName(name)
        alternative = x509.SubjectAlternativeName([general])
        made = _builder(name, "test CA", own).add_extension(alternative, critical=False)
        signed = made.sign(self.key, hashes.SHA256())
        for path, content in ((key, _pem(own)), (cert, signed.public_bytes(serialization.Encoding.PEM))):
            draft = path.with_suffix(".new")
            draft.write_bytes(content)
            draft.replace(path)
        return signed.serial_number


def encrypted_key() -> bytes:
    """A key with a password."""
    return _pem(ec.generate_private_key(ec.SECP256R1()), serialization.BestAvailableEncryption(b"secret"))
