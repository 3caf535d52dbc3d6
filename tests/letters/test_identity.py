import hashlib

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from fedspca.letters.identity import Identity, InvalidSignature, fingerprint, signed_payload, split_letter, ssh_form
from helpers.letters import COORDINATOR


def test_keys_are_kept_and_known_by_their_fingerprint(tmp_path):
    made = Identity.new()
    made.save(tmp_path / "identity.key")
    assert (tmp_path / "identity.key").stat().st_mode & 0o077 == 0
    again = Identity.load(tmp_path / "identity.key")
    assert again.public == made.public
    assert again.fingerprint == fingerprint(made.public) != COORDINATOR.fingerprint
    assert signed_payload(again.sign(b"hello"), made.public, "me") == b"hello"
    (tmp_path / "other.key").write_text("no key")
    with pytest.raises(ValueError, match="not a private key"):
        Identity.load(tmp_path / "other.key")
    with pytest.raises(ValueError, match="no such key"):
        Identity.load(tmp_path / "none.key")
    with pytest.raises(InvalidSignature, match="cannot be read"):
        fingerprint("no key")


def other_key(curve=None):
    """A public key as PEM that is not one of ours."""
    key = ec.generate_private_key(curve) if curve else ed25519.Ed25519PrivateKey.generate()
    return key, key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def test_a_letter_is_the_length_of_a_signature_the_signature_and_the_payload():
    made = Identity.new()
    letter = made.sign(b"payload")
    signature, payload = split_letter(letter)
    assert letter == bytes([len(signature)]) + signature + payload
    assert payload == b"payload"
    key = serialization.load_pem_public_key(made.public.encode())
    key.verify(signature, payload, ec.ECDSA(hashes.SHA384()))
    assert isinstance(key.curve, ec.SECP384R1)
    assert signed_payload(made.sign(b""), made.public, "me") == b""


@pytest.mark.parametrize("letter", [b"", b"\x00", b"\x00abc", b"\x69" + bytes(200), bytes([3]) + b"ab", b"\xff" * 9])
def test_what_has_no_signature_is_no_letter(letter):
    with pytest.raises(InvalidSignature, match="without a signature"):
        split_letter(letter)


def test_signatures_of_one_byte_and_of_the_longest_are_cut_where_they_end():
    assert split_letter(b"\x01s") == (b"s", b"")
    assert split_letter(b"\x01sp") == (b"s", b"p")
    longest = bytes(range(104))
    assert split_letter(b"\x68" + longest + b"p") == (longest, b"p")


def test_every_altered_byte_is_noticed():
    made = Identity.new()
    letter = made.sign(b"payload")
    for at in (1, 5, len(letter) // 2, len(letter) - 8, len(letter) - 7, len(letter) - 1):
        altered = letter[:at] + bytes([letter[at] ^ 1]) + letter[at + 1 :]
        with pytest.raises(InvalidSignature, match="that the clinic did not sign, or that was altered"):
            signed_payload(altered, made.public, "the clinic")
    with pytest.raises(InvalidSignature, match="did not sign"):
        signed_payload(letter, Identity.new().public, "the clinic")


def test_keys_of_another_kind_or_curve_are_refused(tmp_path):
    for curve, words in ((ec.SECP256R1(), "not on the curve P-384"), (None, "not on the curve P-384")):
        key, public = other_key(curve)
        with pytest.raises(InvalidSignature, match=words):
            fingerprint(public)
        path = tmp_path / "other.key"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            )
        )
        with pytest.raises(ValueError, match="must be an elliptic-curve key on P-384"):
            Identity.load(path)
    for text in ("", "no key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
        with pytest.raises(InvalidSignature, match="cannot be read"):
            fingerprint(text)


def test_a_key_with_a_password_is_refused(tmp_path, monkeypatch):
    def locked(*_arguments, **_settings):
        raise TypeError("Key is password-protected.")

    monkeypatch.setattr(serialization, "load_ssh_private_key", locked)
    (tmp_path / "locked.key").write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    with pytest.raises(ValueError, match="not a private key without a password"):
        Identity.load(tmp_path / "locked.key")


def test_the_public_key_stands_beside_the_private_one_as_openssh_writes_it(tmp_path):
    made = Identity.new()
    made.save(tmp_path / "identity.key")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["identity.key", "identity.key.pub"]
    public = (tmp_path / "identity.key.pub").read_bytes()
    assert public.startswith(b"ecdsa-sha2-nistp384 ")
    assert public == ssh_form(made.public)
    read = serialization.load_ssh_public_key(public)
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert read.public_bytes(*form).decode() == made.public
    assert (tmp_path / "identity.key").read_bytes().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    assert (tmp_path / "identity.key.pub").stat().st_mode & 0o044  # which others may read


def test_a_fingerprint_is_ten_groups_of_the_keys_hash():
    made = Identity.new()
    key = serialization.load_pem_public_key(made.public.encode())
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    digest = hashlib.sha256(der).hexdigest()
    assert made.fingerprint.replace(" ", "") == digest[:40]
    assert [len(group) for group in made.fingerprint.split(" ")] == [4] * 10
