import pytest

from fedspca.letters.identity import Identity, InvalidSignature, fingerprint, signed_payload
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
