# SPDX-License-Identifier: GPL-2.0-or-later
"""A Slurm cluster on this machine: munged, slurmctld and two slurmd, without systemd.

Debian's slurmd is built for several on a host (`-N`). All of it is in a folder of its own, with
ports of its own, and ends with the test that asked for it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
PACKAGES = "munge slurmctld slurmd slurm-client"
NODES = ("n1", "n2")
# Of CPUs that are not there: tasks that do nothing share those that are.
CPUS, MEMORY = 4, 16384
START_SECONDS = 60
# PreemptMode of a partition is what happens to its own jobs.
CONF = """\
ClusterName=skblab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=10
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmdTimeout=5
KillWait=5
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP
"""


@dataclass
class Cluster:
    """A cluster that runs; `env` is for commands that use it."""

    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *call: str) -> str:
        """Run a command of Slurm's, and return what it printed."""
        env = {**os.environ, **self.env}
        done = subprocess.run(
            call, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{call}: {done.stderr}\n{self.logs()}"
        return done.stdout

    def start(self, name: str) -> None:
        """Start a daemon."""
        calls: Mapping[str, list[str]] = {
            "munged": [
                *("munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key"),
                *(f"--socket={self.folder}/munge.sock", f"--pid-file={self.folder}/munged.pid"),
                *(f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/seed"),
            ],
            "slurmctld": ["slurmctld", "-D", "-f", self.env["SLURM_CONF"]],
        }
        call = calls.get(name, ["slurmd", "-D", "-N", name, "-f", self.env["SLURM_CONF"]])
        with (self.folder / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                # It does not outlive a test run that is killed.
                ["setpriv", "--pdeathsig", "KILL", "--", *call],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.env},
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Have a daemon die, and on a node all that it ran, as if its power had failed."""
        process = self.running.pop(name)
        process.kill()
        process.wait()
        for pid in self._jobs(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _jobs(self, node: str) -> set[int]:
        """Return the processes of jobs on a node, and the slurmstepd of each."""
        ours = f"SLURM_CONF={self.env['SLURM_CONF']}".encode()
        named = f"SLURMD_NODENAME={node}".encode()
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0")
                if ours in words and named in words:
                    pid = int(entry.name)
                    found.add(pid)
                    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                    if "slurmstepd" in Path(f"/proc/{parent}/comm").read_text():
                        found.add(int(parent))
        return found

    def states(self) -> dict[str, str]:
        """Return the state of each node."""
        lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return dict(line.split() for line in lines)

    def logs(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(
            f"--- {file.name}\n" + "".join(file.read_text(errors="replace").splitlines(True)[-15:])
            for file in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        )

    def until_up(self) -> None:
        """Wait until all nodes can be used."""
        deadline = time.monotonic() + START_SECONDS
        env = {**os.environ, **self.env}
        said = ""
        while time.monotonic() < deadline:
            call = ["sinfo", "--noheader", "--Node", "--format=%N %T"]
            done = subprocess.run(call, env=env, capture_output=True, text=True, check=False)
            said = done.stdout + done.stderr
            states = dict(line.split()[:2] for line in done.stdout.splitlines())
            if set(states) == set(NODES) and all(
                state in ("idle", "mixed", "allocated") for state in states.values()
            ):
                return
            time.sleep(0.2)
        pytest.fail(f"the cluster did not come up within {START_SECONDS} s: {said}\n{self.logs()}")

    def end(self) -> None:
        """End all daemons and what they run, by number."""
        for name in (*NODES, "slurmctld", "munged"):
            if name in self.running:
                self.kill(name)


def ports(count: int) -> list[int]:
    """Return ports that nobody has."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Run a cluster for the length of a `with` block."""
    if os.geteuid() != 0:
        pytest.fail("a Slurm cluster needs root rights")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.fail(
            f"this machine lacks {', '.join(missing)}; mend with: make setup-tests (or: apt-get "
            f"install {PACKAGES})"
        )
    folder = Path(tempfile.mkdtemp(prefix="skblab-slurm-"))
    folder.chmod(0o755)
    made = Cluster(folder)
    host = socket.gethostname().partition(".")[0]
    control, *own = ports(1 + len(NODES))
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} "
        f"RealMemory={MEMORY} State=UNKNOWN"
        for name, port in zip(NODES, own, strict=True)
    )
    (folder / "slurm.conf").write_text(
        CONF.format(host=host, port=control, folder=folder, nodes=nodes)
    )
    # Slurm 23.11 and later look for cgroups, which a container may lack.
    version = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True).stdout
    if int(version.split()[1].split(".")[0]) >= 23:
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    (folder / "state").mkdir()
    try:
        made.start("munged")
        deadline = time.monotonic() + START_SECONDS
        while not (folder / "munge.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        for name in ("slurmctld", *NODES):
            made.start(name)
        made.until_up()
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)
