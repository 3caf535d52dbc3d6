"""Who is who on the wire: a study's own certificate authority, the server's certificate, and the nodes' keys.

The authority signs one certificate and is then only needed to renew it. Sites get the authority's certificate with the
invitation and trust no other. So they do not talk to a server without a certificate of this study.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedspca.files import new_file

CURVE = ec.SECP384R1()  # Flower requires P-384 for its nodes; all keys use the same curve
AUTHORITY_DAYS, SERVER_DAYS = 3 * 365, 365
CLOCK_SKEW = dt.timedelta(hours=1)  # a site's clock may be a little behind
LOOPBACK = ("localhost", "127.0.0.1", "::1")  # Flower's own processes on the coordinator's machine


class InvalidCertificate(ValueError):
    """A certificate or key that must not be trusted for a connection."""


class Certificates(NamedTuple):
    """Where a server's certificates are: of the authority, of the server, and the server's private key."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(
    folder: Path,
    hosts: Sequence[str],
    study: str = "fedspca",
    days: int = SERVER_DAYS,
    start: dt.datetime | None = None,
) -> Certificates:
    """Make an authority and a certificate for a server that sites reach by these host names or addresses.

    Parameters
    ----------
    folder : Path
        Gets ``ca.crt`` (for everyone), ``ca.key``, ``server.crt`` and ``server.key`` (keys with mode 0600).
    hosts : sequence of str
        Names and IP addresses. Loopback is always added: Flower's own processes use it.
    study : str
        Named in the certificates.
    days : int
        How long the server's certificate is valid.
    start : datetime, optional
        When it becomes valid, if not now.
    """
    begin = (start or dt.datetime.now(dt.UTC)) - CLOCK_SKEW
    key, issuer = ec.generate_private_key(CURVE), _name(f"{study[:40]} authority")
    authority = (
        _draft(issuer, issuer, key.public_key(), begin, max(AUTHORITY_DAYS, days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    _write(folder / "ca.key", _pem(key), private=True)
    _write(folder / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    return renew_certificate(folder, hosts, study, days, start)


def renew_certificate(
    folder: Path,
    hosts: Sequence[str],
    study: str = "fedspca",
    days: int = SERVER_DAYS,
    start: dt.datetime | None = None,
) -> Certificates:
    """Issue a certificate for a server, with a new key, by the authority that is in the folder."""
    begin = (start or dt.datetime.now(dt.UTC)) - CLOCK_SKEW
    made = Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    authority, signer = _load(made.authority), _load_key(folder / "ca.key")
    key = ec.generate_private_key(CURVE)
    certificate = (
        _draft(_name(f"{study[:40]} server"), authority.subject, key.public_key(), begin, days)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA384())
    )
    _write(made.key, _pem(key), private=True)
    _write(made.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    return made


def make_node_key(folder: Path, name: str = "node") -> tuple[Path, Path]:
    """Make the key pair by which a SuperNode shows who it is: the files with the private and the public key.

    This key does not sign the site's answers: the SuperNode may run under an account that must not hold that key.
    """
    key = ec.generate_private_key(CURVE)
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    encoding, none = serialization.Encoding, serialization.NoEncryption()
    _write(private, key.private_bytes(encoding.PEM, serialization.PrivateFormat.OpenSSH, none), private=True)
    _write(public, key.public_key().public_bytes(encoding.OpenSSH, serialization.PublicFormat.OpenSSH) + b"\n")
    return private, public


def check_certificate(
    path: Path, host: str | None = None, authority: Path | None = None, now: dt.datetime | None = None
) -> dt.datetime:
    """Raise :class:`InvalidCertificate` in words if the certificate cannot be used; return when it expires.

    Parameters
    ----------
    path : Path
        The certificate, in PEM.
    host : str, optional
        A name or address of the server, which the certificate must cover.
    authority : Path, optional
        The authority's certificate, which must have signed it.
    now : datetime, optional
        The time to judge by.
    """
    certificate, now = _load(path), now or dt.datetime.now(dt.UTC)
    if now > certificate.not_valid_after_utc:
        raise InvalidCertificate(
            f"The certificate {path} expired on {_day(certificate.not_valid_after_utc)}; renew it with: fedspca study "
            "renew."
        )
    if now < certificate.not_valid_before_utc:
        raise InvalidCertificate(
            f"The certificate {path} is valid only from {_day(certificate.not_valid_before_utc)} on: "
            "check the clock of this machine."
        )
    if authority is not None:
        try:
            certificate.verify_directly_issued_by(_load(authority))
        except (InvalidSignature, ValueError, TypeError):
            raise InvalidCertificate(
                f"The certificate {path} was not signed by the authority in {authority}."
            ) from None
        check_certificate(authority, now=now)
    if host is not None and _plain_host(host) not in (names := hosts_of(path)):
        raise InvalidCertificate(
            f"The certificate {path} is for {', '.join(names) or 'no host'}, not for {host!r}. Make one with: fedspca "
            "study renew."
        )
    return certificate.not_valid_after_utc


def hosts_of(path: Path) -> tuple[str, ...]:
    """The names and addresses that a certificate is for."""
    try:
        names = _load(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name) for kind in (x509.DNSName, x509.IPAddress) for name in names.get_values_for_type(kind))


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: dt.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + CLOCK_SKEW + dt.timedelta(days=days))
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys([*hosts, *LOOPBACK]):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            try:
                names.append(x509.DNSName(host.encode("idna").decode()))
            except UnicodeError:
                raise InvalidCertificate(f"{host!r} is neither a host name nor an IP address.") from None
    return names


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    with new_file(path, private=private) as draft:
        draft.write_bytes(content)


def _load(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(Path(path).read_bytes())
    except OSError as error:
        raise InvalidCertificate(f"The certificate {path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise InvalidCertificate(f"{path} holds no certificate in PEM.") from None


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(Path(path).read_bytes(), None)
    except OSError as error:
        raise InvalidCertificate(f"The authority's key {path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, TypeError):
        raise InvalidCertificate(f"{path} holds no private key in PEM.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidCertificate(f"{path} holds no key of the kind that the study's authority has.")
    return key


def _plain_host(host: str) -> str:
    """A host as certificates have it: addresses in their short form."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _day(when: dt.datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"
