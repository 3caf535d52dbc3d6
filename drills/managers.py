"""A real systemd for drills: the manager of an account's own units, where the machine seems to be booted by it."""

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

MANAGER = "/usr/lib/systemd/systemd"
GROUPS = [Path("/sys/fs/cgroup") / kind for kind in ("systemd", "unified")]  # of a machine with both versions of them
BEGIN = """
for group in {groups}; do echo $$ > $group/cgroup.procs; done
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/systemd/inaccessible/dir
cd /run/systemd/inaccessible && touch reg && mkfifo fifo && mknod chr c 0 0 && mknod blk b 0 0 && chmod 0 * && cd /
exec setpriv --reuid {account} --clear-groups script -qfc '{manager} --user' {log}
"""


def obstacle():
    """Why no manager can be run here; None if one can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "a manager of systemd is run in namespaces of its own: Linux, root"
    missing = [name for name in ("systemctl", "unshare", "setpriv", "script") if shutil.which(name) is None]
    if missing or not Path(MANAGER).exists():
        return f"{(missing or ['systemd'])[0]} is not installed"
    if not all((group / "cgroup.procs").exists() for group in GROUPS):
        return "this machine has other control groups than the drill knows"
    return None


class Manager:
    """systemd as it runs for an account. ``control`` is ``systemctl --user`` there."""

    def __init__(self, home, account):
        self._account, self._groups = account, [group / f"fedspca-{os.getpid()}" for group in GROUPS]
        self.units = Path(home) / ".config" / "systemd" / "user"
        self._runtime = Path(home) / "run"
        for folder in (self.units, self._runtime):
            folder.mkdir(parents=True)
        self._runtime.chmod(0o700)
        for group in self._groups:
            group.mkdir()
        owner = pwd.getpwnam(account).pw_uid
        for top in (Path(home), *self._groups):
            for path in (top, *top.rglob("*")):
                os.chown(path, owner, -1)
        self._environment = os.environ | {"HOME": str(home), "XDG_RUNTIME_DIR": str(self._runtime)}
        begin = BEGIN.format(
            groups=" ".join(map(str, self._groups)), account=account, manager=MANAGER, log=self._runtime / "log"
        )
        command = ["unshare", "--mount", "bash", "-ec", begin]
        self._process = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)
        self.until((self._runtime / "systemd" / "private").exists)

    def control(self, *arguments):
        command = ["setpriv", "--reuid", self._account, "--clear-groups", "systemctl", "--user", *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def main(self, unit):
        """The id of a unit's process; 0 while there is none."""
        return int(self.control("show", "--property=MainPID", "--value", unit) or 0)

    def start(self, unit):
        self.control("daemon-reload")
        self.control("start", unit)
        self.until(lambda: self.control("is-active", unit).strip() == "active", self.control("status", unit))

    def until(self, done, told=""):
        end = time.monotonic() + 30
        while not done():
            assert time.monotonic() < end, told
            time.sleep(0.1)

    def close(self):
        self.control("exit")
        try:
            self._process.wait(40)
        finally:
            self._process.kill()
            for group in self._groups:
                for inside in sorted(group.rglob("*"), reverse=True):
                    if inside.is_dir():
                        inside.rmdir()
                group.rmdir()
