# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever a user writes, or an earlier run has left, is read or refused in one clear line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_sweep_hosts import GOOD as HOSTS
from test_sweep_knob_routes import DUMP

from mutated import DEEP, contents, examples, json_texts, value_or_line
from skblab.bench.functions import caches
from skblab.knobs import routefile
from skblab.knobs.applying import Undo
from skblab.lab import paths
from skblab.lab.kernel import config, debian, model, ownconfig, series, source
from skblab.lab.labroot import LabRoot
from skblab.probe import study as studies
from skblab.sweep import experiment, hostmachines
from skblab.sweep.experiment import faults
from skblab.testbeds import hostsfile
from skblab.traffic import plan as traffic
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats import catalogue, study

TREE = paths.tree()
EXPERIMENTS = [file.read_text() for file in sorted((TREE / "runners/experiments").glob("*.toml"))]
STUDY = (TREE / "runners/studies/murshed-2016.toml").read_text()
PUBLISHED = (TREE / "runners/studies/published/murshed-2016.csv").read_text()
CATALOGUE = (TREE / "probes/catalogue.toml").read_text()[:4000]
CACHES = (TREE / caches.FILE).read_text()
REASONS = (TREE / "kconfig/debian-differences.toml").read_text()[:3000]
FRAGMENT = (TREE / "kconfig/skblab.config").read_text()
CONFIG = """\
# Linux
CONFIG_X86_64=y
# CONFIG_RT is not set
CONFIG_SYSTEM_TRUSTED_KEYS="a b"
CONFIG_KERNEL_LZ4=y
"""
MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 48\nEXTRAVERSION = -rc1\n"
UNDO = "".join(json.dumps({"knob": name, "script": "echo 0 >it"}) + "\n" for name in "ab")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any")


def written(folder: Path, name: str, data: bytes | str) -> Path:
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode(errors="surrogatepass"))
    return file


@examples
@given(contents(*EXPERIMENTS))
def test_experiments(folder: Path, data: bytes) -> None:
    def read() -> None:
        found = experiment.read(written(folder, "it.toml", data))
        assert all(said for _, said in faults(found))
        assert len({setting.name for setting in found.settings()}) == len(found.settings())

    value_or_line(read)


MEASURE = "\n[measure.throughput]\n"


@pytest.mark.parametrize(
    "text",
    [
        "matrix = " + "[" * DEEP,
        "a = " + "{a=" * DEEP,
        "a = " + "9" * 5000,
        "[" + "a." * (DEEP // 4) + "b]\nc = 1",
        "name = 5\nquestion = '''\n[" + " " * 50_000 + "\n'''" + MEASURE,
        "[matrix]\n" + "".join(f"k{n} = {[*range(20)]}\n" for n in range(20)) + MEASURE,
        "[traffic]\nflows = [" + "1," * 9_000 + "]\nframe = [" + "64," * 9_000 + "]\n" + MEASURE,
    ],
    ids=["deep lists", "deep tables", "long number", "deep name", "spaces", "matrix", "traffic"],
)
def test_what_would_take_all_time_or_memory(folder: Path, text: str) -> None:
    head = "name = 'it'\nquestion = 'what?'\n" if text.startswith("[") else ""
    file = written(folder, "it.toml", head + text)
    assert value_or_line(lambda: experiment.read(file)) is None


@examples
@given(contents(HOSTS))
def test_hosts_files(folder: Path, data: bytes) -> None:
    found = value_or_line(lambda: hostsfile.read(written(folder, "hosts.toml", data)))
    assert found is None or (found.key and len(set(found.router.ports)) == 2)


@examples
@given(contents(STUDY), contents(PUBLISHED))
def test_studies(folder: Path, data: bytes, table: bytes) -> None:
    (folder / "published").mkdir(exist_ok=True)
    written(folder, "published/murshed-2016.csv", table)
    value_or_line(lambda: studies.read(written(folder, "study.toml", data)))


TRAFFIC = [
    (TREE / f"runners/studies/{name}.toml").read_text()
    for name in ("luna-2013", "luna-2013-rate", "luna-2013-kernels", "turull-2010-rate")
]


@examples
@given(contents(*TRAFFIC), st.sampled_from((None, "here", "guest")), st.sampled_from((None, 2.0)))
def test_traffic_files(folder: Path, data: bytes, on: str | None, seconds: float | None) -> None:
    (folder / "published").mkdir(exist_ok=True)
    for file in (TREE / "runners/studies/published").glob("*.csv"):
        written(folder, f"published/{file.name}", file.read_bytes())

    def read() -> None:
        found, _ = traffic.read(written(folder, "it.toml", data), on=on, seconds=seconds)
        for setting in found.setting:
            for flow in found.flow:
                assert traffic.changed(flow, setting).name == flow.name

    value_or_line(read)


@examples
@given(contents(PUBLISHED))
def test_published_figures(folder: Path, data: bytes) -> None:
    found = value_or_line(lambda: study.read_published(written(folder, "it.csv", data)))
    assert all(name == entry.experiment for name, entry in (found or {}).items())


@examples
@given(contents(CATALOGUE))
def test_catalogues(folder: Path, data: bytes) -> None:
    value_or_line(lambda: catalogue.load(written(folder, "it.toml", data)))


@examples
@given(contents(CACHES))
def test_files_of_caches(folder: Path, data: bytes) -> None:
    file = written(folder, "it.toml", data)
    found = value_or_line(lambda: caches.named(f"{file}:gx-412tc"))
    assert found is None or found.words.count(".") == 4


@examples
@given(contents(REASONS))
def test_reasons(folder: Path, data: bytes) -> None:
    value_or_line(lambda: debian.reasons(written(folder, "it.toml", data)))


def usage(read: Callable[[], object]) -> None:
    """Run a reader whose caller turns ValueError into the error of a file."""
    try:
        read()
    except ValueError as error:
        raise UsageError(str(error)) from error


@examples
@given(contents(DUMP), st.sampled_from((4, 6)))
def test_route_files(folder: Path, data: bytes, family: int) -> None:
    file = written(folder, "table.txt", data)
    value_or_line(lambda: usage(lambda: routefile.read(file, family)))


@examples
@given(contents(FRAGMENT, CONFIG))
def test_kernel_configurations(folder: Path, data: bytes) -> None:
    file = written(folder, "it.config", data)
    for setting in value_or_line(lambda: config.read_fragment(file)) or ():
        assert setting.option and setting.value


@examples
@given(contents(CONFIG), st.booleans(), st.integers(0, 400))
def test_own_configurations(folder: Path, data: bytes, packed: bool, cut: int) -> None:
    file = written(folder, "config", gzip.compress(data)[:cut] if packed else data)
    found = value_or_line(lambda: ownconfig.read(file))
    if found is not None:
        text, changes = found.buildable(folder, [])
        assert config.parse(text) and all(map(str, changes))


@examples
@given(contents(MAKEFILE))
def test_makefiles_of_kernels(folder: Path, data: bytes) -> None:
    written(folder, "Kconfig", "")
    written(folder, "Makefile", data)
    found = value_or_line(lambda: source.read_version(folder))
    assert found is None or found.strip()


@examples
@given(contents("0001-a.patch\n# said\n0002-b.patch -p1\n"))
def test_series_of_patches(folder: Path, data: bytes) -> None:
    for name in ("0001-a.patch", "0002-b.patch"):
        written(folder, name, "")
    written(folder, "series", data)
    found = value_or_line(lambda: series.read(folder))
    assert found is None or found.patches


@examples
@given(contents(UNDO))
def test_what_puts_settings_back(folder: Path, data: bytes) -> None:
    """No whole line is passed over: a setting would stay as it is for ever."""
    undo = Undo(written(folder, "undo.jsonl", data))
    found = value_or_line(undo.scripts)
    assert found is None or len(found) == data.count(b"\n")


WAY = {
    "ssh_config": None,
    "router": {"ssh": "root@router", "in": "eth1", "out": "eth2"},
    "tester": {"ssh": "root@tester", "generator": "eth1", "sink": "eth2", "loop": None},
}


@examples
@given(json_texts(WAY))
def test_machines_that_are_remembered(folder: Path, text: str) -> None:
    file = written(folder, hostmachines.WAY, text)
    value_or_line(lambda: hostmachines.remembered(file))
    value_or_line(lambda: hostmachines.router_of(folder))


KERNEL = {
    "schema_name": "skblab.kernel/1",
    "key": "it",
    "release": "6.12.48-skblab",
    "flavour": "stock",
    "patched": True,
    "series": "v6.12",
    "patches": [{"name": "0001-a.patch", "sha256": "00"}],
    "source": "linux-source-6.12",
    "source_version": "6.12.48",
    "source_digest": "00",
    "toolchain": {"gcc": "14.2.0"},
    "fragments": ["base"],
    "config_sha256": "00",
    "image_sha256": "00",
    "made": "2026-01-01",
    "seconds": 300.0,
    "output_lines": 9,
}


@examples
@given(json_texts(KERNEL), st.binary(max_size=2))
def test_records_of_kernels(folder: Path, text: str, more: bytes) -> None:
    written(folder, model.RECORD, text.encode(errors="surrogatepass") + more)
    value_or_line(lambda: model.Kernel(folder, "it").record)


def test_the_record_is_a_good_one() -> None:
    assert model.Record.model_validate(KERNEL)


@examples
@given(json_texts({"gcc": "12.2.0", "make": "4.3"}))
def test_versions_of_a_lab_root(folder: Path, text: str) -> None:
    (folder / "skblab").mkdir(exist_ok=True)
    written(folder, "skblab/versions.json", text)
    found = value_or_line(lambda: LabRoot(folder, "it").versions)
    assert all(isinstance(value, str) for value in (found or {}).values())
