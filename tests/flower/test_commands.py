"""The commands of Flower's own processes."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from fedspca.flower.certificates import Certificates
from fedspca.flower.commands import (
    FlowerProcessError,
    environment,
    executor_command,
    free_port,
    gateway_command,
    join_address,
    shown,
    split_address,
    superlink_command,
)
from fedspca.flower.processes import listens


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path / "ca.crt", tmp_path / "server.crt", tmp_path / "server.key")


def test_the_superlink_is_on_loopback_with_tls_and_registered_nodes(certificates, tmp_path):
    command = shown(superlink_command(certificates, tmp_path / "state db", 9000))
    assert "--host 127.0.0.1 --port 9000" in command
    assert "--enable-supernode-auth" in command
    assert "--disable-runtime-dependency-installation" in command
    assert "--insecure" not in command
    assert f"--database '{tmp_path}/state db'" in command


def test_the_gateway_is_what_the_network_sees(certificates):
    assert "--host :: --port 443 --superlink-port 9000" in shown(gateway_command(certificates, 443, 9000))


def test_a_superlink_with_a_secret_starts_no_apps(certificates, tmp_path):
    assert "--isolation" not in superlink_command(certificates, tmp_path / "db", 9000)
    command = shown(superlink_command(certificates, tmp_path / "db", 9000, secret=tmp_path / "secret"))
    assert f"--isolation process --superexec-auth-secret-file {tmp_path}/secret" in command


def test_a_node_trusts_one_authority_and_knows_its_guard(tmp_path):
    command = executor_command("host:443", tmp_path / "ca.crt", tmp_path / "node.key", tmp_path / "a b", "me/app")
    assert command[command.index("--authority") + 1] == str(tmp_path / "ca.crt")
    assert command[command.index("--socket") + 1] == f"{tmp_path}/a b"
    assert "--tied" not in command
    assert not {"--host", "--port"} & set(command)  # it listens nowhere


def test_nothing_is_reported_to_anyone(monkeypatch, tmp_path):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    monkeypatch.setenv("FLWR_OIDC_ENABLED", "1")
    given = environment(tmp_path)
    assert given["FLWR_TELEMETRY_ENABLED"] == "0"
    assert given["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert given["RAY_USAGE_STATS_ENABLED"] == "0"
    assert given["FLWR_HOME"] == str(tmp_path)
    assert "FLWR_OIDC_ENABLED" not in given
    assert given["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


@pytest.mark.parametrize(
    ("address", "parts"), [("h:1", ("h", 1)), ("[::1]:22", ("::1", 22)), ("10.0.0.1:9", ("10.0.0.1", 9))]
)
def test_addresses(address, parts):
    assert split_address(address) == parts
    assert split_address(join_address(*parts)) == parts


@pytest.mark.parametrize("address", ["h", ":1", "h:", "h:x"])
def test_what_is_no_address(address):
    with pytest.raises(FlowerProcessError, match="host:port"):
        split_address(address)


def test_a_free_port_is_free():
    assert not listens("127.0.0.1", free_port())
