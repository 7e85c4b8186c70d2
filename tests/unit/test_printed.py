# SPDX-License-Identifier: GPL-2.0-or-later
"""`--json`: every command that prints figures has it, and prints one document by its schema."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import made_up_flows
import made_up_tcp
import pyarrow.parquet as pq
import pytest
import schema_checks
import searches
import synthetic_run
import test_cpu
import test_latency
import test_layering
import test_packet_page
import test_samples
from test_probe_medians import measured
from test_report import fake_gnuplot
from test_soak import _report

from conftest import TREE, Skblab
from skblab.commands.documents import PRINTED, STORED, WITHOUT
from skblab.commands.kselftest import compared, document
from skblab.demo.run import Demo
from skblab.doctor import checks
from skblab.lab import kernel, labroot, tools
from skblab.lab.drawing import NoGnuplotError
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel import debian, package, patchcheck, registry
from skblab.lab.kernel import source as sources
from skblab.lab.kernel.model import RECORD, Kernel, PatchRecord, Record
from skblab.manual import schemas
from skblab.manual.walk import Described, commands
from skblab.probe import study
from skblab.probe.verify import counts, medians
from skblab.probe.verify.counts import Verdict
from skblab.probe.verify.plan import Backend
from skblab.probe.verify.plan import Case as CountedCase
from skblab.selftests import compare, tree
from skblab.selftests.guestrun import Outcome
from skblab.selftests.ktap import Case, Result
from skblab.soak import verdict
from skblab_analysis.base.errors import EXIT_GUEST
from skblab_analysis.base.words import FIXED_SPACE
from skblab_analysis.comparison.rows import COMPARISON
from skblab_analysis.events.rows import Collected, Event, Window
from skblab_analysis.exact.summary import of as exact_of
from skblab_analysis.formats.bench import BenchDocument, Row
from skblab_analysis.formats.functions import Function, FunctionsDocument, Layer
from skblab_analysis.formats.run import Plan
from skblab_analysis.formats.summary import Figure
from skblab_analysis.load import load
from skblab_analysis.report import summary, terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

EXAMPLE = TREE / "results-schema/example"
# What a figure has beside its name and its difference; blocks of the difference are its own.
OF_FIGURES_ALONE = {"value", "half", "blocks", "difference"}
EVERYTHING = [described for described in commands() if not described.group]
Json = dict[str, Any]


def named(one: Described) -> str:
    return " ".join(one.words)


def test_every_command_is_listed_once() -> None:
    """A new command says in commands/documents.py what it prints, or why it has no figures."""
    assert sorted(map(named, EVERYTHING)) == sorted([*PRINTED, *WITHOUT])
    assert all(WITHOUT.values())


@pytest.mark.parametrize("one", EVERYTHING, ids=named)
def test_json_is_an_option_of_those_with_figures(one: Described) -> None:
    options = {name for parameter in one.command.params for name in parameter.opts}
    assert ("--json" in options) == (named(one) in PRINTED)


def test_schemas_are_current() -> None:
    made = schemas.documents()
    printed = {name for found in PRINTED.values() for name in found}
    assert made.keys() == {f"{name}.schema.json" for name in printed - STORED}
    for name, text in made.items():
        assert (schema_checks.FOLDER / name).read_text() == text, f"{name}: type make schemas"
    for name in printed:
        schema_checks.schema(name)


def test_each_document_says_which_it_is() -> None:
    """Also those of a list: each of its elements does."""
    for found in PRINTED.values():
        for name in found:
            text = (schema_checks.FOLDER / f"{name}.schema.json").read_text()
            assert '"schema_name": {' in text or '"schema": {' in text, name


def check(
    done: subprocess.CompletedProcess[str], command: str, name: str = "", status: int = 0
) -> Any:  # noqa: ANN401 (a list or an object)
    """Return the one document on standard output, which is as the schema wants it."""
    assert done.returncode == status, done.stderr
    found = json.loads(done.stdout)
    names = [name] if name else list(PRINTED[command])
    assert len(names) == 1
    schema_checks.schema(names[0]).validate(found)
    return found


@pytest.fixture(autouse=True)
def _no_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lab root and no kernel is made."""
    monkeypatch.setattr(labroot, "ensure", lambda *_: SimpleNamespace())
    monkeypatch.setattr(kernel, "ensure", lambda *_: built())


def record() -> Record:
    return Record(
        key="k",
        release="6.12-skblab",
        flavour="stock",
        patched=True,
        series="v6.12",
        patches=(PatchRecord(name="1.patch", sha256="0"),),
        source="/source",
        source_version="6.12",
        source_digest="d",
        toolchain={"gcc": "14"},
        fragments=("base",),
        config_sha256="c",
        image_sha256="i",
        made="2026-01-01T00:00:00Z",
        seconds=9.5,
        output_lines=3,
    )


def built() -> Kernel:
    made = Kernel(Path("/kernels/k"), "k")
    # As if it had been read.
    vars(made)["record"] = record()
    return made


def test_doctor(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [checks.Check(name="disk", status="missing", found="1 GiB", means="too little")]
    monkeypatch.setattr(checks, "run_all", lambda: found)
    assert check(skblab_here("doctor", "--json"), "doctor", status=1)["ready"] is False
    assert "Not ready" in skblab_here("doctor").stdout


def test_kernels(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skblab.commands.kernel.ensure", lambda *_: built())
    monkeypatch.setattr(registry, "kernels", lambda: [built()])
    one = check(skblab_here("kernel", "build", "--json"), "kernel build")
    assert (one["image"], one["release"]) == ("/kernels/k/bzImage", "6.12-skblab")
    assert check(skblab_here("kernel", "list", "--json"), "kernel list") == [one]


def test_the_newest_kernel_is_first(
    skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path))
    for key, day in (("a", 2), ("b", 3), ("c", 1)):
        (folder := tmp_path / registry.KIND / key).mkdir(parents=True)
        made = record().model_copy(update={"key": key, "made": f"2026-01-0{day}T00:00:00Z"})
        (folder / RECORD).write_text(made.model_dump_json())
    listed = check(skblab_here("kernel", "list", "--json"), "kernel list")
    assert [one["key"] for one in listed] == ["b", "a", "c"]
    assert [one.key for one in registry.readable()] == ["b", "a", "c"]


def test_packages(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = package.Record(
        key="k",
        release="r",
        version="1",
        flavour="stock",
        source="/source",
        source_version="6.12",
        series=None,
        patches=(),
        fragments=(),
        config=None,
        cleared=(),
        changed=(),
        otherwise=(),
        files=(package.PackageFile(name="a.deb", size_bytes=1, sha256="0"),),
        seconds=1.0,
    )
    packages = SimpleNamespace(record=made, export=lambda output: [output / "a.deb"])
    monkeypatch.setattr(package, "ensure", lambda *_: packages)
    words = ("kernel", "package", "--output", str(tmp_path))
    found = check(skblab_here(*words, "--json"), "kernel package")
    assert found["output"] == str(tmp_path)


def test_config_diff(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    difference = debian.Difference(option="X", debian="y", ours="n", reason="")
    found = debian.Comparison(
        flavour="stock", compared=9, built_in=1, differences=(difference,), stale=()
    )
    monkeypatch.setattr(debian, "compare", lambda *_: found)
    done = skblab_here("kernel", "config-diff", "--json")
    assert check(done, "kernel config-diff", status=1)["compared"] == 9


def test_patches_check(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = patchcheck.Outcome(verdict="failed", found=("line 1",))
    found = patchcheck.PatchResult(
        patch="1.patch", key="k", outcomes={"apply": outcome}, seconds=1.0
    )
    monkeypatch.setattr(patchcheck, "check", lambda *_: [found])
    done = skblab_here("kernel", "patches-check", "--json")
    [one] = check(done, "kernel patches-check", status=1)
    assert one["outcomes"]["apply"]["found"] == ["line 1"]


OUTCOME = Outcome(
    test="net/x.sh",
    verdict="fail",
    why="a case failed",
    cases=(Case("one", Result.FAIL, "why"),),
    seconds=1.25,
    log=Path("/log"),
)


def test_selftests(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "skblab.commands.kselftest"
    monkeypatch.setattr(f"{module}._series", lambda _: None)
    monkeypatch.setattr(f"{module}.run_all", lambda *_: [OUTCOME])
    monkeypatch.setattr(f"{module}.booter", lambda *_: None)
    monkeypatch.setattr(tree, "added", lambda _: ["net/x.sh"])
    monkeypatch.setattr(tree, "ensure", lambda *_: None)
    monkeypatch.setattr(sources, "find", lambda *_: None)
    done = skblab_here("kselftest", "--json")
    found = check(done, "kselftest", "kselftest", status=1)
    assert found["passed"] is False and found["tests"][0]["cases"][0]["name"] == "one"
    assert found == document(built(), [OUTCOME]).model_dump(mode="json")
    refused = skblab_here("kselftest", "--list", "--json")
    assert refused.returncode == 2 and "--json with --list" in refused.stderr


def test_compared_selftests(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = ({"": "status 0", "a": "pass"}, {"": "status 0", "a": "fail"})
    name, same, *_ = compare.tests()
    both = compare.Compared(
        names=[name, same],
        pairs={name: [sides], same: [(sides[0], sides[0])]},
        found=compare.differences(name, *sides),
        unsteady=[],
        logs=Path("/logs"),
        uncompiled=[],
    )
    monkeypatch.setattr(compare, "run", lambda *_: both)
    done = skblab_here("kselftest", "--compare", name, "--json")
    found = check(done, "kselftest", "kselftest-compare", status=1)
    assert found["differences"][0]["patched"] == "fail"
    assert found == compared(both).model_dump(mode="json")
    said = skblab_here("kselftest", "--compare", name).stdout
    assert "1 differ" in said
    rows = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert rows[name].endswith("  differs") and rows[same].endswith("      0")


def test_soak(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = verdict.parse("progress\n" + json.dumps(_report()))
    monkeypatch.setattr("skblab.commands.soak.run", lambda *_: (result, ["WARNING: it"]))
    monkeypatch.setattr(sources, "find", lambda *_: None)
    monkeypatch.setattr(tree, "ensure", lambda *_: None)
    monkeypatch.setattr("skblab.commands.soak.reports_of", lambda *_: ([], ["KCSAN: another's"]))
    done = skblab_here("soak", "--kernel", "6.12", "--json", env={"SKBLAB_CACHE": str(tmp_path)})
    found = check(done, "soak", status=1)
    assert found["complaints"] and found["result"]["calm"]["sent"] == 500
    assert found["reports"] == ["KCSAN: another's"]


def test_verify(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    one = [measured("a", 100, 1600, 320, 1920), measured("b", 2000, 3200, 640, 3840)]

    def counted(
        _: object, lab: object, backends: list[Backend], cases: list[CountedCase], *more: object
    ) -> list[Verdict]:
        wrong = ("9 of 10",)
        return [Verdict(cases[0], backend.name, 10, wrong, 1, (2,)) for backend in backends]

    monkeypatch.setattr(counts, "of_all", counted)
    monkeypatch.setattr(medians, "measure", lambda *_: one)
    found = check(skblab_here("probe", "verify", "--json"), "probe verify", status=1)
    assert found["wrong"] and found["counts"][0]["missed_before"] == [2]
    assert found["medians"][0]["layers"][0]["backends"]["a"] == [1600, 1700]
    assert "Known packets" in skblab_here("probe", "verify").stdout


def test_study(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TREE / "runners/studies/murshed-2016.toml"
    ours = list(study.read(file)[1].values())
    folder = SimpleNamespace(path=Path("/results/study"))
    monkeypatch.setattr(study, "recorded", lambda *_: (folder, ours, "kernel r, tcg"))
    words = ("probe", "study", str(file))
    found = check(skblab_here(*words, "--json"), "probe study")
    assert len(found["ours"]) == len(found["published"]) == len(ours)
    assert "What differs" in skblab_here(*words).stdout


def timed(results: Path) -> Path:
    """A made-up sweep of latency and layers, with a setting that is the baseline."""
    plan = Plan(experiment="timed", seed=1, baseline="baseline")
    folder = RunFolder.create(results, "timed", plan, synthetic=True)
    usual = [1000] * (len(test_layering.POINTS) - 1)
    for block in range(3):
        for name in ("baseline", "other"):
            values = test_latency.latencies(40_000 + 500 * block)
            folder.record(test_latency.trial(name, block, values))
            probed = test_layering.document(usual)
            folder.record_probe(probed, 0.1, of=test_layering.of(name, block))
    return folder.finish(synthetic_run.environment(), {"measuring": 1.0})


def counted(results: Path) -> Path:
    """A run of events and of samples."""
    folder = RunFolder.create(results, "counted", searches.plan(), synthetic=True)
    event = Event(collector="pcm", name="READ", unit="bytes", value=6.4e6)
    for block in range(2):
        windows = (Window(100, 100, (event,)),)
        folder.record(
            Collected(setting="baseline", block=block, rate=50, offered_rate=50.0, windows=windows)
        )
        folder.record(test_samples.sampled("baseline", block, "cycles", ip_rcv=30))
    return folder.finish(synthetic_run.environment(), {"measuring": 1.0})


def runs(folder: Path) -> dict[str, Path]:
    """Runs of all kinds: a real demo's, and made-up ones."""
    example = folder / "example"
    shutil.copytree(EXAMPLE, example)
    tested = list(searches.tested(90_000.0, 200_000.0))
    return {
        "example": example,
        "searched": searches.finished_run(folder / "searched", tested=tested),
        "timed": timed(folder / "timed"),
        "worked": test_cpu.sweep(folder / "worked").folder,
        "synthetic": synthetic_run.finished_run(folder / "synthetic"),
        "flows": made_up_flows.finished_run(folder / "flows"),
        "tcp": made_up_tcp.finished_run(folder / "tcp"),
    }


def test_figures_of_runs(tmp_path: Path) -> None:
    measures = set()
    # Of these nothing is compared.
    all_runs = runs(tmp_path) | {
        "counted": counted(tmp_path / "counted"),
        "packets": test_packet_page.kept(tmp_path / "packets", test_packet_page.a_day()).folder,
    }
    for name, folder in all_runs.items():
        found = json.loads(summary.of_run(folder).model_dump_json(by_alias=True))
        schema_checks.schema("summary").validate(found)
        assert found["figures"], name
        assert found["headline"] != "This run holds no result", name
        assert terminal.of_run(folder)
        measures |= {figure["measure"] for figure in found["figures"]}
    assert measures == set(get_args(Figure.model_fields["measure"].annotation))


def test_settings_are_compared(tmp_path: Path) -> None:
    """Of each measure that compares: what is compared, and by what."""
    compared = {
        (figure.measure, figure.figure)
        for folder in runs(tmp_path).values()
        for figure in summary.of_run(folder).figures
        if figure.difference is not None
    }
    assert compared == {
        *(("instructions", "path"), ("throughput", "throughput")),
        *(("latency", "p99"), ("latency", "late"), ("latency", "lost")),
        *(("cpu", "busy"), ("layers", "mean"), ("traffic", "p99")),
        ("tcp", "rate"),
    }


def test_a_share_is_of_the_path_alone(tmp_path: Path) -> None:
    folder = runs(tmp_path)["example"]
    [exact] = exact_of(load(folder))
    path = exact.path(exact.baseline)
    assert path is not None and path < exact.baseline.mean
    change = exact.differences[-1]
    [figure] = [
        figure
        for figure in summary.of_run(folder).figures
        if (figure.figure, figure.setting) == ("path", change.setting)
    ]
    assert figure.difference is not None and figure.difference.share is not None
    assert figure.difference.effect == change.difference.effect
    assert figure.difference.of == path
    assert figure.difference.share == pytest.approx(change.difference.effect / path)


def test_a_difference_is_the_same_in_the_document_and_in_the_table(tmp_path: Path) -> None:
    """Of all measures: each row of comparison.parquet is one figure, by the same names."""
    for name, folder in runs(tmp_path).items():
        build_report(folder, fake_gnuplot)
        rows = pq.read_table(folder / "comparison.parquet").to_pylist()
        document = json.loads(summary.of_run(folder).model_dump_json(by_alias=True))
        figures = [
            {key: value for key, value in figure.items() if key not in OF_FIGURES_ALONE}
            | figure["difference"]
            for figure in document["figures"]
            if figure["difference"] is not None
        ]
        assert len(figures) == len(rows) > 0, name
        assert all(figure in rows for figure in figures), name
        keys = [figure.key for figure in summary.of_run(folder).figures]
        assert len(set(keys)) == len(keys), name


def test_the_schema_says_what_the_columns_say() -> None:
    file = schema_checks.FOLDER / "summary.schema.json"
    parts = json.loads(file.read_text())["$defs"]
    said = parts["Figure"]["properties"] | parts["Compared"]["properties"]
    for column in COMPARISON.columns:
        assert said[column.name]["description"] == column.about
        assert said[column.name].get("unit", "") == column.unit


def test_a_rate_differs_in_packets_a_second(tmp_path: Path) -> None:
    found = summary.of_run(searches.finished_run(tmp_path)).figures
    rates = [figure for figure in found if figure.measure == "throughput" and figure.difference]
    assert rates
    for figure in rates:
        assert figure.difference is not None and figure.difference.share is not None
        [base] = [
            row.value
            for row in found
            if (row.figure, row.part, row.traffic) == (figure.figure, figure.part, figure.traffic)
            and row.setting == "baseline"
        ]
        assert base is not None and figure.value is not None
        # Of geometric means, and the figures are arithmetic ones.
        assert figure.difference.effect == pytest.approx(figure.value - base, abs=0.02 * base)
        share = figure.difference.effect / figure.difference.share
        assert share == pytest.approx(base, rel=0.02)
        if figure.difference.low is not None and figure.difference.high is not None:
            assert figure.difference.low <= figure.difference.effect <= figure.difference.high


def test_report(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> None:
        raise NoGnuplotError("no gnuplot")

    monkeypatch.setattr("skblab.commands.report.find_gnuplot", none)
    folders = [str(folder) for folder in runs(tmp_path).values()]
    found = check(skblab_here("report", *folders, "--json"), "report")
    assert [row["folder"] for row in found] == folders
    assert all(Path(row["report"]).is_file() for row in found)


def no_report(folder: Path, *_: object) -> Path:
    return folder / "report/index.html"


def test_sweep_and_resume(
    skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a finished run: what it prints, and nothing else on standard output."""
    path = searches.finished_run(tmp_path)
    parameters = {"plan": "0" * 16}
    document = SimpleNamespace(plan=SimpleNamespace(parameters=parameters))
    folder = SimpleNamespace(path=path, document=document)
    module = "skblab.commands.sweep"
    monkeypatch.setattr(f"{module}.Request.told", lambda *_: ())
    monkeypatch.setattr(f"{module}.Request.begin", lambda _: (None, folder))
    monkeypatch.setattr(f"{module}.unfinished", lambda _: (None, folder))
    monkeypatch.setattr(f"{module}.session.run", lambda *_, **__: None)
    monkeypatch.setattr(f"{module}.gnuplot", lambda _: None)
    monkeypatch.setattr(f"{module}.build_report", no_report)
    found = check(skblab_here("sweep", "demo", "--json"), "sweep")
    again = check(skblab_here("resume", str(folder.path), "--json"), "resume")
    assert found == again and found["figures"]
    assert "Report: " in skblab_here("sweep", "demo").stdout
    refused = skblab_here("sweep", "demo", "--dry-run", "--json")
    assert refused.returncode == 2 and "--json: expected an experiment" in refused.stderr


def test_demo(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = SimpleNamespace(path=runs(tmp_path)["example"])
    monkeypatch.setattr(Demo, "begin", lambda _: folder)
    monkeypatch.setattr(Demo, "run", lambda *_: None)
    monkeypatch.setattr(tools, "ensure", lambda *_: None)
    for module in ("programs", "functions"):
        monkeypatch.setattr(f"skblab.commands.demo.{module}.ensure", lambda *_: None)
    monkeypatch.setattr("skblab.commands.demo.gnuplot", lambda _: None)
    monkeypatch.setattr("skblab.commands.demo.build_report", no_report)
    found = check(skblab_here("demo", "--json"), "demo")
    assert {figure["measure"] for figure in found["figures"]} == {"instructions", "layers"}
    assert "Where the time went" in skblab_here("demo").stdout


def test_layers(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(synthetic_run.pathlat(200))
    timed = SimpleNamespace(text=text, document=None, folder=None, target=None)
    monkeypatch.setattr("skblab.commands.probe.Asked.run", lambda *_: timed)
    done = skblab_here("probe", "layers", "--json", "--no-cost", "--seconds", "1")
    check(done, "probe layers", "pathlat")


ROW = Row(name="on", title="on", group="patch", kernel="6.12-skblab", refused="it lost packets")
FOLDER = SimpleNamespace(path=Path("/results/bench"))


def test_bench_patch(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    found = BenchDocument(
        again="again", baseline="off", packets=500, repeats=1, rows=(ROW,), trials=()
    )
    run = SimpleNamespace(recorded=lambda _: (FOLDER, found), no_pairs="")
    monkeypatch.setattr("skblab.commands.bench.Run", lambda *_: run)
    done = skblab_here("bench", "patch", "--rows", "off,on", "--json")
    assert check(done, "bench patch", status=1)["rows"][0]["name"] == "on"
    assert "row on is refused" in done.stderr


def counts_by_function(
    command: str, a: Row | None, monkeypatch: pytest.MonkeyPatch, death: str = ""
) -> None:
    """Have a command find the instructions of one function, in row `a` too if there is one.

    With a `death`, a guest has not come to all of its rows.
    """
    found = FunctionsDocument(
        again="again",
        case="forward",
        family=4,
        a=a,
        b=ROW,
        clock={"b": 2.0} if a is None else {"a": 1.0, "b": 2.0},
        functions=(Function(name="ip_rcv", a=0.0 if a is None else 1.0, b=2.0),),
        layers=(Layer(name="forward", a=0.0 if a is None else 1.0, b=2.0),),
        runs=(),
    )

    def end() -> None:
        if death:
            raise GuestError(death)

    run = SimpleNamespace(recorded=lambda: (FOLDER, (found,)), root=None, end=end)
    module = f"skblab.commands.{command}"
    monkeypatch.setattr(f"{module}.Comparison", lambda *_: run)
    monkeypatch.setattr(f"{module}.gnuplot", lambda _: None)
    monkeypatch.setattr(f"{module}.build_report", lambda *_: FOLDER.path / "report/index.html")


def test_bench_functions(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    counts_by_function("bench_functions", ROW, monkeypatch)
    done = skblab_here("bench", "functions", "--row", "on", "--against", "off", "--json")
    assert check(done, "bench functions")["functions"][0]["b"] == 2.0


def test_profile(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    counts_by_function("profile", None, monkeypatch)
    done = skblab_here("profile", "--kernel", "6.12", "--json")
    assert check(done, "profile", name="functions")["a"] is None
    said = skblab_here("profile", "--kernel", "6.12").stdout
    assert "100.0" in said and "report/index.html" in said
    by_layer = said.partition("By layer")[2]
    assert ["forward", "2.0", "100.0 %"] in [
        line.replace(FIXED_SPACE, " ").split(maxsplit=2) for line in by_layer.splitlines()
    ]


def test_profile_of_an_experiment(skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch) -> None:
    counts_by_function("profile", ROW, monkeypatch)
    words = ("profile", "--experiment", "first")
    done = skblab_here(*words, "--json")
    [one] = check(done, "profile", name="functions-of-settings")["settings"]
    assert one["clock"] == {"a": 1.0, "b": 2.0}
    rows = [line.split() for line in skblab_here(*words).stdout.splitlines()]
    assert ["baseline", "1.0", "baseline"] in rows
    assert [ROW.title, "2.0", "+1.0"] in [row[:3] for row in rows]


def test_a_profile_whose_guest_died_prints_what_it_counted(
    skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts_by_function("profile", None, monkeypatch, death="guest panic: sysrq")
    for options, shown in (((), "report/index.html"), (("--json",), "ip_rcv")):
        done = skblab_here("profile", "--kernel", "6.12", *options)
        assert done.returncode == EXIT_GUEST
        assert done.stderr.splitlines()[-1].endswith("guest panic: sysrq")
        assert shown in done.stdout


def example(one: Described) -> list[str]:
    """Return the words of a command's example, which is there once."""
    [said] = [text for text in one.paragraphs if text.startswith("Example: ")]
    [command] = [said.removeprefix("Example: ").removeprefix("`").removesuffix("`")]
    first, *words = shlex.split(command)
    assert first == "skblab" and "`" not in command
    return words


@pytest.mark.parametrize("one", list(commands()), ids=lambda one: one.name)
def test_every_example_is_good_usage(one: Described) -> None:
    """Taken apart as the command line is, callbacks and checks of values included; not run."""
    words = example(one)
    assert words[: len(one.words)] == list(one.words)
    group, context = one.command, one.context
    rest = words[len(one.words) :]
    while one.group and rest:
        name, *rest = rest
        group = group.get_command(context, name)  # type: ignore[attr-defined]
        assert group is not None
        if not hasattr(group, "commands"):
            break
    group.make_context("skblab", list(rest), parent=context)


# What these are given is a program's: tests/guest/test_traffic.py and test_traffic_tcp.py ask it.
OVER_TCP = ("tcp-serve", "tcp-crr", "tcp-rr", "tcp-stream")
PASSED_ON = {
    f"traffic {name}" for name in ("send", "receive", "echo", "rtt", "clock", "wakeup", *OVER_TCP)
}


@pytest.mark.parametrize(
    "one", [one for one in EVERYTHING if named(one) not in PASSED_ON], ids=named
)
def test_bad_usage_is_one_line(one: Described, skblab_here: Skblab) -> None:
    done = skblab_here(*one.words, "--no-such-option")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "--no-such-option" in line
    assert line.endswith(f"see: {one.name} --help")
