# SPDX-License-Identifier: GPL-2.0-or-later
"""Experiment files and the plans made of them: complete, in a seeded order, always the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import TREE
from skblab.sweep import plan
from skblab.sweep.experiment import BASELINE, Experiment, read
from skblab.sweep.measure.base import AtRates
from skblab.sweep.measure.latency import Latency
from skblab.sweep.measures import MEASURES
from skblab.sweep.planned import TESTER
from skblab.sweep.progress import Key
from skblab.sweep.request import SHIPPED, Request, make_plan
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.published_study import of_parameters

FILE = """
name = "few"
question = "Which?"
baseline = { rp_filter = 0, ring = 256 }
pair = [["ring", "threaded"]]
exclude = [{ rp_filter = 2, ring = 512 }]

[traffic]
flows = [1, 32]

[[setting]]
name = "strict"
knobs = { rp_filter = 1, kernel = "rt" }

[matrix]
rp_filter = [0, 2]
ring = [256, 512]
threaded = [false, true]

[measure.latency]
rates = [100, 1000]
[measure.throughput]
"""


def experiment(tmp_path: Path, text: str = FILE) -> Experiment:
    file = tmp_path / "few.toml"
    file.write_text(text)
    return read(file)


def test_pairs_exclusions_and_the_baseline_itself(tmp_path: Path) -> None:
    found = experiment(tmp_path)
    assert [setting.name for setting in found.settings()] == [
        "strict",
        "rp_filter=0 ring=256 threaded=off",
        "rp_filter=2 ring=256 threaded=off",
        "rp_filter=0 ring=512 threaded=on",
    ]


def test_a_combination_that_is_the_baseline_is_left_out(tmp_path: Path) -> None:
    text = FILE.replace("ring = 256 }", "ring = 256, threaded = false }")
    names = [setting.name for setting in experiment(tmp_path, text).settings()]
    assert names[1:] == ["rp_filter=2 ring=256 threaded=off", "rp_filter=0 ring=512 threaded=on"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"threaded"]]', '"thread"]]', "few.toml:5: pair: thread is not in the matrix"),
        (
            "threaded = [false, true]",
            "threaded = [true]",
            "few.toml:5: pair: ring, threaded need equally many",
        ),
        (
            "exclude = [{ rp_filter = 2,",
            "exclude = [{ rp = 2,",
            "few.toml:6: exclude: rp is not in the matrix",
        ),
        ('name = "strict"', 'name = "baseline"', "few.toml:12: setting.0.name: 'baseline' is the"),
        ('name = "strict"', 'name = "tester"', "few.toml:12: setting.0.name: 'tester' is the"),
        (
            "rp_filter = [0, 2]",
            f'rp_filter = ["{"x" * 50}"]',
            "few.toml:15: matrix: the combination 'rp_filter=xxx",
        ),
        ("rp_filter = [0, 2]", 'rp_filter = ["(a)"]', "matrix: the combination 'rp_filter=(a) "),
        (
            "flows = [1, 32]",
            "flows = [1, 64512]",
            "few.toml:9: traffic.flows.1: 64512 flows: each has a port of its own from 1024 on; "
            "expected at most 64511",
        ),
        ("flows = [1, 32]", "flows = [1, 0]", "few.toml:9: traffic.flows.1: Input should be great"),
        ("flows = [1, 32]", "family = [6]", "few.toml:8: traffic: frame 64: the least of IPv6"),
        ("[measure.throughput]", "[repeats]\nmost = 2", "repeats: most is 2, expected at least"),
        ("[measure.throughput]", "[repeats]\nmost = 4", "write width or budget_minutes"),
        ("[measure.latency]\nrates = [100, 1000]\n[measure.throughput]", "[measure]", "nothing"),
        ("rp_filter = [0, 2]", "rp_filter = []", "matrix.rp_filter: Tuple should have at least"),
        (
            "[measure.throughput]",
            '[measure.throughput]\ngoals = ["ndr"]\nconfirm_seconds = 60',
            "few.toml:22: measure.throughput: confirm_seconds is of the strict rate",
        ),
        (
            "[measure.throughput]",
            '[measure.throughput]\ngoals = ["ndr", "ndr"]',
            "measure.throughput: a goal is there twice",
        ),
        ("rates = [100, 1000]", "rates = [100, 100]", "measure.latency.rates: one is there twice"),
        (
            "rates = [100, 1000]",
            "rates = [100]\nlate_us = [1, 2, 3, 4, 5]",
            "measure.latency.late_us: Tuple should have at most 4 items",
        ),
        (
            "[measure.latency]\nrates = [100, 1000]\n[measure.throughput]",
            "[measure.layers]\nrates = [9]\n[repeats]\nmost = 4\nwidth = 0.1",
            "repeats.width is of rates and delays",
        ),
    ],
)
def test_a_fault_is_said_with_its_line(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in FILE
    with pytest.raises(UsageError) as caught:
        experiment(tmp_path, FILE.replace(before, after))
    assert said in str(caught.value)


def test_every_block_has_everything_once(tmp_path: Path) -> None:
    found = plan.make(experiment(tmp_path), {"kernel"})
    names = [BASELINE, AGAIN, *(setting.name for setting in found.experiment.settings())]
    for block in range(3):
        boots = [boot for boot in found.boots if boot.block == block]
        # Each boot begins with the tester.
        assert [boot.settings[0].setting for boot in boots] == [TESTER, TESTER]
        assert sorted(len(boot.settings) for boot in boots) == [2, len(names)]
        assert sorted(str(boot.knobs) for boot in boots) == ["{'kernel': 'rt'}", "{}"]
        count = Counter(of_setting.setting for boot in boots for of_setting in boot.settings)
        assert count == Counter([*names, TESTER, TESTER])
        for boot in boots:
            for of_setting in boot.settings:
                # Two kinds of traffic: throughput, and latency at two rates.
                assert (
                    len({str(measurement) for measurement in of_setting.measurements})
                    == len(of_setting.measurements)
                    == 6
                )
    assert [measurement.number for *_, measurement in found.measurements()] == list(
        range(3 * (len(names) + 2) * 6)
    )


def test_the_tester_is_measured_at_every_rate_but_has_no_layers(tmp_path: Path) -> None:
    file = FILE.replace("[measure.throughput]", "")
    found = plan.make(experiment(tmp_path, f"{file}\n[measure.layers]\nrates = [7]\n"))
    rates = {
        of_setting.setting: {measurement.rate for measurement in of_setting.measurements}
        for boot in found.boots
        for of_setting in boot.settings
    }
    assert 7 in rates[BASELINE]
    assert rates[TESTER] == rates[BASELINE] - {7}


def test_all_measures_at_once_have_a_name_each(tmp_path: Path) -> None:
    """What is done is told by its name: also of measures that come later, at the same rates."""
    at_rates = [measure for measure in MEASURES if issubclass(measure.section, AtRates)]
    sections = {measure.name: {"rates": [7]} if measure in at_rates else {} for measure in MEASURES}
    found = plan.make(
        Experiment.model_validate({"name": "all", "question": "?", "measure": sections})
    )
    keys = [
        Key.of(boot, of_setting.setting, measurement)
        for boot, of_setting, measurement in found.measurements()
    ]
    assert len(set(keys)) == len(keys) > 0
    assert {measurement.measure for *_, measurement in found.measurements()} == set(sections)


def test_the_order_differs_between_blocks_and_seeds(tmp_path: Path) -> None:
    one = experiment(tmp_path)
    found = plan.make(one)
    orders = [[of_setting.setting for of_setting in boot.settings] for boot in found.boots]
    assert len({tuple(order) for order in orders}) == 3
    other = plan.make(one.model_copy(update={"seed": 2}))
    assert other.digest != found.digest
    assert [[of_setting.setting for of_setting in boot.settings] for boot in other.boots] != orders


@given(seed=st.integers(0, 2**32), blocks=st.integers(1, 5))
@settings(max_examples=30)
def test_more_repeats_do_not_change_those_before(seed: int, blocks: int) -> None:
    one = Experiment.model_validate(
        {
            "name": "few",
            "question": "Which?",
            "seed": seed,
            "matrix": {"a": [1, 2, 3], "b": [True, False]},
            "measure": {"latency": {"rates": [1, 2, 3]}},
            "repeats": {"least": 1, "most": blocks, "width": 0.1},
        }
    )
    more = one.model_copy(update={"repeats": one.repeats.model_copy(update={"most": blocks + 1})})
    found, longer = plan.make(one), plan.make(more)
    assert longer.boots[: len(found.boots)] == found.boots
    assert plan.make(one).digest == found.digest != longer.digest
    assert longer.seconds(blocks) == found.seconds() < longer.seconds()


def test_comments_and_places_do_not_change_the_digest(tmp_path: Path) -> None:
    found = plan.make(experiment(tmp_path))
    again = plan.make(experiment(tmp_path, "# A comment\n\n" + FILE))
    assert (again, again.digest) == (found, found.digest)
    assert replace(found, boots=found.boots[1:]).digest != found.digest


@pytest.mark.parametrize(
    ("name", "timed", "exact"),
    [
        ("ipv6", "6e1e7a3cd217a8ff", "f738e7af0e205448"),
        ("queues-and-affinity", "b1556d178de84fa7", "0efa863cdabda8fc"),
        ("quick", "1641b0b4fd81150c", "716f9a16fc8258d8"),
        ("realtime", "d45b3dddd8e2003c", "d4bb3651c1fa1a62"),
        ("router-settings", "a0a5cd74b0750509", "eba9a02a9d879082"),
        ("routes", "e2ca9b595ce9db16", "c75dbcd6161f33d8"),
    ],
)
def test_an_experiment_of_ours_has_the_plan_that_it_always_had(
    name: str, timed: str, exact: str
) -> None:
    # A run that was begun by an older skblab is resumed by the same plan. Their files had no budget
    # then, and realtime's trials were longer.
    found = read(SHIPPED / f"{name}.toml")
    repeats = found.repeats.model_copy(update={"budget_minutes": None})
    if name == "realtime":
        repeats = repeats.model_copy(update={"least": 15})
        latency = found.measure[Latency].model_copy(update={"seconds": 600.0})
        measure = found.measure.model_copy(update={"latency": latency})
        found = found.model_copy(update={"measure": measure})
    found = found.model_copy(update={"repeats": repeats})
    assert make_plan(found, exact=False).digest == timed
    assert make_plan(found, exact=True).digest == exact


def test_guests_of_two_cpus_take_longer() -> None:
    # ./skblab sweep another-cpu --exact --cpus 2 took 620 s on two CPUs.
    found = read(SHIPPED / "another-cpu.toml")
    assert make_plan(found, exact=True, cpus=2).seconds(at_once=2) == pytest.approx(620, rel=0.1)
    assert make_plan(found, exact=True).seconds(at_once=2) < 400


def test_a_later_measure_leaves_plans_without_it_as_they_were(tmp_path: Path) -> None:
    found = experiment(tmp_path)

    class Later(type(found.measure)):  # type: ignore[misc]
        """Sections with one that there was not before."""

        jitter: Latency | None = None

    asked = found.measure.model_dump()
    more = found.model_copy(update={"measure": Later.model_validate(asked)})
    assert plan.make(more).digest == plan.make(found).digest
    jitter = Later.model_validate(asked | {"jitter": {"rates": [1]}})
    assert plan.make(more.model_copy(update={"measure": jitter})).digest != (
        plan.make(found).digest
    )


@pytest.mark.parametrize(
    "text",
    [
        'baseline = { vlan = 7 }\n[matrix]\nbridge = ["both"]\n',
        '[matrix]\nvlan = [0, 7]\nbridge = ["none", "in"]\n',
        '[[setting]]\nname = "both"\nknobs = { bridge = "out", vlan = 7 }\n',
    ],
)
def test_packets_leave_one_way(tmp_path: Path, text: str) -> None:
    file = tmp_path / "ways.toml"
    file.write_text(f'name = "ways"\nquestion = "?"\n{text}[measure.throughput]\n')
    with pytest.raises(UsageError, match="both lead packets out their way: expected one of them"):
        read(file)
    # Without the VLAN.
    file.write_text(file.read_text().replace("[0, 7]", "[0]").replace("vlan = 7", "vlan = 0"))
    assert read(file).name == "ways"


OF_A_STUDY = """
[study]
name = "J. Doe (2015)"
differs = "ours has no card"
"""
PUBLISHED = "published = [5_800_000, 3_650_000]\n"


def of_a_study(tmp_path: Path, study: str = OF_A_STUDY, published: str = PUBLISHED) -> Experiment:
    setting = '[[setting]]\nname = "strict"\nknobs = { rp_filter = 1 }\n'
    file = tmp_path / "doe.toml"
    text = 'name = "doe"\nquestion = "?"\n' + study + setting + published
    file.write_text(text + "[measure.throughput]\n")
    return read(file)


def test_a_study_changes_nothing_of_what_is_run(tmp_path: Path) -> None:
    found = of_a_study(tmp_path)
    assert found.study and found.study.name == "J. Doe (2015)"
    assert [setting.published for setting in found.setting] == [(5_800_000, 3_650_000)]
    plain = of_a_study(tmp_path, study="", published="")
    assert plan.make(found).digest == plan.make(plain).digest


@pytest.mark.parametrize(
    ("study", "published", "why"),
    [
        ("", PUBLISHED, "setting 'strict' has published figures: expected [study]"),
        (OF_A_STUDY, "", "study: no [[setting]] has figures that it published"),
        (OF_A_STUDY, "published = [1, 0]\n", "greater than 0"),
        (OF_A_STUDY, "published = [1]\n", "published"),
        (
            OF_A_STUDY,
            "published_latency = { mean = [2, 1] }\n",
            "published_latency has 'mean': expected measure.latency as well",
        ),
        (
            OF_A_STUDY,
            'published_latency = { "anomalies from 9 us" = [2, 1] }\n'
            "[measure.latency]\nrates = [1]\n",
            "expected 9 in measure.latency.late_us as well",
        ),
        (OF_A_STUDY, "published_latency = { median = [2, 1] }\n", "published_latency"),
    ],
)
def test_a_study_without_rates_is_refused(
    tmp_path: Path, study: str, published: str, why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        of_a_study(tmp_path, study, published)
    assert why in str(caught.value) and "doe.toml" in str(caught.value)


@pytest.mark.parametrize(
    "file", sorted((TREE / "runners/studies").glob("lusticky-*.toml")), ids=lambda file: file.stem
)
def test_a_study_of_ours_travels_to_the_report(file: Path) -> None:
    request = Request(file=str(file), exact=True)
    found = of_parameters(dict(request.record(request.plan()).parameters))
    assert found is not None and found.name == "J. Luštický (2015)"
    # The study's rates: chapters 6.3 and 6.4, frames a second.
    assert {rate.before for rate in found.rates.values()} == {5_800_000}
    assert all(0.5 < rate.change + 1 <= 1 for rate in found.rates.values())


def test_a_study_of_delays_travels_to_the_report() -> None:
    request = Request(file=str(TREE / "runners/studies/dybvik-2023.toml"))
    found = of_parameters(dict(request.record(request.plan()).parameters))
    assert found is not None and found.name == "A. Dybvik (2023)" and not found.rates
    [(setting, latency)] = found.latency.items()
    assert setting == "real-time kernel, rings of 256"
    # Table 4.1: one of five figures is larger with it.
    assert [name for name, one in latency.items() if one.change > 0] == ["min"]
    assert latency["anomalies from 250 us"].with_it == 190
