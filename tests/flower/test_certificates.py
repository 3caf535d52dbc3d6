"""Certificates that connect, and every way in which one must not."""

import datetime as dt
import stat

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedspca.flower.certificates import (
    InvalidCertificate,
    check_certificate,
    hosts_of,
    make_certificates,
    make_node_key,
)

LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("tls"), ["study.example.org", "10.0.0.5"], "heart")


@pytest.fixture(scope="module")
def expired(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("old"), ["127.0.0.1"], days=10, start=LONG_AGO)


def test_it_is_good_for_its_hosts_and_for_loopback(made):
    for host in ("study.example.org", "10.0.0.5", "127.0.0.1", "localhost"):
        check_certificate(made.certificate, host, made.authority)
    assert "study.example.org" in hosts_of(made.certificate)


def test_keys_are_private(made):
    folder = made.key.parent
    for name, mode in {"ca.key": 0o600, "server.key": 0o600}.items():
        assert stat.S_IMODE((folder / name).stat().st_mode) == mode
    assert sorted(path.name for path in folder.iterdir()) == ["ca.crt", "ca.key", "server.crt", "server.key"]


def test_it_expires_after_the_days_asked_for(tmp_path):
    made = make_certificates(tmp_path, ["h"], days=30)
    assert (check_certificate(made.certificate) - dt.datetime.now(dt.UTC)).days in {29, 30}
    check_certificate(made.certificate, now=dt.datetime.now(dt.UTC) - dt.timedelta(minutes=30))  # a slow clock


@pytest.mark.parametrize(
    ("days", "words"),
    [(-3, "valid only from .* check the clock"), (400, "expired on .* renew it")],
    ids=["early", "late"],
)
def test_out_of_its_time(made, days, words):
    with pytest.raises(InvalidCertificate, match=words):
        check_certificate(made.certificate, now=dt.datetime.now(dt.UTC) + dt.timedelta(days=days))


def test_another_host(made):
    with pytest.raises(InvalidCertificate, match=r"is for study.example.org.*not for 'elsewhere'"):
        check_certificate(made.certificate, "elsewhere")


def test_another_authority(made, expired):
    with pytest.raises(InvalidCertificate, match="not signed by the authority"):
        check_certificate(made.certificate, authority=expired.authority)


def test_what_is_no_certificate(tmp_path, made):
    with pytest.raises(InvalidCertificate, match="cannot be read"):
        check_certificate(tmp_path / "none")
    with pytest.raises(InvalidCertificate, match="holds no certificate"):
        check_certificate(made.key)
    with pytest.raises(InvalidCertificate, match="neither a host name"):
        make_certificates(tmp_path, ["a" * 80])


def test_a_nodes_key_is_as_flower_wants_it(tmp_path):
    private, public = make_node_key(tmp_path, "berlin")
    key = load_ssh_private_key(private.read_bytes(), None)
    assert key.curve.name == "secp384r1"
    assert load_ssh_public_key(public.read_bytes()) == key.public_key()
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
