"""A certificate authority of our own, and a certificate for 127.0.0.1."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def loopback() -> tuple[ssl.SSLContext, str]:
    """A server context, and the CA's certificate as kubeconfigs hold it: PEM in base64."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulator")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    span = (now - datetime.timedelta(hours=1), now + datetime.timedelta(days=30))

    def builder(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(public)
        return (
            made.serial_number(x509.random_serial_number()).not_valid_before(span[0]).not_valid_after(span[1])
        )

    identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    ca = (
        builder(issuer, ca_key.public_key())
        .add_extension(x509.BasicConstraints(True, None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        builder(subject, key.public_key())
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.pem"
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path.write_bytes(private + certificate.public_bytes(pem))
        context.load_cert_chain(path)
    return context, base64.b64encode(ca.public_bytes(pem)).decode()
