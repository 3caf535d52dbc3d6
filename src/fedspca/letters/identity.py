"""Who a message is from: a key pair for each site and for the coordinator, and signatures that others can check.

The keys are ECDSA keys on P-384, the same kind that Flower uses for its nodes. A site's node has its own key, since the
node may run under another account than the guard, which signs the letters.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from fedspca.files import new_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

MAX_SIGNATURE = 104  # the longest DER encoding of two numbers of 384 bits


class InvalidSignature(ValueError):
    """A message that was altered on its way, or that somebody else wrote."""


class Identity:
    """A private key and what it is for: signing.

    Parameters
    ----------
    key : EllipticCurvePrivateKey
        The private key.
    """

    def __init__(self, key: "EllipticCurvePrivateKey") -> None:
        from cryptography.hazmat.primitives import serialization

        self._key = key
        form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.public = key.public_key().public_bytes(*form).decode()

    @classmethod
    def new(cls) -> "Identity":
        """Make a key pair."""
        from cryptography.hazmat.primitives.asymmetric import ec

        return cls(ec.generate_private_key(ec.SECP384R1()))

    @classmethod
    def load(cls, path: Path) -> "Identity":
        """Read the private key that :meth:`save` wrote."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
        except FileNotFoundError:
            raise ValueError(f"{path}: there is no such key.") from None
        except (ValueError, TypeError):
            raise ValueError(f"{path}: it is not a private key without a password.") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
            raise ValueError(f"{path}: the key must be an elliptic-curve key on P-384.")  # noqa: TRY004 - it is a file
        return cls(key)

    def save(self, path: Path) -> None:
        """Write the private key, for its owner's eyes only, and the public one beside it with the suffix ``.pub``."""
        from cryptography.hazmat.primitives import serialization

        form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        with new_file(path, private=True) as draft:
            draft.write_bytes(self._key.private_bytes(*form))
        with new_file(path.with_name(f"{path.name}.pub")) as draft:
            draft.write_bytes(ssh_form(self.public))

    @property
    def fingerprint(self) -> str:
        """The public key's fingerprint, to be compared over the telephone."""
        return fingerprint(self.public)

    def sign(self, payload: bytes) -> bytes:
        """Return the payload with a signature before it."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        signature = self._key.sign(payload, ec.ECDSA(hashes.SHA384()))
        return bytes([len(signature)]) + signature + payload


def signed_payload(letter: bytes, public: str, who: str) -> bytes:
    """Return what a letter says, if it was signed with this public key; else raise :class:`InvalidSignature`."""
    from cryptography.exceptions import InvalidSignature as Wrong
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    signature, payload = split_letter(letter)
    try:
        _public_key(public).verify(signature, payload, ec.ECDSA(hashes.SHA384()))
    except Wrong:
        raise InvalidSignature(f"A letter that {who} did not sign, or that was altered on its way.") from None
    return payload


def split_letter(letter: bytes) -> tuple[bytes, bytes]:
    """Return the signature and the payload of a letter, neither of them checked."""
    length = letter[0] if letter else 0
    if not 0 < length <= MAX_SIGNATURE or len(letter) <= length:
        raise InvalidSignature("A letter without a signature.")
    return letter[1 : 1 + length], letter[1 + length :]


def fingerprint(public: str) -> str:
    """Return a short text by which people can compare public keys."""
    from cryptography.hazmat.primitives import serialization

    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    digest = hashlib.sha256(_public_key(public).public_bytes(*form)).hexdigest()[:40]
    return " ".join(digest[start : start + 4] for start in range(0, 40, 4))


def ssh_form(public: str) -> bytes:
    """Return a public key in OpenSSH's form, which Flower reads."""
    from cryptography.hazmat.primitives import serialization

    return _public_key(public).public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


def _public_key(public: str) -> "EllipticCurvePublicKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_pem_public_key(public.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidSignature("A public key that cannot be read.") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise InvalidSignature("A public key that is not on the curve P-384.")
    return key
