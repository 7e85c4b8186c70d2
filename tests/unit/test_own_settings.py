# SPDX-License-Identifier: GPL-2.0-or-later
"""Settings that no knob of skblab's knows: any sysctl, commands of the user's own, rules of nft."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutated import contents, examples, value_or_line
from skblab.knobs import applying, commands, keys, rules
from skblab.knobs.applying import Applier, Undo
from skblab.knobs.base import UNABLE, Unable
from skblab.knobs.commands import Commands
from skblab.knobs.netfilter import Netfilter
from skblab.knobs.registry import KNOBS
from skblab.knobs.rules import Texts
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine
from skblab.machine.transport import LocalTransport
from skblab.sweep import inputs, kept, session
from skblab.sweep import plan as plans
from skblab.sweep.experiment import Experiment, faults, knobs_of
from skblab.sweep.request import EXPERIMENT, Request, read, unfinished
from skblab.tune import deriving, script
from skblab_analysis.base.errors import SkblabError, UsageError

HERE = Machine((Device("r0"), Device("r1")))
HEAD = 'name = "own"\nquestion = "?"\n'
COMMANDS = """
[commands.fast]
set = "echo {value} >it"
get = "cat it"
restore = "echo {value} >it"
"""
OWN = f"""{HEAD}
[baseline]
sysctl."net.ipv4.tcp_sack" = 0
netfilter = "mine.nft"

[[setting]]
name = "a"
knobs = {{ sysctl.vm.swappiness = 10, fast = 3 }}

[matrix]
sysctl."net.ipv4.conf.{{port}}.proxy_arp" = [true, false]
{COMMANDS}
[measure.throughput]
"""
RULES = "flush ruleset\ntable inet mine {\n\tchain c {\n\t\tct state new accept\n\t}\n}\n"


def written(folder: Path, text: str, rules_text: str = RULES) -> Path:
    (folder / "mine.nft").write_text(rules_text)
    file = folder / "own.toml"
    file.write_text(text)
    return file


def refused(folder: Path, text: str) -> str:
    """Return what is said of an experiment file, without its name."""
    file = written(folder, text)
    with pytest.raises(UsageError) as error:
        read(str(file))
    return str(error.value).removeprefix(f"{file}:")


def test_all_three_stand_where_knobs_do(tmp_path: Path) -> None:
    found = read(str(written(tmp_path, OWN)))
    assert dict(found.baseline) == {"sysctl.net.ipv4.tcp_sack": 0, "netfilter": "mine.nft"}
    a, *both = found.settings()
    assert a.knobs == {"sysctl.vm.swappiness": 10, "fast": 3}
    assert [one.name for one in both] == [
        f"sysctl.net.ipv4.conf.port.proxy_arp={word}" for word in ("on", "off")
    ]
    for setting in (None, *found.settings()):
        for name, value in knobs_of(found, setting).items():
            assert found.catalogue[name].by_hand(value)


def test_a_derived_file_has_them_as_well(tmp_path: Path) -> None:
    found = read(str(written(tmp_path, OWN)))
    other = tmp_path / "other"
    other.mkdir()
    (other / "sweep.toml").write_text(deriving.text(found))
    kept.keep(other, found.rules)
    again = read(str(other / "sweep.toml"))
    assert again == found
    assert again.rules == found.rules == {"mine.nft": RULES}


@pytest.mark.parametrize(
    ("written_as", "name"),
    [
        ('sysctl."net.ipv4.tcp_sack"', "sysctl.net.ipv4.tcp_sack"),
        ("sysctl.net.ipv4.tcp_sack", "sysctl.net.ipv4.tcp_sack"),
        ('"sysctl.net.ipv4.tcp_sack"', "sysctl.net.ipv4.tcp_sack"),
        ('sysctl."net/ipv4/tcp_sack"', "sysctl.net.ipv4.tcp_sack"),
        ('sysctl."net.ipv4.conf.eth0/100.rp_filter"', "sysctl.net.ipv4.conf.eth0/100.rp_filter"),
        ('sysctl."net/ipv4/conf/eth0.100/rp_filter"', "sysctl.net.ipv4.conf.eth0/100.rp_filter"),
    ],
)
def test_a_sysctl_has_one_name(tmp_path: Path, written_as: str, name: str) -> None:
    found = read(str(written(tmp_path, f"{HEAD}[baseline]\n{written_as} = 1\n")))
    assert list(found.baseline) == [name]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("sysctl.net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
        ("sysctl.kernel.panic", "kernel/panic"),
    ],
)
def test_where_a_sysctl_is(name: str, path: str) -> None:
    assert keys.path(name) == path
    assert f"/proc/sys/{path}" in KNOBS[name].get(HERE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[baseline]\nsysctl."net" = 1\n', "4: baseline.sysctl.net: no such sysctl; write "),
        ('[baseline]\nsysctl."net..x" = 1\n', "4: baseline.sysctl.net..x: no such sysctl"),
        ('[baseline]\nsysctl."net/ipv4/../x" = 1\n', "4: baseline.sysctl.net/ipv4/../x: no such"),
        ('[baseline]\nsysctl."net.ipv4.$(reboot)" = 1\n', "4: baseline.sysctl.net.ipv4.$(reboot)"),
        ("[baseline]\nsysctl = 1\n", "4: baseline.sysctl: no such sysctl; write "),
        (
            '[baseline]\nsysctl."net.x" = 1\nsysctl."net/x" = 2\n',
            "3: baseline: sysctl.net.x is there twice, expected it once",
        ),
        (
            '[baseline]\nsysctl."net.x" = "a\\nb"\n',
            "4: baseline.sysctl.net.x: 'a\\nb': expected a whole number, true or false (1 or 0)",
        ),
        ('[matrix]\nsysctl."net.x" = [1, 0.5]\n', "4: matrix.sysctl.net.x: 0.5: expected a whole"),
        (
            "[baseline]\nnet.ipv4.tcp_sack = 1\n",
            '4: baseline.net.ipv4.tcp_sack: no such knob; write `sysctl."net.ipv4.tcp_sack"`',
        ),
        (
            '[baseline]\nnetdev_budget = 1\n[[setting]]\nname = "a"\n'
            'knobs = { sysctl."net.core.netdev_budget" = 2 }\n',
            "7: setting.0.knobs.sysctl.net.core.netdev_budget: the knob netdev_budget sets it as",
        ),
        (
            '[baseline]\nrp_filter = 1\nsysctl."net.ipv4.conf.{port}.rp_filter" = 2\n',
            "5: baseline.sysctl.net.ipv4.conf.{port}.rp_filter: the knob rp_filter sets it as well",
        ),
        (
            '[baseline]\nrp_filter = 1\nsysctl."net.ipv4.conf.r0.rp_filter" = 2\n',
            "5: baseline.sysctl.net.ipv4.conf.r0.rp_filter: the knob rp_filter sets it as well",
        ),
        (
            '[baseline]\nip_forward = true\nsysctl."net.ipv4.conf.all.forwarding" = 1\n',
            "5: baseline.sysctl.net.ipv4.conf.all.forwarding: the knob ip_forward sets it as well",
        ),
        (
            '[baseline]\nsysctl."net.x.{port}.y" = 1\n[[setting]]\nname = "a"\n'
            'knobs = { sysctl."net.x.r1.y" = 2 }\n',
            "7: setting.0.knobs.sysctl.net.x.r1.y: sysctl.net.x.{port}.y sets it as well: use one",
        ),
        *(
            (f'[baseline]\nsysctl."{key}" = {value}\n', f"4: baseline.sysctl.{key}: {said}")
            for key, value, said in (
                ("kernel.modules_disabled", "1", "1: kernel/modules_disabled cannot be put back: "),
                ("kernel.modules_disabled", "true", "true: kernel/modules_disabled cannot be put"),
                ("kernel.kexec_load_disabled", "0", "0: kernel/kexec_load_disabled cannot be put"),
                ("kernel.unprivileged_bpf_disabled", '" 1"', "' 1': kernel/unprivileged_bpf_dis"),
                ("kernel.yama.ptrace_scope", "3", "3: kernel/yama/ptrace_scope cannot be put ba"),
                ("net.ipv6.conf.all.disable_ipv6", "1", "1: net/ipv6/conf/all/disable_ipv6 canno"),
                ("net.ipv6.conf.{port}.disable_ipv6", "1", "1: net/ipv6/conf/{port}/disable_ipv6"),
            )
        ),
        (f"[baseline]\nfats = 1\n{COMMANDS}", "4: baseline.fats: no such knob; the nearest is `fa"),
        (f"[baseline]\nfast = 0.5\n{COMMANDS}", "4: baseline.fast: 0.5: expected what the command"),
        (f'[baseline]\nfast = " a"\n{COMMANDS}', "4: baseline.fast: ' a': expected what the comm"),
        (COMMANDS.replace("fast", "gro"), "4: commands.gro: is a knob of skblab's: choose another"),
        (COMMANDS.replace('get = "cat it"\n', ""), "4: commands.fast.get: is missing: write it"),
        ("[commands]\nset = 'x'\n", "4: commands.set: write [commands.NAME] with set, get and r"),
        (COMMANDS.replace("cat it", " "), "6: commands.fast.get: is empty: write the command"),
        (COMMANDS.replace("cat it", "{value}"), "6: commands.fast.get: has {value}, and is to fi"),
        (COMMANDS.replace("{value} >it", "x"), "5: commands.fast.set: has no {value}: write it"),
        (
            COMMANDS.replace("cat it", "cat /sys/class/net/${port}/mtu"),
            "6: commands.fast.get: has ${port}, a variable of the shell: write {port}, without",
        ),
        ('[baseline]\nnetfilter = "no.nft"\n', "4: baseline.netfilter: cannot read the rules in "),
        ('[baseline]\nnetfilter = "mïne.nft"\n', "4: baseline.netfilter: 'mïne.nft': expected 'n"),
        ('[baseline]\nnetfilter = "mine٣.nft"\n', "4: baseline.netfilter: 'mine٣.nft': expected"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    assert refused(tmp_path, HEAD + text + "[measure.throughput]\n").startswith(said)


def test_a_name_of_thousands_of_tables_is_one_line(tmp_path: Path) -> None:
    for name in ("sysctl", "x"):
        assert "\n" not in refused(tmp_path, f"{HEAD}[baseline]\n{name}{'.a' * 4000} = 1\n")


@examples
@given(contents(OWN))
def test_any_file_is_an_experiment_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "mine.nft").write_text(RULES)
    (folder / "own.toml").write_bytes(data)

    def turn() -> None:
        found = read(str(folder / "own.toml"))
        assert list(faults(found)) == []
        plan = plans.make(found, exact=True)
        for _, setting, _ in plan.measurements():
            for name, value in setting.knobs.items():
                assert found.catalogue[name].by_hand(value)

    value_or_line(turn)


@examples
@given(contents(RULES))
def test_any_rules_are_a_text_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.mktemp("any") / "mine.nft"
    file.write_bytes(data)
    try:
        text = rules.read(file)
    except ValueError as error:
        assert str(error).startswith((f"{file}:", "cannot read the rules"))
        assert "\n" not in str(error)
    else:
        assert text.encode() == data


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", " is empty"),
        (b"table x y {}\n\xff", "2: invalid start byte, expected UTF-8"),
        (b"a\n\0", "2: has a NUL character"),
        *(
            (text, f"{line}: includes another file")
            for text, line in (
                (b'a\nb; include "other.nft"', 2),
                (b'table x { comment "a#b"; }\n; include "/etc/x"', 2),
                (b'define a = "#"; include "/etc/x"', 1),
                (b'define a = "# b\nc"; include "/etc/x"', 2),
                (b'a\ninc\\\nlu\\\r\nde "/etc/x"', 2),
                (b'# it ends here \\\ninclude "/etc/x"', 2),
                (b'# a " b\ninclude "/etc/x" # "', 2),
                (b'table x {}include"/etc/x"', 1),
            )
        ),
        (b"table inet sk\\\nblab {}", "1: skblab is the table of skblab's own"),
        (b'table inet "skblab" {}', "1: skblab is the table of skblab's own"),
        (b"table inet skblab {}", "1: skblab is the table of skblab's own"),
        (b"#" * (rules.MOST_BYTES + 1), " has 1048577 bytes, expected at most 1048576"),
    ],
)
def test_rules_that_cannot_be_kept(tmp_path: Path, text: bytes, said: str) -> None:
    file = tmp_path / "mine.nft"
    file.write_bytes(text)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{file}:{said}')}"):
        rules.read(file)


def test_comments_strings_and_longer_words_may_have_it(tmp_path: Path) -> None:
    text = """# include skblab
table inet mine { # include
\tcomment "include # it"; comment "of two lines
include"
\tchain re-include { }
\tchain included { }
}
"""
    (tmp_path / "mine.nft").write_text(text)
    assert rules.read(tmp_path / "mine.nft") == text


def test_the_plan_of_a_file_without_commands_is_what_it_was() -> None:
    asked = {"name": "few", "question": "?", "baseline": {"rp_filter": 0}}
    found = Experiment.model_validate(asked)
    assert plans.make(found, exact=True).digest == "24992323524727dc"
    own = {"x": {"set": "{value}", "get": "x", "restore": "x"}}
    assert (
        plans.make(Experiment.model_validate({**asked, "commands": own})).digest
        != "24992323524727dc"
    )


def test_a_run_has_the_rules_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path / "results"))
    file = written(tmp_path, OWN)
    plan, folder = Request(str(file), exact=True).begin()
    inputs.check(folder, inputs.files(plan))
    assert (folder.path / EXPERIMENT).read_bytes() == file.read_bytes()
    [copy] = (folder.path / kept.FOLDER).iterdir()
    assert copy.read_text() == RULES
    # What becomes of the user's file is nothing to it.
    written(tmp_path, OWN, "table inet other {}\n")
    again, there = unfinished(folder.path)
    assert again.experiment.rules == {"mine.nft": RULES}
    inputs.check(there, inputs.files(again))
    copy.write_text("table inet other {}\n")
    again, there = unfinished(folder.path)
    with pytest.raises(UsageError, match=r"netfilter mine\.nft was \w{16} when it began"):
        inputs.check(there, inputs.files(again))


def test_rules_of_any_folder_are_kept_by_one_name(tmp_path: Path) -> None:
    values = {"../a.nft": "1", "/etc/a.nft": "2", "b/a.nft": "3"}
    kept.keep(tmp_path, values)
    assert {value: kept.file(tmp_path, value).read_text() for value in values} == values
    assert kept.file(tmp_path, "c.nft") == tmp_path / "c.nft"


def test_a_run_has_the_names_of_files_and_not_their_texts(tmp_path: Path) -> None:
    routes = tmp_path / "table.txt"
    routes.write_text("5.0.0.0/16\n")
    settings = "".join(
        f"[[setting]]\nname = {name!r}\nknobs = {{ netfilter = {file!r}, busy_poll = 5 }}\n"
        for name, file in (("a", "mine.nft"), ("b", "../my+rules.nft"))
    )
    (tmp_path / "own").mkdir()
    (tmp_path / "my+rules.nft").write_text(RULES)
    text = f"{HEAD}[baseline]\nroutes = {str(routes)!r}\n{settings}[measure.throughput]\n"
    found = read(str(written(tmp_path / "own", text)))
    made = session.commands(found, HERE, ["a", "b"])
    assert not any("table inet mine" in one.command or "5.0" in one.command for one in made)
    assert [one.command for one in made if one.command.startswith(("nft", "# ip"))] == [
        f"# {found.catalogue['routes'].by_hand(str(routes))}",
        "nft -f files/mine.nft",
        f"# {found.catalogue['routes'].by_hand(str(routes))}",
        "nft -f files/..%2Fmy%2Brules.nft",
    ]
    # As a run has them.
    kept.keep(tmp_path, found.rules)
    assert (tmp_path / "files/..%2Fmy%2Brules.nft").read_text() == RULES
    # What is of no file is the script that made it so.
    assert sum("busy_poll" in one.command for one in made) == 2


def test_a_file_of_the_users_own_is_not_passed_over(tmp_path: Path) -> None:
    text = f'{HEAD}[baseline]\nnetfilter = "mine.nft"\n[measure.throughput]\n'
    other = "table inet other {}\n"
    made = tmp_path / "tune-own-20260101-000000"
    for folder in (tmp_path, made):
        folder.mkdir(exist_ok=True)
        kept.keep(folder, {"mine.nft": other})
    there, own = tmp_path / kept.FOLDER / "mine.nft", tmp_path / "mine.nft"
    assert refused(tmp_path, text).startswith(
        f"4: baseline.netfilter: {there} and {own} differ, and skblab did not make this folder"
    )
    # Folders of skblab's have what they began with.
    assert read(str(written(made, text))).rules == {"mine.nft": other}
    (tmp_path / "run.json").touch()
    assert read(str(tmp_path / "own.toml")).rules == {"mine.nft": other}
    (tmp_path / "run.json").unlink()
    # Alike, or but one of them: it is clear which is meant.
    own.write_text(other)
    assert read(str(tmp_path / "own.toml")).rules == {"mine.nft": other}
    own.unlink()
    assert read(str(tmp_path / "own.toml")).rules == {"mine.nft": other}
    own.write_text(RULES)
    there.unlink()
    assert read(str(tmp_path / "own.toml")).rules == {"mine.nft": RULES}


def test_the_state_of_rules_is_their_file_and_what_tells_it() -> None:
    knob = Netfilter(Texts({"mine.nft": RULES}))
    state = knob.wanted(HERE, "mine.nft", "none 0")
    assert state == f"mine.nft {rules.key(RULES)}"
    assert RULES in knob.restore(HERE, state)
    key = rules.key(RULES)
    assert knob.state(f"text mine.nft {key} as made\n") == state
    changed = knob.state(f"text mine.nft {key} changed\n")
    assert changed == f"{state} with changed rules"
    # As it is put back, if a killed run left it.
    assert knob.restore(HERE, changed) == knob.restore(HERE, state)
    with pytest.raises(ValueError, match="is another text now"):
        knob.restore(HERE, "mine.nft 0123456789ab")
    with pytest.raises(ValueError, match="no such rules are kept"):
        knob.check("other.nft")
    with pytest.raises(Unable, match="neither conntrack nor python3"):
        knob.fits("forgets nothing\n", "mine.nft")


# Stands for nft: it takes nothing back.
NFT = """
nft() {
	case $* in
	'-c -f -') cat >/dev/null; return 1 ;;
	'list ruleset') echo '# xt match "u32"' ;;
	-f*) echo loaded >&2 ;;
	esac
}
KEPT=$PWD/kept
"""


def test_rules_that_nft_could_not_put_back_stay(tmp_path: Path) -> None:
    knob = Netfilter(Texts({"mine.nft": RULES}))
    call = knob.restore(HERE, knob.wanted(HERE, "mine.nft", "none 0"))
    functions = (resources.files("skblab.knobs") / "netfilter.sh").read_text()
    done = LocalTransport().script(
        f"cd {tmp_path}\n{functions}{NFT}load mine.nft 0 <<'END'\n{RULES}END\n"
    )
    assert done.status != 0 and "load mine.nft" in call
    assert done.stderr == (
        "mine.nft: the rules that are there already cannot be put back by nft (of iptables?)\n"
    )
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=200))
def test_a_sysctl_is_read_as_it_was_wanted(text: str) -> None:
    for knob in (KNOBS["sysctl.net.x"], KNOBS["sysctl.net.{port}.x"]):
        try:
            value = knob.check(text)
        except ValueError as error:
            assert "\n" not in str(error)
            continue
        state = knob.wanted(HERE, value, "")
        ports = ("r0", "r1") if "{" in knob.name else ("-",)
        printed = "".join(f"{port}={text.replace(' ', chr(9))}\n" for port in ports)
        assert applying.state(knob.name, HERE, printed) == state
        assert knob.restore(HERE, state)


def test_a_sysctl_that_is_not_there_is_skipped() -> None:
    with pytest.raises(Unable, match=r"^no such file$"):
        KNOBS["sysctl.net.x"].state(f"{UNABLE} no such file\n")
    with pytest.raises(SkblabError, match="it has nothing of r1"):
        applying.state("sysctl.net.{port}.x", HERE, "r0=1\n")


def test_sysctls_that_can_be_put_back_are_taken(tmp_path: Path) -> None:
    for value in (0, 2):
        assert KNOBS["sysctl.kernel.unprivileged_bpf_disabled"].check(value) == value
    text = f"""{HEAD}
[baseline]
rp_filter = 1
sysctl."net.ipv4.conf.r2.rp_filter" = 1
sysctl."net.ipv4.conf.default.rp_filter" = 1
sysctl."net.x.r0.y" = 1
sysctl."net.x.r1.y" = 1
"""
    assert read(str(written(tmp_path, text)))


def test_advice_has_sysctls_and_leaves_commands_to_the_user() -> None:
    knobs: dict[str, Value] = {
        "sysctl.net.ipv4.tcp_sack": 0,
        "sysctl.net.x": "1 2",
        "sysctl.net.conf.eth0/100.x": 1,
        "sysctl.net.y": "$(reboot)",
        "own": 1,
    }
    *three, _, _ = knobs
    assert list(script.settable(knobs)) == three
    assert script.sysctls(knobs)["net.x"] == "1 2"
    text = script.script("advice.sh", (), script.settable(knobs))
    assert "\n\tput \"/proc/sys/net/x\" '1 2'\n" in text
    assert '\n\tput "/proc/sys/net/conf/eth0.100/x" 1\n' in text
    assert KNOBS["sysctl.net.x"].by_hand("1 2") == "sysctl -w 'net.x=1 2'"
    assert KNOBS["sysctl.net.{port}.x"].by_hand(True) == "sysctl -w net.DEVICE.x=1"


def turned(folder: Path, knob: Commands, *values: Value) -> list[applying.Applied]:
    """Set values of a knob on this machine, one after the other, and put it back."""
    undo = folder / "undo.jsonl"
    found = []
    with applying.applying(
        LocalTransport(), HERE, undo, KNOBS.having({knob.name: knob})
    ) as applier:
        for value in values:
            found += applier.apply({knob.name: value})
    assert not undo.exists()
    return found


def own(folder: Path, setting: str, getting: str, restoring: str) -> Commands:
    said = [f"cd {folder}; {one}" for one in (setting, getting, restoring)]
    return Commands("own", said[0], said[1], said[2])


def test_commands_set_a_value_and_put_back_what_was_printed(tmp_path: Path) -> None:
    (tmp_path / "it").write_text("first\n")
    log = "echo {value} >>log; echo {value} >it"
    knob = own(tmp_path, f"echo set >>log; {log}", "cat it", f"echo restore >>log; {log}")
    found = turned(tmp_path, knob, 1, "two words")
    assert [(one.before, one.after, one.invalid) for one in found] == [
        ("first", "1", False),
        ("1", "two words", False),
    ]
    assert (tmp_path / "log").read_text().split("\n") == [
        *("restore", "first", "set", "1", "set", "two words", "restore", "first", ""),
    ]


def test_a_value_that_restore_does_not_take_is_never_set(tmp_path: Path) -> None:
    (tmp_path / "it").write_text("first\n")
    for why, kind in (("no such card", SkblabError), ("Operation not supported", Unable)):
        knob = own(tmp_path, "echo {value} >it", "cat it", f": {{value}}; echo {why} >&2; exit 4")
        said = f"not set, as it could not be put back: own: restore failed, exit 4: {why}"
        with pytest.raises(kind, match=f"^{said}$") as error:
            turned(tmp_path, knob, 5)
        assert type(error.value) is kind
        assert (tmp_path / "it").read_text() == "first\n"
        assert not (tmp_path / "undo.jsonl").exists()


def test_what_was_put_back_is_not_put_back_again(tmp_path: Path) -> None:
    undo = Undo(tmp_path / "undo.jsonl")
    for name in ("a", "b", "c", "d"):
        fails = f"; test -e {tmp_path}/mended" if name in "bc" else ""
        undo.add(name, f"echo {name} >>{tmp_path}/log{fails}")
    assert undo.replay(LocalTransport()) == ["c: exit 1", "b: exit 1"]
    assert [name for name, _ in undo.scripts()] == ["c", "b"]
    (tmp_path / "mended").touch()
    (tmp_path / "log").unlink()
    assert undo.replay(LocalTransport()) == []
    assert (tmp_path / "log").read_text() == "c\nb\n"
    assert not undo.file.exists()


def test_commands_of_each_port(tmp_path: Path) -> None:
    for port in ("r0", "r1"):
        (tmp_path / port).write_text(f"of {port}\n")
    knob = own(tmp_path, "echo {value} >{port}", "cat {port}", "echo back {value} >{port}")
    [found] = turned(tmp_path, knob, 5)
    assert (found.before, found.after) == ("r0=of%20r0 r1=of%20r1", "r0=5 r1=5")
    assert [(tmp_path / port).read_text() for port in ("r0", "r1")] == [
        "back of r0\n",
        "back of r1\n",
    ]


@pytest.mark.parametrize(
    ("setting", "getting", "said"),
    [
        ("echo no >&2; echo {value} >&2; exit 3", "cat it", "not set: own: set failed, exit 3: 5"),
        ("exit 3; {value}", "cat it", "not set: own: set failed, exit 3: it said nothing"),
        ("echo ( {value}", "cat it", "not set: own: set failed, exit 2: sh: 1: Syntax error"),
        (": {value}", "echo all; echo wrong >&2; false", "own: get failed, exit 1: wrong"),
        (": {value}", "printf 'a\\n\\nb\\n'", "own: get printed 2 lines, expected one with the v"),
        (": {value}", "true", "own: get printed no lines, expected one with the value"),
        (": {value}", "echo skblab-unable: no such card", "own: no such card"),
    ],
)
def test_a_command_that_fails_is_one_line(
    tmp_path: Path, setting: str, getting: str, said: str
) -> None:
    (tmp_path / "it").write_text("first\n")
    with pytest.raises(SkblabError) as error:
        turned(tmp_path, own(tmp_path, setting, getting, "echo {value} >it"), 5)
    assert str(error.value).startswith(said)


def test_what_get_does_not_print_is_invalid(tmp_path: Path) -> None:
    [found] = turned(tmp_path, own(tmp_path, ": {value}", "echo 4", ": {value}"), 5)
    assert found.invalid and (found.wanted, found.after) == ("5", "4")


def test_a_killed_run_is_put_back_by_restore(tmp_path: Path) -> None:
    (tmp_path / "it").write_text("first\n")
    knob = own(tmp_path, "echo {value} >it", "cat it", "echo restored {value} >it")
    undo = Undo(tmp_path / "undo.jsonl")
    Applier(LocalTransport(), HERE, undo, KNOBS.having({"own": knob})).apply({"own": 1})
    # By a program that knows nothing of knobs.
    assert undo.replay(LocalTransport()) == []
    assert (tmp_path / "it").read_text() == "restored first\n"


@examples
@given(st.text(min_size=1, max_size=40))
def test_a_value_is_one_word_of_the_shell(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    folder = tmp_path_factory.mktemp("own")
    knob = own(folder, "printf '%s\\n' {value} >it", "cat it", "rm it")
    (folder / "it").write_text("first\n")
    try:
        knob.check(value)
    except ValueError as error:
        assert "\n" not in str(error)
        return
    [found] = turned(folder, knob, value)
    assert not found.invalid
    assert not (folder / "it").exists()


# Each has a file `ran` made by a shell that runs a part of it.
RUNNING = ("a; >ran;", "$(>ran)", "`>ran`", "' >ran '", '"; >ran; "', "a[$(>ran)]", "}; >ran; #")


@pytest.mark.parametrize(
    "template",
    [
        "sh -c 'echo {value} >it'",
        'sh -c "echo {value} >it"',
        '"$(sh -c "echo {value}")"',
        '"$(case x in a) sh -c "echo {value}";; esac)"',
        "echo `echo {value}`",
        "sh <<END\necho {value}\nEND",
        "echo $(( {value} ))",
        "echo ${x:-{value}}",
        "echo \\{value}",
        "echo $'\\' {value} '",
        "(a)# '\necho {value} # '",
        "echo a\\\n#' {value}'",
        ": # {value}",
    ],
)
def test_a_value_within_quotes_is_refused(tmp_path: Path, template: str) -> None:
    for which in ("set", "restore"):
        assert commands.fault(which, template).startswith("has {value} within quotes or the like")
    assert commands.fault("get", template.replace("{value}", "{port}")).startswith("has {port} wi")
    text = HEAD + COMMANDS.replace("echo {value} >it", "sh -c 'echo {value} >it'")
    assert refused(tmp_path, text).startswith("5: commands.fast.set: has {value} within quotes")


@pytest.mark.parametrize(
    "template",
    [
        "echo {value} >it",
        "echo \"a 'b\" 'c \"d' {value} # it's",
        'echo "$(echo "a)" \'b)\' # c)\n)" {value}',
        'it={value}; echo "${it#x} `echo a`" $#',
        'case {value} in a) echo "$(echo b)" ;; esac; echo {port}',
        "sh -c 'echo \"$1\" >it' sh {value}",
        'x=$(echo "(" {value}); echo {port}',
    ],
)
def test_a_value_outside_of_quotes_is_a_word(tmp_path: Path, template: str) -> None:
    assert commands.fault("set", template) == ""
    for value in RUNNING:
        # What is printed is put back first, and then at the end.
        getting = f"printf '%s\\n' {shlex.quote(value)}"
        turned(tmp_path, own(tmp_path, template, getting, template), 5)
        assert not (tmp_path / "ran").exists()


@given(
    template=st.lists(
        st.sampled_from(
            [
                *("{value}", "{value}", "echo", "a", " ", "\n", "'", '"', '"', "\\", "#", ";", "|"),
                *("$(", "(", ")", "`", "${x:-", "${x}", "}", "$'", "$", "$((", "))", "[[", "{"),
                *("<<E\n", "\nE\n", "case a in a)", ";; esac"),
            ]
        ),
        max_size=12,
    ).map(lambda parts: "".join([*parts, " {value}"])),
    value=st.sampled_from(RUNNING),
)
@examples
def test_no_part_of_a_value_is_run(
    tmp_path_factory: pytest.TempPathFactory, template: str, value: str
) -> None:
    if commands.fault("set", template):
        return
    # As a person pastes it, and as skblab runs it.
    knob = Commands("own", template, "true", template)
    folder = tmp_path_factory.mktemp("own")
    for text in (knob.by_hand(value), knob.put_back(HERE, value)):
        for shell in filter(None, map(shutil.which, ("sh", "bash"))):
            subprocess.run(
                [shell, "-c", text], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True
            )
            assert not (folder / "ran").exists()


def test_a_value_may_look_like_a_placeholder(tmp_path: Path) -> None:
    (tmp_path / "it").write_text("first\n")
    knob = own(tmp_path, "echo {value} >it", "cat it", ": {port}")
    assert shlex.quote("{port}") in knob.by_hand("{port}")
    assert shutil.which("sh")


def test_sysctls_of_a_matrix_can_be_paired_and_left_out(tmp_path: Path) -> None:
    text = f"""{HEAD}
pair = [["sysctl.net.ipv4.tcp_sack", "sysctl.net/ipv4/tcp_dsack"]]
exclude = [{{ sysctl."net.ipv4.tcp_sack" = 0, rp_filter = 1 }}]
[matrix]
sysctl."net.ipv4.tcp_sack" = [0, 1]
sysctl."net.ipv4.tcp_dsack" = [0, 1]
rp_filter = [0, 1]
"""
    found = [list(one.knobs.values()) for one in read(str(written(tmp_path, text))).settings()]
    assert found == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]
