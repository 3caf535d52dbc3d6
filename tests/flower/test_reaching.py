"""Connections that are made, through a proxy too, and every way in which one is not, said in words."""

import base64
import datetime as dt
import socket
import ssl
import threading

import pytest

pytest.importorskip("cryptography")

from fedspca.flower.certificates import (
    Certificates,
    InvalidCertificate,
    check_certificate,
    make_certificates,
    renew_certificate,
)
from fedspca.flower.reaching import Unreachable, clock_of, proxy_for, try_certificate, try_connection

LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
HOST = "study.example.org"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("tls"), [HOST, "10.0.0.5"], "heart")


@pytest.fixture(scope="module")
def expired(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("old"), ["127.0.0.1"], days=10, start=LONG_AGO)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("https_proxy", "all_proxy", "no_proxy"):
        for known in (name, name.upper()):
            monkeypatch.delenv(known, raising=False)


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


@pytest.fixture
def proxy(monkeypatch):
    """Starts a proxy on loopback that answers CONNECT, to whatever host, with a status, and on 200 leads to a port."""
    listeners = []

    def start(status, port=None, credentials="", name=""):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        seen = []

        def accept():
            connection, _ = listener.accept()
            with connection:
                seen.append(connection.recv(4000).decode())
                right = not name or f"Basic {base64.b64encode(name.encode()).decode()}" in seen[0]
                connection.sendall(f"HTTP/1.1 {status if right else 407} so\r\n\r\n".encode())
                if port is not None:
                    with socket.create_connection(("127.0.0.1", port)) as behind:
                        back = threading.Thread(target=carry, args=(behind, connection), daemon=True)
                        back.start()
                        carry(connection, behind)
                        back.join(5)

        threading.Thread(target=accept, daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://{credentials}127.0.0.1:{listener.getsockname()[1]}")
        return seen

    yield start
    for listener in listeners:
        listener.close()


def carry(source, target):
    try:
        while piece := source.recv(4096):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


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


def test_through_a_proxy_that_asks_for_a_password(made, server, proxy):
    seen = proxy(200, server(made), "anna:s%3Acret@", "anna:s:cret")
    assert try_connection(HOST, 9092, made.authority) is None
    assert seen[0].startswith(f"CONNECT {HOST}:9092 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("status", "credentials", "words"),
    [
        (407, "", "asks for a name and a password"),
        (407, "anna:wrong@", "does not know this name and password"),
        (403, "", "does not let this machine through"),
        (503, "", "may not have started the study"),
    ],
)
def test_why_a_proxy_does_not_let_through(made, proxy, status, credentials, words):
    proxy(status, credentials=credentials)
    told = try_connection(HOST, 9092, made.authority)
    assert words in told
    assert "wrong" not in told  # the password


def test_a_dead_proxy_is_named(made, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://anna:secret@127.0.0.1:1")
    told = try_connection(HOST, 9092, made.authority)
    assert "the proxy 127.0.0.1:1 cannot be used" in told
    assert "secret" not in told
    monkeypatch.setenv("HTTPS_PROXY", "http://no-such-host.invalid:3128")
    assert "name of the proxy, no-such-host.invalid, is not known" in try_connection(HOST, 9092, made.authority)


def test_a_proxy_that_opens_tls_is_suspected(made, expired, server, proxy):
    proxy(200, server(made))
    assert "does the proxy 127.0.0.1" in try_connection(HOST, 9092, expired.authority)


def test_hosts_for_which_there_is_no_proxy(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    assert proxy_for(HOST, 9092).host == "proxy"
    assert proxy_for("127.0.0.1", 9092) is None
    assert proxy_for("::1", 9092) is None
    monkeypatch.setenv("NO_PROXY", f".other.org,{HOST}")
    assert proxy_for(HOST, 9092) is None
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HTTPS_PROXY", "ftp://proxy")
    with pytest.raises(Unreachable, match="is no address"):
        proxy_for(HOST, 9092)


def test_a_server_that_tells_no_time(made, server):
    assert clock_of("127.0.0.1", server(made), made.authority) is None


def test_a_certificate_is_tried_as_a_site_would(made, tmp_path):
    assert try_certificate(made, HOST) is None
    assert try_certificate(made, "10.0.0.5") is None
    assert "not for elsewhere.example.org" in try_certificate(made, "elsewhere.example.org")
    other = make_certificates(tmp_path / "other", [HOST])
    assert "not signed by this study's authority" in try_certificate(made._replace(authority=other.authority), HOST)
    assert "cannot be used together" in try_certificate(made._replace(key=other.key), HOST)
    assert "cannot be used together" in try_certificate(made._replace(key=tmp_path / "none"), HOST)


def test_a_renewed_certificate_is_of_the_same_authority(tmp_path):
    made = make_certificates(tmp_path, [HOST])
    renewed = renew_certificate(tmp_path, ["fd00::10"])
    assert try_certificate(renewed, "fd00::10") is None
    assert check_certificate(renewed.certificate, "fd00:0::10", made.authority)
    assert f"not for {HOST}" in try_certificate(renewed, HOST)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(InvalidCertificate, match=r"authority's key .* cannot be read"):
        renew_certificate(tmp_path, [HOST])
