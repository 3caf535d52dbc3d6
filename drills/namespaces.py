"""Machines of a drill: network namespaces of our own, joined by a bridge, a router that hides addresses, and a proxy.

::

    coordinator 10.77.0.10 ──┐
    north       10.77.0.11 ──┤ bridge in hub, 10.77.0.1
    router      10.77.0.2  ──┘
    south 10.77.1.11 ── router: south leaves under the router's address (NAT)
    east  10.77.2.11 ── hub 10.77.2.1: no way out but the forward proxy in hub, which asks for a password

The bridge has IPv6 too (fd77::/64), and so has the way of south. Names are in each machine's own ``/etc/hosts``.
Nothing here reaches any other machine: the namespaces have no other links.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

PROXY = Path(__file__).with_name("forward_proxy.py")
PASSWORD = "anna:s:cret"
COORDINATOR, COORDINATOR_6 = "10.77.0.10", "fd77::10"


def obstacle():
    """Why no namespaces can be made here; None if they can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces need Linux"
    for name, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(name) is None:
            return f"{name} is not installed (Debian's {package})"
    name = f"fs{os.getpid()}t"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespace can be made here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


class Namespaces:
    """The machines. ``inside(name)`` is what stands before a command that runs on one of them."""

    def __init__(self):
        self._mark = f"fs{os.getpid() % 10_000}"
        self.names, self._proxy = [], None
        self._names = Path("/etc/netns")
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self):
        for name in ("hub", "coordinator", "north", "router", "south", "east"):
            self._add(name)
        self.run("hub", "ip link add br0 type bridge")
        self.run("hub", "ip addr add 10.77.0.1/24 dev br0")
        self.run("hub", "ip link set br0 up")
        for name, address in (
            ("coordinator", f"{COORDINATOR}/24"),
            ("north", "10.77.0.11/24"),
            ("router", "10.77.0.2/24"),
        ):
            self._link("hub", name, address)
            self.run("hub", f"ip link set to-{name[:8]} master br0")
        self._link("router", "south", "10.77.1.11/24", "10.77.1.1/24")
        self.run("south", "ip route add default via 10.77.1.1")
        self.run("router", "sysctl -qw net.ipv4.ip_forward=1")
        self.run("router", "nft add table ip nat")
        self.run("router", "nft", "add chain ip nat post { type nat hook postrouting priority 100 ; }")
        self.run("router", "nft", "add rule ip nat post ip saddr 10.77.1.0/24 masquerade")
        self._link("hub", "east", "10.77.2.11/24", "10.77.2.1/24")
        self._add_ipv6()
        self.name("nowhere.test", COORDINATOR)
        self.start_proxy()

    def _add_ipv6(self):
        addresses = {"hub": "fd77::1", "coordinator": COORDINATOR_6, "north": "fd77::11", "router": "fd77::2"}
        for name, address in addresses.items():
            self.run(name, f"ip addr add {address}/64 dev {'br0' if name == 'hub' else 'eth0'} nodad")
        self.run("router", "ip addr add fd78::1/64 dev to-south nodad")
        self.run("south", "ip addr add fd78::11/64 dev eth0 nodad")
        self.run("south", "ip route add default via fd78::1")
        self.run("router", "sysctl -qw net.ipv6.conf.all.forwarding=1")
        self.run("coordinator", "ip route add fd78::/64 via fd77::2")

    def name(self, host, address):
        """Let every machine know a host by this address from now on."""
        for machine in self.names:
            folder = self._names / f"{self._mark}{machine}"
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "hosts").open("r+" if (folder / "hosts").exists() else "w") as file:
                file.truncate()  # the same file: processes see it mounted over theirs
                file.write(f"127.0.0.1 localhost\n{address} {host}\n")

    def move(self, name, old, new):
        """Give a machine another address."""
        self.run(name, f"ip addr del {old}/24 dev eth0")  # first: a second address of a net goes with the first one
        self.run(name, f"ip addr add {new}/24 dev eth0")

    def lose(self, name, percent):
        """Let every packet to and from a machine be lost with this chance; 0 mends it."""
        self.run(name, "nft", "add table inet lossy")
        self.run(name, "nft", "flush table inet lossy")
        for hook in ("input", "output"):
            self.run(name, "nft", f"add chain inet lossy {hook} {{ type filter hook {hook} priority 0 ; }}")
            link = "iifname" if hook == "input" else "oifname"
            rule = f"add rule inet lossy {hook} {link} eth0 numgen random mod 100 lt {percent} drop"
            if percent:
                self.run(name, "nft", rule)

    def _add(self, name):
        subprocess.run(["ip", "netns", "add", f"{self._mark}{name}"], check=True)
        self.names.append(name)
        self.run(name, "ip link set lo up")

    def _link(self, one, other, address, gateway=None):
        """Join two machines; the other has eth0 with this address."""
        near, far = f"to-{other[:8]}", "eth0"
        peer = ["ip", "link", "add", near, "netns", f"{self._mark}{one}", "type", "veth"]
        subprocess.run([*peer, "peer", "name", far, "netns", f"{self._mark}{other}"], check=True)
        self.run(other, f"ip addr add {address} dev {far}")
        self.run(other, f"ip link set {far} up")
        if gateway:
            self.run(one, f"ip addr add {gateway} dev {near}")
        self.run(one, f"ip link set {near} up")

    def inside(self, name):
        return ["ip", "netns", "exec", f"{self._mark}{name}"]

    def run(self, name, command, *more):
        subprocess.run([*self.inside(name), *command.split(), *more], check=True)

    def cut(self, name):
        """Pull the cable of a machine."""
        self.run("hub", f"ip link set to-{name[:8]} down")

    def mend(self, name):
        self.run("hub", f"ip link set to-{name[:8]} up")

    def slow(self, name, rate):
        """Let a machine send and receive no faster than this."""
        for place, link in ((name, "eth0"), ("hub", f"to-{name[:8]}")):
            self.run(place, f"tc qdisc replace dev {link} root tbf rate {rate} burst 32k latency 400ms")

    def fast(self, name):
        for place, link in ((name, "eth0"), ("hub", f"to-{name[:8]}")):
            self.run(place, f"tc qdisc del dev {link} root")

    def start_proxy(self, delay=0.0):
        """Start the forward proxy, which holds every piece back for so many seconds."""
        command = [*self.inside("hub"), sys.executable, str(PROXY), "10.77.2.1", "3128", PASSWORD, str(delay)]
        self._proxy = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._proxy.stdout.readline() == b"ready\n"

    def stop_proxy(self):
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.wait()
            self._proxy.stdout.close()
            self._proxy = None

    def processes(self, name):
        said = subprocess.run(
            ["ip", "netns", "pids", f"{self._mark}{name}"], capture_output=True, text=True, check=True
        )
        return [int(pid) for pid in said.stdout.split()]

    def power_off(self, name):
        """End all that runs on a machine at once."""
        for pid in self.processes(name):
            os.kill(pid, 9)
        end = time.monotonic() + 10
        while self.processes(name) and time.monotonic() < end:
            time.sleep(0.05)

    def close(self):
        self.stop_proxy()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", f"{self._mark}{name}"], check=False)
            shutil.rmtree(self._names / f"{self._mark}{name}", ignore_errors=True)
