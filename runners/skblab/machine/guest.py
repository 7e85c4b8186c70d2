# SPDX-License-Identifier: GPL-2.0-or-later
"""A running guest: started, connected to, watched, and ended with its parent."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from skblab.lab import kvm, paths
from skblab.lab.guest import about, eventlog, first
from skblab.lab.guest.console import Console, Kind
from skblab.lab.guest.errors import GuestError
from skblab.lab.guest.spec import GuestSpec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine import halted, patience, snapshot
from skblab.machine.transport import SshTransport, TransportError
from skblab_analysis.base import disk
from skblab_analysis.base.errors import SkblabError, SkblabWarning, one_line

QEMU_ASSERTION = re.compile(r"^qemu-system-\S+: .*: Assertion .* failed", re.MULTILINE)
# Of kernel/rcu/tree_stall.h, some lines below the first word of a stall.
TIMER_LOST = "kthread timer wakeup didn't happen"
DUMP_SECONDS = 5
KILLED = "the guest was killed (QEMU ended by a signal)"
POWEROFF_SECONDS = 15
# A second failed start in a row was seen on a busy machine.
BOOTS = 3
# For an sshd to see that its client has gone, and to end.
AGAIN_SECONDS = 60
KEPT_LOGS = 50
# Of the cache: a folder for each guest that runs.
FOLDERS = "guests"
# In such a folder: what the guest's kernel has said.
CONSOLE = "console.log"

# curve25519: the default post-quantum exchange takes an emulated CPU a second longer, and this
# connection never leaves the machine. No grace time: a guest in exact mode that waits for the host
# sees minutes of its own clock pass in an instant.
SSHD_CONFIG = """\
HostKey /skblab/run/host_key
AuthorizedKeysFile /skblab/run/client_key.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
KexAlgorithms curve25519-sha256
MaxSessions 100
LoginGraceTime 0
PrintMotd no
PrintLastLog no
PidFile none
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/skblab/tools/bin
AcceptEnv LANG LC_* TERM COLORTERM
"""


@dataclass
class Guest:
    """A guest that runs; make one with `Guest.boot`."""

    spec: GuestSpec
    kernel: Kernel
    transport: SshTransport
    console: Console
    folder: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    # Starts one like this in the same folder, which boots.
    _anew: Callable[[], Guest] | None = field(default=None, repr=False)
    # The snapshot that it began in: its folder, the inode number of its state, and our end of the
    # pipe by which the guest was let go on.
    _state: Path | None = field(default=None, repr=False)
    _inode: int | None = field(default=None, repr=False)
    _pipe: int | None = field(default=None, repr=False)
    # Why it had to boot by itself, where it should not have had to.
    _alone: str | None = field(default=None, repr=False)
    # Of one that boots.
    _first_cpu: halted.FirstCpu | None = field(default=None, repr=False)
    # Those of this process that run, in all its threads.
    _running: ClassVar[set[subprocess.Popen[bytes]]] = set()

    @classmethod
    @contextlib.contextmanager
    def boot(
        cls,
        spec: GuestSpec,
        kernel: Kernel,
        labroot: LabRoot,
        *,
        shares: Sequence[Bind] = (),
        log: Path | None = None,
        wait: bool = True,
        place: Path | None = None,
    ) -> Iterator[Guest]:
        """Boot a guest for the length of a `with` block.

        Without `wait`, the block begins as soon as QEMU runs: several guests can boot at once,
        and `connect` waits for each.

        `place` is the network namespace in which the taps of its devices are (see links).

        A guest begins in a snapshot where that is possible (see snapshot).

        `shares` appear in the guest at their /skblab folders. The console is copied to `log`
        (default: `<cache>/logs/`) if the guest fails, and when `log` is given. Raises
        GuestError with the cause in one line when the guest panics, hangs or is killed.
        """
        # A wrong one that the user has given is refused before anything is started.
        patience.limit(spec)
        folder = _make_folder()
        try:
            state, why = cls._snapshot(spec, kernel, labroot, shares)
            guest = cls._start(spec, kernel, labroot, shares, folder, place, state)
            guest._alone = why
            guest._anew = lambda: cls._start(spec, kernel, labroot, shares, folder, place, None)
            try:
                with guest._explained(log):
                    if wait:
                        guest.connect()
                    yield guest
                    guest.raise_if_dead()
                guest._power_off()
            finally:
                guest._end()
                if log is not None:
                    guest._copy_log(log)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @classmethod
    def _snapshot(
        cls, spec: GuestSpec, kernel: Kernel, labroot: LabRoot, shares: Sequence[Bind]
    ) -> tuple[Path | None, str | None]:
        """Return the snapshot to begin in, or why there is none that should be."""
        if not snapshot.suits(spec):
            return None, None
        try:
            shared = _shared(kernel, Path(), shares)
            return snapshot.ensure(spec, kernel, labroot, shared, cls._running), None
        except SkblabError as error:
            return None, str(error)

    @classmethod
    def prepare(
        cls,
        specs: Sequence[GuestSpec],
        kernel: Kernel,
        labroot: LabRoot,
        shares: Sequence[Bind] = (),
    ) -> None:
        """Make the snapshots of guests that are booted after that, side by side."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            try:
                list(pool.map(lambda spec: cls._snapshot(spec, kernel, labroot, shares), specs))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                cls.end_all()
                raise

    @classmethod
    def _start(
        cls,
        spec: GuestSpec,
        kernel: Kernel,
        labroot: LabRoot,
        shares: Sequence[Bind],
        folder: Path,
        place: Path | None,
        state: Path | None,
    ) -> Guest:
        """Start QEMU. The guest boots, or goes on from the snapshot in the folder `state`."""
        with contextlib.ExitStack() as stack:
            opened = None
            if state is not None:
                # Somebody else may find that it leads nowhere.
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(state / snapshot.CONSOLE, folder / CONSOLE)
                    opened = stack.enter_context((state / snapshot.STATE).open("rb"))
            shared = _shared(kernel, folder, shares)
            about.note(folder, kernel.release, labroot.path)
            first.put(labroot, folder, shared)
            (folder / "sshd_config").write_text(SSHD_CONFIG)
            sock = _sock(folder)
            sock.source.mkdir(mode=0o700)
            _make_keys(labroot, Bind(folder, "run", writable=True))
            console = Console(folder / CONSOLE)
            # The guest sees the lab root itself, without the sandbox's /proc and /dev.
            root = Bind(labroot.path, "root")
            pipe, inode = None, None
            if opened is None:
                console.path.write_bytes(b"")
                initrd = kernel.initrd is not None
                qemu = spec.qemu(root.inside, shared, f"{sock.inside}/ssh", initrd=initrd)
            else:
                inode = os.fstat(opened.fileno()).st_ino
                qemu = [*snapshot.command(spec, kernel, shared), *snapshot.incoming()]
                pipe = snapshot.make_pipe(folder)
                os.write(pipe, snapshot.word(spec))
            # QEMU boots the kernel from the folder that the guest may see as well.
            binds = [Bind(kernel.path, "kernel"), Bind(folder, "run", writable=True), sock, root]
            log = stack.enter_context((folder / "qemu.log").open("wb"))
            where = [] if place is None else ["nsenter", f"--net={place}", "--"]
            process = subprocess.Popen(
                [*where, *labroot.command(qemu, binds=list(dict.fromkeys([*binds, *shares])))],
                stdin=subprocess.DEVNULL if opened is None else opened,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for skblab, which then ends the guest in order.
                start_new_session=True,
            )
            cls._running.add(process)
            eventlog.note(eventlog.STARTED, kernel.key)
            transport = transport_of(folder, labroot, silent=spec.exact or spec.silent)
            guest = cls(spec, kernel, transport, console, folder, _process=process)
            guest._state, guest._inode, guest._pipe = state, inode, pipe
            times = functools.partial(halted.processor_times, process.pid)
            guest._first_cpu = halted.FirstCpu(times)
            transport.trouble = guest.trouble
        return guest

    @classmethod
    def end_all(cls) -> None:
        """Have all guests of this process end at once, whatever waits for them in its threads."""
        for process in list(cls._running):
            process.kill()

    def connect(self) -> None:
        """Wait until the guest is up and its connection open.

        With two emulated CPUs QEMU 10.0 fails an assertion of its own while the guest's kernel
        moves its devices' memory (iotlb_to_section), once in some hundred boots, and more often on
        a busy machine: that is no word on the guest, which is booted again. Nor is a timer of RCU
        that is lost while an emulated kernel starts, also one without our patches: RCU says so
        after two minutes. Nor is a CPU that takes no interrupt any more (halted.py).
        """
        for left in reversed(range(BOOTS)):
            try:
                self._connect()
                break
            except SkblabError:
                text = self._broke_while_booting()
                if self._anew is None or text is None or not left:
                    raise
                warnings.warn(f"{text}; booting the guest again", SkblabWarning, stacklevel=2)
                self._end(eventlog.AGAIN)
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                made = self._anew()
                self.console, self._process = made.console, made._process
                self._first_cpu = made._first_cpu
                self._inode = None
        if self._alone is not None:
            # Now that it is up, it was not the kernel.
            text = f"there is no snapshot of the guest, which has booted: {self._alone}"
            warnings.warn(text, SkblabWarning, stacklevel=2)

    def _broke_while_booting(self) -> str | None:
        """Return what broke a guest that never came up, if its kernel need not be at fault."""
        log = (self.folder / "qemu.log").read_text(errors="replace")
        if self._state is not None and self._inode is not None:
            complaint = self.trouble()
            if complaint == KILLED:
                return None
            # The next guest makes another one.
            snapshot.discard(self._state, self._inode)
            return f"a guest did not come up from its snapshot: {complaint or 'it is late'}"
        if self._is_halted():
            kept = _kept_log()
            self._copy_log(kept)
            return f"{halted.SAID} (console: {kept})"
        if self.console.cause() is not None:
            return self._lost_timer()
        failed = QEMU_ASSERTION.search(log)
        if failed is None:
            return None
        return f"QEMU failed an assertion of its own: {one_line(failed[0])}"

    def _lost_timer(self) -> str | None:
        """Return that a timer of RCU's own never fired, if the console has no other complaint."""
        if self.spec.accel != "tcg":
            return None
        deadline = time.monotonic() + DUMP_SECONDS
        while TIMER_LOST not in self.console.path.read_text(errors="replace"):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        self.console.poll()
        kinds = {finding.kind for finding in self.console.findings}
        if kinds != {Kind.STALL}:
            return None
        kept = _kept_log()
        self._copy_log(kept)
        return f"a timer of the guest's RCU was lost before it was up (console: {kept})"

    def _connect(self) -> None:
        limit = patience.limit(self.spec)
        deadline = time.monotonic() + limit
        while not (self.folder / "sock" / "ssh").exists():
            self.raise_if_dead()
            if time.monotonic() > deadline:
                raise patience.late(limit, "QEMU to start")
            time.sleep(0.02)
        while True:
            again = self.console.again
            # A client whose sshd has ended would wait for its answer without end.
            self.transport.trouble = functools.partial(self._refusal, again)
            try:
                self.transport.connect(deadline - time.monotonic())
                about.note_up(self.folder)
                return
            except TransportError as error:
                self.transport.close()
                if time.monotonic() >= deadline and self._refusal(again) is None:
                    what = "the first word of its kernel" if self.console.empty() else "its sshd"
                    raise patience.late(limit, what) from error
                if not self._sshd_again(again, deadline):
                    raise
                text = f"{one_line(str(error))}; connecting to the guest again"
                warnings.warn(text, SkblabWarning, stacklevel=2)
            finally:
                self.transport.trouble = self.trouble

    def _refusal(self, again: int) -> str | None:
        """Return the guest's trouble, or how the sshd ended that was started again so often."""
        if complaint := self.trouble():
            return complaint
        if self._is_halted():
            return halted.SAID
        ended = self.console.ended[again:]
        return f"the guest's {ended[0]}" if ended else None

    def _is_halted(self) -> bool:
        return self._first_cpu is not None and self._first_cpu.look() is not None

    def _sshd_again(self, again: int, deadline: float) -> bool:
        """Wait until init has started sshd once more: not where the guest ended or lets us wait."""
        until = min(deadline, time.monotonic() + AGAIN_SECONDS)
        while time.monotonic() < until:
            if self.trouble() or self._is_halted():
                return False
            if self.console.again > again:
                return True
            time.sleep(0.02)
        return False

    def trouble(self) -> str | None:
        """Return what is wrong with the guest in one line, or None while it is well."""
        if cause := self.console.cause():
            return f"guest {cause.kind.value}: {cause.text}"
        assert self._process is not None
        status = self._process.poll()
        if status is None:
            return None
        # The last words may have come after the look above.
        if cause := self.console.cause():
            return f"guest {cause.kind.value}: {cause.text}"
        lines = (self.folder / "qemu.log").read_text(errors="replace").splitlines()
        # unshare (util-linux 2.38) stumbles over its own clean-up when its child was killed.
        by_signal = any(line.startswith("unshare: sigprocmask") for line in lines)
        said = [line for line in lines if line.strip() and not line.startswith("unshare: ")]
        if said:
            return f"QEMU ended: {said[-1]}"
        if by_signal or status in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return KILLED
        if self.console.ended:
            return f"the guest's {self.console.ended[-1]}"
        return f"the guest ended by itself (QEMU exit status {status})"

    def raise_if_dead(self) -> None:
        """Raise GuestError if the guest is in trouble."""
        if complaint := self.trouble():
            raise GuestError(complaint)

    @contextlib.contextmanager
    def _explained(self, log: Path | None) -> Iterator[None]:
        """Turn what happens to a guest in trouble into one GuestError that names the log."""
        try:
            yield
        except SkblabError as error:
            if self.trouble() is None and not isinstance(error, GuestError):
                if not self.transport.connected():
                    kept = log or _kept_log()
                    self._copy_log(kept)
                    raise self._lost(f"{error}; console: {kept}", error) from error
                raise
            # A panic prints its first line before its trace: let it finish, for the log.
            with contextlib.suppress(subprocess.TimeoutExpired):
                assert self._process is not None
                self._process.wait(timeout=3)
            kept = log or _kept_log()
            self._copy_log(kept)
            raise self._lost(self._said(error, kept), error) from error

    def _said(self, error: SkblabError, kept: Path) -> str:
        """Return what to tell of an error that ends this guest: the first cause comes first."""
        complaint = self.trouble()
        where = f"console: {kept}{self._hint()}"
        if isinstance(error, GuestError) and error.told:
            # Of another guest: what happened to this one, maybe because of it, does not replace it.
            return str(error) if complaint is None else f"{error}; and then: {complaint}; {where}"
        if complaint is not None and complaint not in str(error):
            return f"{complaint}; {where}"
        return f"{error}; {where}"

    def _lost(self, said: str, error: SkblabError) -> GuestError:
        """Return the error of a guest that is lost, with what its kernel complained of."""
        lost = GuestError(said)
        lost.told = True
        self.console.poll()
        before = error.findings if isinstance(error, GuestError) else ()
        lost.findings = [*self.console.findings, *before]
        return lost

    def _hint(self) -> str:
        """Return what to do next, where we know; a KVM that runs nothing is not tried again."""
        if self.spec.accel == "kvm" and self.console.empty():
            kvm.remember_failure(self.trouble() or "the kernel said nothing")
            return "; KVM does not work here, run the command again and it will use TCG"
        return ""

    def _copy_log(self, target: Path) -> None:
        with disk.explained(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.console.path, target)

    def _power_off(self) -> None:
        """Let the guest end by itself: it does when its connection is closed."""
        assert self._process is not None
        self.transport.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=POWEROFF_SECONDS)

    def _end(self, event: str = eventlog.ENDED) -> None:
        """Leave nothing running. A guest has nothing to lose: its writes are with the host."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._running.discard(self._process)
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        self.transport.close()
        self.console.poll()
        eventlog.note(event, self.kernel.key, self.console.findings)


def _shared(kernel: Kernel, folder: Path, shares: Sequence[Bind]) -> list[Bind]:
    """Return what the guest of a folder mounts."""
    run = Bind(folder, "run", writable=True)
    # One that needs an initrd has more modules, which its guest loads when it needs them.
    own = [Bind(kernel.path, "kernel")] if kernel.initrd else []
    return list(dict.fromkeys([run, *own, *shares]))


def transport_of(folder: Path, labroot: LabRoot, *, silent: bool = False) -> SshTransport:
    """Return the way into the guest of a folder; its connection may be one that is open already.

    A `silent` one seldom sends something by itself: where instructions are counted, the guest's
    sshd would answer in the middle of a load; where allocations fail, it would end.
    """
    sock = _sock(folder)
    run = Bind(folder, "run", writable=True)
    return SshTransport(
        options=_ssh_options(f"{sock.inside}/ssh", silent),
        destination="root@guest",
        wrap=lambda argv: labroot.command(
            argv, binds=[run, sock], env={"TERM": os.environ.get("TERM", "dumb")}
        ),
    )


def _sock(folder: Path) -> Bind:
    return Bind(folder / "sock", "sock", writable=True)


def _make_folder() -> Path:
    base = paths.cache() / FOLDERS
    base.mkdir(exist_ok=True)
    _sweep(base)
    folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=base))
    return folder


def _sweep(base: Path) -> None:
    """Remove the folders of guests whose parent was killed and could not."""
    for old in base.iterdir():
        parent = old.name.partition("-")[0]
        if parent.isdigit() and not Path("/proc", parent).exists():
            shutil.rmtree(old, ignore_errors=True)


def _kept_log() -> Path:
    base = paths.cache() / "logs"
    base.mkdir(exist_ok=True)
    for old in sorted(base.glob("guest-*.log"))[: -KEPT_LOGS + 1]:
        old.unlink(missing_ok=True)
    return base / f"guest-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def _make_keys(labroot: LabRoot, run: Bind) -> None:
    """Make a host key and a client key for this guest alone."""
    make = "for k in host client; do ssh-keygen -q -t ed25519 -N '' -C skblab -f $k'_key'; done"
    labroot.run(["sh", "-ec", make], binds=[run], workdir=run.inside, what="ssh-keygen")
    host = (run.source / "host_key.pub").read_text()
    (run.source / "known_hosts").write_text(f"guest {host}")


def _ssh_options(socket: str, silent: bool) -> list[str]:
    options = {
        "ControlPath": f"{socket}.ctl",
        "ProxyCommand": f"nc -U {socket}",
        "IdentityFile": "/skblab/run/client_key",
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": "/skblab/run/known_hosts",
        "StrictHostKeyChecking": "yes",
        "KexAlgorithms": "curve25519-sha256",
        "LogLevel": "ERROR",
        "ConnectTimeout": str(patience.longest()),
        # A guest that answers nothing for two minutes hangs, and one that counts for an hour.
        "ServerAliveInterval": "600" if silent else "20",
        "ServerAliveCountMax": "6",
    }
    return ["-F", "none", *(f"-o{name}={value}" for name, value in options.items())]
