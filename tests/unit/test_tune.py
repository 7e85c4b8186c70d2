# SPDX-License-Identifier: GPL-2.0-or-later
"""skblab tune: what is chosen, tried together, advised; and the script that sets and reverts it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import test_sweep_wall as walls
from test_report import fake_gnuplot
from typer.testing import CliRunner

from skblab.cli import app
from skblab.knobs import effects
from skblab.knobs.applying import Applied, Applier
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.sweep import kept
from skblab.sweep.experiment import Experiment, read
from skblab.sweep.request import SHIPPED
from skblab.testbeds import Offered, Sending
from skblab.testbeds.netns import Netns
from skblab.tune import adding, choosing, conduct, deriving, judging, page, script, sweeping
from skblab.tune.adding import Added
from skblab.tune.deriving import BEST_ALONE, TOGETHER
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.words import FIXED_SPACE
from skblab_analysis.load import Run
from skblab_analysis.report import advice
from skblab_analysis.report.advice import Worth


def experiment(**more: object) -> Experiment:
    settings = [
        {"name": "loose", "knobs": {"rp_filter": 2}},
        {"name": "off", "knobs": {"rp_filter": 0}},
        {"name": "budget", "knobs": {"netdev_budget": 600}},
        {"name": "both", "knobs": {"rp_filter": 0, "netdev_budget": 600}},
    ]
    made = {
        "name": "few",
        "question": "Which?",
        "baseline": {"rp_filter": 1},
        "setting": settings,
        "measure": {"throughput": {"seconds": 1.0}},
    }
    return Experiment.model_validate(made | more)


def test_settings_are_set_together_unless_they_contradict_a_better_one() -> None:
    found = choosing.combine(experiment(), ["off", "loose", "budget", "both"])
    assert found.settings == ("off", "budget")
    assert found.knobs == {"rp_filter": 0, "netdev_budget": 600}
    assert found.left == (
        ("loose", "what is better wants rp_filter=0"),
        ("both", "what is better has all of it"),
    )
    # A knob that is as in the baseline is none that is set.
    wanted = experiment(setting=[{"name": "same", "knobs": {"rp_filter": 1, "netdev_budget": 9}}])
    assert choosing.combine(wanted, ["same"]).knobs == {"netdev_budget": 9}
    assert choosing.combine(experiment(), []) == choosing.Chosen((), {}, ())


def test_what_a_goal_needs_is_said() -> None:
    choosing.require(experiment(), "throughput", "few.toml")
    choosing.require(experiment(), "instructions", "few.toml")
    with pytest.raises(UsageError) as refused:
        choosing.require(experiment(), "latency", "few.toml")
    assert str(refused.value) == (
        "--for latency: few.toml has no [measure.latency]; write one, or ask for what there is: "
        "--for throughput or --for instructions"
    )


@pytest.mark.parametrize("name", sorted(file.stem for file in SHIPPED.glob("*.toml")))
def test_a_derived_experiment_is_read_back_as_it_is(name: str, tmp_path: Path) -> None:
    found = deriving.first(read(SHIPPED / f"{name}.toml"))
    file = tmp_path / "sweep.toml"
    file.write_text(deriving.text(found))
    kept.keep(tmp_path, found.rules)
    again = read(file)
    assert again == found
    assert (again.repeats.least, again.repeats.most) == (3, 30)
    best, *others = [setting.name for setting in found.settings()]
    chosen = choosing.combine(found, [best, *others[:1]])
    second = deriving.confirming(found, chosen)
    file.write_text(deriving.text(second))
    assert read(file) == second
    names = [setting.name for setting in second.settings()]
    assert names == ([TOGETHER, BEST_ALONE] if len(chosen.settings) > 1 else [TOGETHER])
    assert second.settings()[0].knobs == dict(chosen.knobs)
    assert second.traffic == found.traffic and second.baseline == found.baseline
    assert second.seed != found.seed


KNOBS_OF_FILES: Mapping[str, Value] = {
    "rp_filter": 0,
    "netdev_budget": 600,
    "threaded": True,
    "gro": False,
}


def test_the_script_has_what_a_file_or_a_flag_sets_and_nothing_else() -> None:
    others: dict[str, Value] = {
        "netfilter": "conntrack",
        "irq_affinity": "spread",
        "rss_key": "symmetric",
        "rps": "all",
        "queues": 2,
        "mtu": 1500,
        "kernel": "rt",
    }
    assert script.settable({**KNOBS_OF_FILES, **others}) == KNOBS_OF_FILES
    # The words of every knob that has an example can be read.
    assert page.sysctl_conf(others) == ""


@pytest.mark.parametrize(
    ("knob", "shown"),
    [
        ("gro", "generic-receive-offload"),
        ("gso", "generic-segmentation-offload"),
        ("tso", "tcp-segmentation-offload"),
        ("lro", "large-receive-offload"),
        ("rx_checksum", "rx-checksumming"),
        ("tx_checksum", "tx-checksumming"),
        ("gro_list", "rx-gro-list"),
        ("udp_gro", "rx-udp-gro-forwarding"),
        ("gro_hw", "rx-gro-hw"),
    ],
)
def test_a_feature_is_looked_up_by_the_name_that_ethtool_shows(knob: str, shown: str) -> None:
    made = script.script("advice.sh", [], {knob: False})
    assert f'feature "$device" {shown} off\n' in made


def test_what_only_a_boot_sets_is_a_comment() -> None:
    knobs: dict[str, Value] = {"mitigations": "off", "netdev_budget": 600}
    first, second = page.by_hand(knobs, KNOBS)
    assert first.startswith("# boot ") and "mitigations" in first
    assert second == "sysctl -w net.core.netdev_budget=600"


ETHTOOL = """#!/bin/sh
case "$1" in
-k) echo "generic-receive-offload: $(cat "$GRO")" ;;
-K) [ "$3" = generic-receive-offload ] && printf %s "$4" >"$GRO" ;;
esac
"""


@pytest.fixture
def router(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A router of files: what calls the script on it."""
    for name, value in (
        ("proc/sys/net/ipv4/conf/all/rp_filter", "2"),
        ("proc/sys/net/ipv4/conf/eth0.7/rp_filter", "1"),
        ("proc/sys/net/core/netdev_budget", "300"),
        ("sys/class/net/eth0.7/threaded", "0"),
        ("bin/ethtool", ETHTOOL),
        ("gro", "on"),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value)
    (tmp_path / "bin/ethtool").chmod(0o755)
    made = script.script("advice.sh", ["For a test."], KNOBS_OF_FILES)
    made = made.replace(script.SAVED, str(tmp_path / "saved"))
    made = made.replace("/proc/", f"{tmp_path}/proc/").replace(
        "/sys/class", f"{tmp_path}/sys/class"
    )
    file = tmp_path / "advice.sh"
    file.write_text(made)

    def call(*words: str, path: str = "") -> subprocess.CompletedProcess[str]:
        path = path or f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", file, *words],
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": path, "GRO": str(tmp_path / "gro")},
        )

    return call


def state(folder: Path) -> list[str]:
    names = (
        *("proc/sys/net/ipv4/conf/all/rp_filter", "proc/sys/net/ipv4/conf/eth0.7/rp_filter"),
        *("proc/sys/net/core/netdev_budget", "sys/class/net/eth0.7/threaded", "gro"),
    )
    return [(folder / name).read_text().strip() for name in names]


def test_the_script_sets_and_puts_back_what_it_found(
    tmp_path: Path, router: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    before = state(tmp_path)
    assert before == ["2", "1", "300", "0", "on"]
    done = router("eth0.7")
    assert done.returncode == 0, done.stderr
    assert state(tmp_path) == ["0", "0", "600", "1", "off"]
    # What was there is kept, and not taken for what it is now.
    again = router("eth0.7")
    assert again.returncode == 2 and "settings are in place of " in again.stderr
    back = router("--revert")
    assert back.returncode == 0, back.stderr
    assert state(tmp_path) == before
    assert router("--revert").returncode == 2


def test_the_script_shows_what_it_would_set(
    tmp_path: Path, router: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    before = state(tmp_path)
    shown = router("--show", "eth0.7").stdout.splitlines()
    values, beside = shown[:5], shown[5:]
    assert values[1].endswith("/proc/sys/net/core/netdev_budget: 300, would be 600")
    assert values[-1] == "eth0.7 generic-receive-offload: on, would be off"
    # What else each of them changes, from the table that the page has.
    assert beside == [
        f"{setting} changes also: {words}" for setting, words in effects.told(KNOBS_OF_FILES)
    ]
    assert beside[-1].startswith("gro=off changes also: Local TCP receivers")
    kept = router("--sysctl", "eth0.7").stdout.splitlines()
    assert kept == [
        "net/ipv4/conf/all/rp_filter = 0",
        "net/core/netdev_budget = 600",
        "net/ipv4/conf/eth0.7/rp_filter = 0",
    ]
    assert state(tmp_path) == before and not (tmp_path / "saved").exists()


@pytest.mark.parametrize(
    ("ethtool", "said"),
    [
        ("", "there is no ethtool"),
        ("#!/bin/sh\n", "shows no generic-receive-offload"),
        (ETHTOOL.replace('$(cat "$GRO")', "on [fixed]"), "of eth0.7 is fixed: on"),
    ],
)
def test_what_cannot_be_set_is_said_before_anything_is(
    tmp_path: Path,
    router: Callable[..., subprocess.CompletedProcess[str]],
    ethtool: str,
    said: str,
) -> None:
    before = state(tmp_path)
    if ethtool:
        (tmp_path / "bin/ethtool").write_text(ethtool)
        done = router("eth0.7")
    else:
        (tmp_path / "bin/ethtool").unlink()
        for tool in ("sh", "sed", "cat"):
            (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or "")
        done = router("eth0.7", path=str(tmp_path / "bin"))
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert state(tmp_path) == before and not (tmp_path / "saved").exists()


def test_what_cannot_be_put_back_keeps_nothing_else_from_it(
    tmp_path: Path, router: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    before = state(tmp_path)
    assert router("eth0.7").returncode == 0
    ethtool = (tmp_path / "bin/ethtool").read_text()
    (tmp_path / "bin/ethtool").write_text("#!/bin/sh\nexit 3\n")
    done = router("--revert")
    assert done.returncode == 1 and "not put back, and kept in" in done.stderr
    assert state(tmp_path) == [*before[:-1], "off"]
    assert (tmp_path / "saved").read_text() == "ethtool -K 'eth0.7' generic-receive-offload on\n"
    (tmp_path / "bin/ethtool").write_text(ethtool)
    assert router("--revert").returncode == 0
    assert state(tmp_path) == before and not (tmp_path / "saved").exists()


def test_what_fails_in_the_middle_is_put_back(
    tmp_path: Path, router: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    before = state(tmp_path)
    (tmp_path / "bin/ethtool").write_text(ETHTOOL.replace("printf", "[ $4 = on ] && printf"))
    done = router("eth0.7")
    assert done.returncode == 1 and "putting back" in done.stderr
    assert state(tmp_path) == before
    assert not (tmp_path / "saved").exists()


GROUPS = """Features for eth0:
rx-checksumming: on [fixed]
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
\ttx-checksum-sctp: off
scatter-gather: on
\ttx-scatter-gather: on
\ttx-scatter-gather-fraglist: off [fixed]
tcp-segmentation-offload: on
\ttx-tcp-segmentation: on
\ttx-tcp-ecn-segmentation: off
\ttx-tcp-mangleid-segmentation: off [requested on]
\ttx-tcp6-segmentation: on
generic-segmentation-offload: on
large-receive-offload: off [fixed]
"""
# As ethtool: a group's name stands for all its members that are not fixed.
SWITCHES = """
import os, re, sys
file = os.environ["FEATURES"]
lines = open(file).read().splitlines()
if sys.argv[1] == "-k":
    print("\\n".join(lines))
    sys.exit()
names = [line.split(":")[0] for line in lines]
for name, value in zip(sys.argv[3::2], sys.argv[4::2]):
    name = name if name in names else "\t" + name
    first = last = names.index(name)
    while last + 1 < len(names) and lines[last + 1].startswith("\t"):
        last += 1
    group = not name.startswith("\t")
    for at in range(first + (last > first), last + 1) if group else [first]:
        if "[fixed]" not in lines[at]:
            lines[at] = f"{names[at]}: {value}"
    while not (lines[first][0] != "\t"):
        first -= 1
    members = [line for line in lines[first + 1 : last + 1] if line.startswith("\t")]
    if members:
        on = any(re.search(": on", line) for line in members)
        lines[first] = f"{names[first]}: {'on' if on else 'off'}"
open(file, "w").write("\\n".join(lines) + "\\n")
"""


def test_of_a_group_each_member_is_put_back_as_it_was(tmp_path: Path) -> None:
    features, tool = tmp_path / "features", tmp_path / "bin/ethtool"
    tool.parent.mkdir()
    (tmp_path / "switches.py").write_text(SWITCHES)
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/switches.py "$@"\n')
    tool.chmod(0o755)
    device = tmp_path / "sys/class/net/eth0"
    device.mkdir(parents=True)
    off: dict[str, Value] = {"tso": False, "tx_checksum": False, "gso": False}
    made = script.script("advice.sh", ["For a test."], off)
    made = made.replace(script.SAVED, str(tmp_path / "saved"))
    file = tmp_path / "advice.sh"
    file.write_text(made.replace("/sys/class", f"{tmp_path}/sys/class"))

    def call(*words: str) -> str:
        env = {"PATH": f"{tool.parent}:{os.environ['PATH']}", "FEATURES": str(features)}
        done = subprocess.run(
            ["sh", file, *words], check=False, capture_output=True, text=True, env=env
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    features.write_text(GROUPS)
    shown = call("--show", "eth0").splitlines()
    assert "eth0 tcp-segmentation-offload: on, would be off" in shown
    assert "  with it tx-tcp-ecn-segmentation: off, would be off" in shown
    assert "  with it tx-tcp-mangleid-segmentation: on, would be off" in shown
    assert not any("tx-checksum-ipv4" in line for line in shown)
    assert features.read_text() == GROUPS
    call("eth0")
    now = features.read_text()
    assert (
        now != GROUPS and "\ttx-tcp-segmentation: off" in now and "\ttx-scatter-gather: on" in now
    )
    assert sorted((tmp_path / "saved").read_text().splitlines()[:-1]) == [
        "ethtool -K 'eth0' generic-segmentation-offload on",
        "ethtool -K 'eth0' tx-checksum-ip-generic on tx-checksum-sctp off",
        "ethtool -K 'eth0' tx-tcp-segmentation on tx-tcp-ecn-segmentation off "
        "tx-tcp-mangleid-segmentation on tx-tcp6-segmentation on",
    ]
    call("--revert")
    # What was asked for and could not be is asked for again: this ethtool then has it.
    assert features.read_text() == GROUPS.replace("off [requested on]", "on")


def test_a_feature_that_is_so_already_is_not_touched(tmp_path: Path) -> None:
    """Also a group of which all members are."""
    members = "tx-tcp-segmentation off\ntx-tcp6-segmentation off"
    made = script.script("advice.sh", [], {"tso": False})
    _, _, rest = made.partition("feature() {")
    body = "feature() {" + rest.partition("\n}\n")[0] + "\n}\n"
    shell = f"""set -eu
newline='
'
mode=apply
members() {{ echo '{members}'; }}
ethtool() {{ [ "$1" = -k ] || echo changed; }}
save() {{ echo saved; }}
{body}feature eth0 tcp-segmentation-offload "$1"
"""
    for wanted, said in (("off", ""), ("on", "saved\nchanged\n")):
        call = ["sh", "-c", shell, "sh", wanted]
        done = subprocess.run(call, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_a_page_says_what_else_its_settings_change() -> None:
    told = page.Told(
        question="Which?",
        goal="throughput",
        where="a guest",
        kernel="6.12",
        traffic=(),
        together=["a"],
        ranked=(),
        elsewhere=(),
        mixed=(),
        only_here=(),
        left=(),
        not_tested=(),
        no_gain=(),
        confirmed="",
        caution="",
        why_none="",
        reports=(),
        knobs={"gro": False, "sysctl.net.ipv4.ip_early_demux": 0, "patches": True},
    )
    lines = list(page.page(told))
    begin = lines.index("## What these settings change beside that")
    assert lines[begin + 2].startswith("- gro=off: Local TCP receivers get each segment")
    assert lines[begin + 3] == f"- sysctl.net.ipv4.ip_early_demux=0: {effects.UNKNOWN}"
    assert not lines[begin + 4].startswith("- ")
    nothing = replace(told, why_none="Nothing.", knobs={})
    assert not any("change beside" in line for line in page.page(nothing))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "expected the router's network devices"),
        (("--undo",), "expected the router's network devices"),
        (("eth9",), "no network device eth9"),
        (("eth0.7", "eth9"), "no network device eth9"),
    ],
)
def test_a_script_of_words_that_it_does_not_know_does_nothing(
    tmp_path: Path,
    router: Callable[..., subprocess.CompletedProcess[str]],
    words: tuple[str, ...],
    said: str,
) -> None:
    before = state(tmp_path)
    done = router(*words)
    assert done.returncode == 2 and said in done.stderr
    assert state(tmp_path) == before and not (tmp_path / "saved").exists()


def test_the_script_is_clean(tmp_path: Path) -> None:
    file = tmp_path / "advice.sh"
    file.write_text(script.script("advice.sh", ["For a test."], {**KNOBS_OF_FILES, "tso": False}))
    call = [Path(sys.executable).with_name("shellcheck"), file]
    checked = subprocess.run(call, check=False, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_files_for_a_reboot() -> None:
    conf = page.sysctl_conf(KNOBS_OF_FILES).splitlines()
    assert conf == [
        "# Lines of DEVICE are for each port: sh advice.sh --sysctl PORT… prints them.",
        "net.ipv4.conf.all.rp_filter = 0",
        "# net.ipv4.conf.DEVICE.rp_filter = 0",
        "net.core.netdev_budget = 600",
    ]
    tuned = page.tuned_conf(KNOBS_OF_FILES)
    assert tuned.startswith("[main]\nsummary=")
    assert tuned.endswith(
        "[sysctl]\nnet.ipv4.conf.all.rp_filter=0\n"
        "# not here, as each port has its own: net.ipv4.conf.DEVICE.rp_filter=0\n"
        "net.core.netdev_budget=600\n"
    )
    assert page.tuned_conf({"gro": False}) == ""


def test_a_page_says_what_each_file_keeps_and_what_none_does() -> None:
    knobs: dict[str, Value] = {"rp_filter": 0, "netdev_budget": 600, "gro": False}
    *_, script_keeps, tuned, none = page._how(knobs)
    assert script_keeps.endswith("90-skblab.conf` keeps: rp_filter, netdev_budget.")
    assert tuned.endswith("with: netdev_budget.")
    assert none == "No file here keeps over a reboot: gro."
    *_, conf, _ = page._how({"netdev_budget": 600})
    assert conf == "Over a reboot, sysctl.conf in /etc/sysctl.d keeps: netdev_budget."
    assert list(page._how({"gro": False}))[-1].startswith("No file here")


def test_what_no_shell_takes_is_no_command() -> None:
    knobs: dict[str, Value] = {
        "netdev_budget": 600,
        "netfilter": "nft-input-set 50",
        "irq_affinity": "spread",
    }
    made = "\n".join(page._commands(knobs, KNOBS))
    commands, _, others = made.partition("To put into your router's own words:")
    assert commands.strip() == "sysctl -w net.core.netdev_budget=600"
    assert others.count("\n- `") == 2 and "load none of these" in others


def test_knobs_of_the_same_thing_are_not_set_together() -> None:
    settings = [
        {"name": "threads", "knobs": {"threaded": True}},
        {"name": "busy", "knobs": {"napi_threaded": "busy-poll"}},
        {"name": "threads and budget", "knobs": {"threaded": True, "netdev_budget": 600}},
        {"name": "budget", "knobs": {"netdev_budget": 600}},
    ]
    found = choosing.combine(
        experiment(setting=settings), ["threads and budget", "busy", "threads", "budget"]
    )
    assert found.settings == ("threads and budget",)
    assert found.left == (
        ("busy", "what is better wants threaded=on"),
        ("threads", "what is better has all of it"),
        ("budget", "what is better has all of it"),
    )
    wanted = deriving.confirming(experiment(setting=settings), found)
    assert [setting.name for setting in wanted.settings()] == [TOGETHER]


def test_long_names_are_cut() -> None:
    found = experiment(name="n" * 48)
    chosen = choosing.combine(found, ["off", "budget"])
    for derived in (deriving.first(found), deriving.confirming(found, chosen)):
        assert len(derived.name) == 48
        Experiment.model_validate_json(derived.model_dump_json(exclude_none=True))


class Alike(walls.Guest):
    """A guest in which the filter costs nothing."""

    def apply(self, settings: Mapping[str, Value]) -> list[Applied]:
        found = super().apply(settings)
        self.rp_filter = "0"
        return found


def tuned(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    guests: Sequence[walls.Guest],
    text: str = walls.SLOW_BASELINE,
) -> tuple[dict[str, object], Path]:
    """Tune with made-up guests, one after the other, the last one again and again."""

    @contextlib.contextmanager
    def guest(*_: object) -> Iterator[tuple[Netns, Applier]]:
        one = left.pop(0) if len(left) > 1 else left[0]
        yield cast(Netns, one), cast(Applier, one)

    left = list(guests)
    file = walls.as_if_booted(tmp_path, monkeypatch, guest)
    file.write_text(text)
    monkeypatch.setattr(sweeping, "gnuplot", lambda root: fake_gnuplot)
    call = ["tune", str(file), "--testbed", "netns", "--minutes", "600", "--json"]
    monkeypatch.setattr(deriving, "MOST_BLOCKS", 3)
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.exception
    document = json.loads(done.stdout)
    return document, Path(document["folder"])


def test_what_is_better_in_both_sweeps_is_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, folder = tuned(tmp_path, monkeypatch, [walls.Guest()])
    assert document["settings"] == ["no filter"] and document["why_none"] == ""
    told = (folder / "advice.md").read_text().replace(FIXED_SPACE, " ")
    assert "**Set no filter.** Measured again, no filter: throughput +" in told
    assert "sysctl -w net.ipv4.conf.all.rp_filter=0" in told
    assert (
        "Differences are from the baseline (rp_filter=1, gro_flush" in told
        and "strict: the" in told
    )
    assert "This was not your router but a guest of skblab's" in told
    assert "## No significant difference alone" not in told
    assert {file.name for file in folder.iterdir()} == {
        *("advice.md", "advice.sh", "sysctl.conf", "tuned.conf", "sweep.toml", "confirm.toml"),
        *("experiment.toml", "tune.json"),
    }
    confirm = tomllib.loads((folder / "confirm.toml").read_text())
    assert [setting["name"] for setting in confirm["setting"]] == [TOGETHER]
    assert len(list((tmp_path / "results").glob("few-*"))) == 2


def test_what_is_not_better_in_fresh_boots_is_not_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = [walls.Guest(), walls.Guest(), walls.Guest(), Alike()]
    document, folder = tuned(tmp_path, monkeypatch, guests)
    assert document["settings"] == []
    assert document["why_none"] == "What was better in the sweep was not so when measured again."
    told = (folder / "advice.md").read_text()
    assert "**Set nothing.**" in told and "no filter: not significantly better" in told
    assert not (folder / "advice.sh").exists()
    assert list(folder.glob("*.conf")) == []


def test_where_no_setting_is_better_there_is_no_second_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, folder = tuned(tmp_path, monkeypatch, [Alike()])
    assert document["settings"] == [] and document["confirmed"] == ""
    assert str(document["why_none"]).startswith("No setting is significantly better")
    assert not (folder / "confirm.toml").exists()
    assert (
        "## No significant difference alone\n\n- no filter\n" in (folder / "advice.md").read_text()
    )


def test_where_a_setting_is_better_by_another_figure_only_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conduct, "gain", lambda *_: 0.0)
    document, folder = tuned(tmp_path, monkeypatch, [walls.Guest()])
    assert (document["settings"], document["confirmed"]) == ([], "")
    assert document["why_none"] == "No setting is better for throughput."
    told = (folder / "advice.md").read_text()
    assert "## Better by another figure than the one that was asked for\n\n- no filter: " in told


SEVERAL = """
name = "few"
question = "What is wrong here?"
[baseline]
rp_filter = 1
netdev_budget = 300
dev_weight = 64
[[setting]]
name = "no filter"
knobs = { rp_filter = 0 }
[[setting]]
name = "budget"
knobs = { netdev_budget = 600 }
[[setting]]
name = "weight"
knobs = { dev_weight = 128 }
[measure.throughput]
trials = 1
[repeats]
least = 2
most = 2
"""


@dataclass
class Among(walls.Guest):
    """A guest whose router is as slow as `slow` says of its knobs, from 0 (not) to 1."""

    slow: Callable[[Mapping[str, Value]], float] = lambda _: 0.0
    router: float = walls.ROUTER

    def apply(self, settings: Mapping[str, Value]) -> list[Applied]:
        self.router = walls.ROUTER - self.slow(settings) * (walls.ROUTER - walls.SLOW)
        return [
            Applied(name, value, "as it was", str(value), str(value))
            for name, value in settings.items()
        ]

    def offer(self, sending: Sending) -> Offered:
        offered = super().offer(sending)
        if sending.tester:
            return offered
        passed = min(offered.sent, int(self.router * offered.microseconds / 1e6))
        return replace(offered, forwarded=passed, received=passed)


def is_set(knobs: Mapping[str, Value], *names: str) -> bool:
    wanted = {"no filter": ("rp_filter", 0), "budget": ("netdev_budget", 600)}
    wanted["weight"] = ("dev_weight", 128)
    return all(knobs.get(wanted[name][0]) == wanted[name][1] for name in names)


@pytest.mark.parametrize(
    ("slow", "advised", "added"),
    [
        # Neither is seen alone.
        (
            lambda knobs: 0.0 if is_set(knobs, "no filter", "budget") else 1.0,
            ["budget", "no filter"],
            {"no filter": "throughput −", "budget": "throughput −", "weight": "no significant"},
        ),
        # One of two is enough.
        (
            lambda knobs: 0.0 if is_set(knobs, "no filter") or is_set(knobs, "budget") else 1.0,
            ["no filter"],
            dict.fromkeys(("no filter", "budget", "weight"), "no significant"),
        ),
        # Both are good, and the third takes from them what it gives alone.
        (
            lambda knobs: (
                0.9
                - 0.4 * is_set(knobs, "no filter")
                - 0.4 * is_set(knobs, "budget")
                + (0.1 if is_set(knobs, "no filter") else -0.1) * is_set(knobs, "weight")
            ),
            ["budget", "no filter"],
            {"no filter": "throughput −", "budget": "throughput −", "weight": "throughput +"},
        ),
    ],
    ids=["together", "instead", "against"],
)
def test_what_helps_only_with_others_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slow: Callable[[Mapping[str, Value]], float],
    advised: list[str],
    added: dict[str, str],
) -> None:
    document, folder = tuned(tmp_path, monkeypatch, [Among(slow=slow)], SEVERAL)
    assert sorted(cast(list[str], document["settings"])) == advised
    assert document["why_none"] == ""
    told = (folder / "advice.md").read_text().replace(FIXED_SPACE, " ")
    _, _, part = told.partition("## What changes if one is left out\n\n")
    lines = dict(line[2:].split(": ", 1) for line in part.partition("\n\n")[0].splitlines())
    assert lines.keys() == added.keys()
    for name, words in added.items():
        assert lines[name].startswith(f"without it, {words}"), lines
    for name in added.keys() - set(advised):
        if f"- {name}: throughput +" in told:
            assert f"- {name}: with" in told
    each = tomllib.loads((folder / "each.toml").read_text())
    assert [setting["name"] for setting in each["setting"]] == [
        TOGETHER,
        *(f"without {name}" for name in chosen_order(each)),
    ]
    assert len(cast(list[str], document["reports"])) == 3


def test_where_nothing_can_be_told_there_is_nothing_to_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = experiment()
    assert adding.trying(made, choosing.combine(made, [])) == []
    assert [one.name for one in adding.trying(made, choosing.combine(made, ["off"]))] == [TOGETHER]
    monkeypatch.setattr(adding, "hopeful", lambda *_: [])
    document, folder = tuned(tmp_path, monkeypatch, [Alike()])
    assert document["settings"] == []
    assert not (folder / "each.toml").exists()


def test_what_helps_together_is_chosen_though_no_part_of_it_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With few blocks, all at once may be seen to be better, and none of it to be needed."""
    made = experiment()
    whole = choosing.combine(made, ["off", "budget"])
    each = cast(Run, SimpleNamespace())
    good = SimpleNamespace(name=TOGETHER, better=[SimpleNamespace(gain=2.0, of=MEASURED)])
    monkeypatch.setattr(advice, "of", lambda run: SimpleNamespace(ranked=[good]))
    idle = Added(idle=("off", "budget"))
    chosen, others = judging.choice("throughput", made, [], whole, each, idle)
    assert chosen.settings == ("off", "budget") and others is None
    harmful = Added(harmful=(("budget", cast(Worth, None)),), idle=("off",))
    chosen, _ = judging.choice("throughput", made, [], whole, each, harmful)
    assert chosen.settings == ("off",)
    # What was better alone is, with all else that does no harm beside it.
    chosen, others = judging.choice("throughput", made, ["off"], whole, each, harmful)
    assert chosen.settings == ("off",) == (others or chosen).settings
    monkeypatch.setattr(advice, "of", lambda run: SimpleNamespace(ranked=[]))
    chosen, _ = judging.choice("throughput", made, [], whole, each, idle)
    assert chosen.settings == ()


def test_names_that_are_cut_differ() -> None:
    long = "a setting with a name that is as long as a name may be at all"[:60]
    made = experiment(
        setting=[
            {"name": f"{long[:-1]}{number}", "knobs": {knob: value}}
            for number, (knob, value) in enumerate((("rp_filter", 0), ("netdev_budget", 600)))
        ]
    )
    chosen = choosing.combine(made, [one.name for one in made.settings()])
    names = [one.name for one in adding.trying(made, chosen)]
    assert len(set(names)) == 3 and max(map(len, names)) <= 60


MEASURED = SimpleNamespace(measure="throughput")


def chosen_order(each: Mapping[str, Any]) -> list[str]:
    return [setting["name"].removeprefix("without ") for setting in each["setting"][1:]]


def test_bad_usage_is_one_line() -> None:
    for words, said in (
        (["--for", "fun"], "--for fun: expected one of throughput, latency, instructions"),
        (["--testbed", "mars"], "--testbed mars: expected one of "),
        (["--for", "latency"], "--for latency: quick has no [measure.latency]"),
        (["--testbed", "hosts"], "--testbed hosts needs --hosts FILE"),
    ):
        done = CliRunner().invoke(app, ["tune", "quick", *words])
        assert isinstance(done.exception, UsageError)
        assert str(done.exception).startswith(said)
