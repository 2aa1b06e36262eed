"""Certificates for tests of TLS, made on the spot."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority; its certificate is `ca.pem` in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Test authority")
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        constraints = x509.BasicConstraints(True, None)
        self.file = self._write("ca", self._sign(self._name, self._key, constraints, usage))

    def issue(self, common_name: str, *hosts: str) -> tuple[Path, Path]:
        """The files of a certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(each) for each in hosts or (common_name,)])
        certificate = self._sign(_name(common_name), key, x509.BasicConstraints(False, None), names)
        key_file = self._folder / f"{common_name}.key"
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
        return self._write(common_name, certificate), key_file

    def _sign(self, subject: x509.Name, key: Any, *extensions: Any) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - day).not_valid_after(now + day)
        # What RFC 5280 demands and Python 3.13 insists on.
        identifiers = (
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        )
        for each in (*extensions, *identifiers):
            builder = builder.add_extension(each, critical=isinstance(each, x509.BasicConstraints | x509.KeyUsage))
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate) -> Path:
        path = self._folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
