"""Certificates that connect, and every way in which one must not."""

import datetime as dt
import socket
import ssl
import stat
import threading

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedspca.flower.certificates import (
    Certificates,
    InvalidCertificate,
    check_certificate,
    hosts_of,
    make_certificates,
    make_node_key,
    try_connection,
)

LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("tls"), ["study.example.org", "10.0.0.5"], "heart")


@pytest.fixture(scope="module")
def expired(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("old"), ["127.0.0.1"], days=10, start=LONG_AGO)


@pytest.fixture
def server():
    """Starts TLS servers on loopback that greet and hang up; returns their ports."""
    listeners = []

    def start(certificates: Certificates):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    connection.close()

        threading.Thread(target=accept, daemon=True).start()
        return listener.getsockname()[1]

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


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


def test_a_connection_to_the_studys_server(made, server):
    port = server(made)
    assert try_connection("127.0.0.1", port, made.authority) is None
    assert try_connection("localhost", port, made.authority) is None


def test_why_a_connection_fails_is_said_in_words(made, expired, server, tmp_path):
    assert "expired" in try_connection("127.0.0.1", server(expired), expired.authority)
    assert "not signed by this study's authority" in try_connection("127.0.0.1", server(made), expired.authority)
    assert "nothing listens" in try_connection("127.0.0.1", 1, made.authority)
    assert "is not known" in try_connection("no-such-host.invalid", 1, made.authority)
    assert "cannot be read" in try_connection("127.0.0.1", 1, tmp_path / "none")


def test_something_else_listens_there(made):
    def greet():
        with plain.accept()[0] as connection:
            connection.sendall(b"SSH-2.0-hello\r\n")
            connection.recv(100)

    with socket.create_server(("127.0.0.1", 0)) as plain:
        thread = threading.Thread(target=greet)
        thread.start()
        assert "something else" in try_connection("127.0.0.1", plain.getsockname()[1], made.authority)
        thread.join()


def test_a_name_that_the_certificate_does_not_cover(tmp_path, server, monkeypatch, made):
    port = server(made)
    real = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda address, **more: real(("127.0.0.1", port), **more))
    assert "not for other.example.org" in try_connection("other.example.org", port, made.authority)


def test_a_nodes_key_is_as_flower_wants_it(tmp_path):
    private, public = make_node_key(tmp_path, "berlin")
    key = load_ssh_private_key(private.read_bytes(), None)
    assert key.curve.name == "secp384r1"
    assert load_ssh_public_key(public.read_bytes()) == key.public_key()
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
