# SPDX-License-Identifier: GPL-2.0-or-later
"""The model of many revisions on many nodes: against what can be reckoned, and against itself."""

from __future__ import annotations

import itertools
import random
from collections.abc import Generator
from dataclasses import replace

import pytest
import simpy

from scale import __main__ as program
from scale.costs import Costs, Made, load
from scale.model import POLL, Plan, Turns, run
from skblab.jobs.packing import Packing

NOTHING = 1e-12
TASK = 20.0
SMALL = Plan(nodes=4, cpus=2, revisions=60, workloads=6, sides=20, bounds=Packing(least=120.0))
# Of one command, and as many elements as revisions.
ONE = replace(SMALL, sides=60)


def costs(**given: object) -> Costs:
    """Costs of nothing but boots, and what is given."""
    names = [name for name in Costs.model_fields if name not in ("schema_name", "made", "tasks")]
    free = {
        name: 1 if name.endswith(("root_bytes", "l_bytes", "d_bytes")) else NOTHING
        for name in names
    }
    made = Made(command="a test", at="2026", processors=2, load=0, disk="none", slurm="none")
    return Costs.model_validate({**free, "made": made, "tasks": {"only": TASK}, **given})


# Each part costs something.
ALL = costs(
    **{"begin": 2, "unpack_root": 10, "unpack_kernel": 2, "pack_kernel": 4, "build_hit": 40},
    **{"build_miss": 400, "kernel_bytes": 10**8, "root_bytes": 10**9, "put": 0.02},
    **{"put_share": 0.01, "element": 0.01, "sbatch": 0.1, "squeue": 0.1, "pack_row": 1e-5},
    **{"rows": 500.0, "record_bytes": 20_000, "list_name": 1e-5, "get": 1e-4},
)


def test_the_costs_that_are_stored_can_be_read() -> None:
    stored = load()
    assert stored.made.command.startswith("make scale-costs")
    assert stored.put_share < stored.put and stored.build_hit < stored.build_miss


def test_one_cpu_takes_as_long_as_all_boots() -> None:
    found = run(replace(ONE, nodes=1, cpus=1), costs())
    boots = 60 * 6 * TASK
    assert found.boots == boots
    # The client looks when all has ended, and not before.
    assert boots <= found.seconds <= boots + 2 * POLL
    assert found.shares["CPUs"] == pytest.approx(1, abs=2 * POLL / boots)


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [
        # One at a time, by both CPUs of the client.
        ({"pack_kernel": 30.0}, 60 * 30 / 2),
        # In each of four nodes' first elements, side by side.
        ({"unpack_root": 50.0}, 50.0),
        # Of 60 elements on 8 CPUs each has seven or eight.
        ({"begin": 100.0}, 8 * 100.0),
        # All wait for one scheduler.
        ({"element": 60.0}, 60 * 60.0 - 59 / 8 * 6 * TASK),
        # All rows, once.
        ({"rows": 10.0, "pack_row": 0.5}, 60 * 6 * 10 * 0.5),
        ({"get": 0.5}, 60 * 6 * 0.5),
    ],
)
def test_a_cost_is_paid_where_it_is_due(cost: dict[str, float], seconds: float) -> None:
    longer = run(ONE, costs(**cost)).seconds - run(ONE, costs()).seconds
    # The client looks each ten seconds, and what waits for a scheduler is out of step.
    assert longer == pytest.approx(seconds, abs=2 * POLL + (TASK * 6 if "element" in cost else 0))


def test_who_takes_turns_waits_as_queueing_theory_has_it() -> None:
    """M/D/1: Pollaczek and Khinchine's mean wait, at half of the load."""
    count, share = 120_000, 0.5
    clock, dice, waits = simpy.Environment(), random.Random(1), 0.0
    turns = Turns(clock)

    def come() -> Generator[simpy.Event, object, None]:
        nonlocal waits
        for _ in range(count):
            yield clock.timeout(dice.expovariate(share))
            waits += turns.serve(1.0) - 1.0

    clock.run(clock.process(come()))
    assert waits / count == pytest.approx(share / (2 * (1 - share)), rel=0.02)
    assert turns.busy == count


def test_two_lanes_serve_two_at_once() -> None:
    turns = Turns(simpy.Environment(), lanes=2)
    assert [turns.serve(3.0) for _ in range(5)] == [3, 3, 6, 6, 9]


@pytest.mark.parametrize(
    "plan",
    [
        SMALL,
        replace(SMALL, ahead=1),
        replace(SMALL, build_on_nodes=True, appends=True),
        replace(SMALL, together=True, servers=3, fetched=0.25),
        # Less than an array is outstanding at once, and an element has tasks of two revisions.
        replace(ONE, bounds=Packing(least=200.0, array=5, outstanding=11)),
    ],
)
def test_each_task_runs_once(plan: Plan) -> None:
    found = run(plan, ALL)
    assert len(found.ran) == 360 and set(found.ran) == {1}
    assert found.boots == pytest.approx(360 * TASK)
    assert found.at_once <= min(plan.nodes * plan.cpus, plan.bounds.outstanding)
    assert all(0 <= share <= 1 for share in found.shares.values())


def test_more_nodes_are_never_slower_until_one_part_is_the_limit() -> None:
    plan = replace(ONE, revisions=200, sides=200, workloads=12)
    found = [run(replace(plan, nodes=nodes), ALL) for nodes in (1, 2, 4, 8, 16, 32)]
    for few, many in itertools.pairwise(found):
        # What a look is late, it is late.
        assert many.seconds <= few.seconds + 2 * POLL
    assert found[0].limit == "CPUs" and found[-1].limit == "client"
    built = sum((ALL.build_miss,) + (ALL.build_hit,) * 199) / plan.cpus
    assert found[-1].seconds > built


def test_what_is_done_about_a_part_helps_where_it_is_the_limit() -> None:
    many = replace(ONE, nodes=30)
    client = run(many, ALL)
    assert client.limit == "client"
    assert run(replace(many, build_on_nodes=True), ALL).seconds < 0.6 * client.seconds
    # Kernels are there, and are large.
    large = ALL.model_copy(update={"kernel_bytes": 5 * 10**10, "build_hit": 1.0, "build_miss": 1.0})
    fetched = replace(many, build_on_nodes=False)
    one = run(fetched, large)
    assert one.limit == "link"
    # The client still hands over one kernel after the other.
    assert run(replace(fetched, servers=4), large).seconds < 0.7 * one.seconds


def test_the_compactor_that_writes_all_again_has_more_to_do() -> None:
    slow = costs(rows=100.0, pack_row=1e-3)
    again, once = (run(replace(SMALL, appends=appends), slow) for appends in (False, True))
    # Three commands: one and two and three parts, against three.
    ratio = again.shares["compactor"] * again.seconds / (once.shares["compactor"] * once.seconds)
    assert ratio == pytest.approx(2)


def test_a_coarse_step_is_as_good_as_a_fine_one() -> None:
    fine, coarse = (run(replace(SMALL, grain=grain), ALL) for grain in (1, 6))
    assert coarse.seconds == pytest.approx(fine.seconds, rel=0.01)
    assert coarse.shares["store"] == pytest.approx(fine.shares["store"], rel=0.01)


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--revisions", "40"]) == 0
    out = capsys.readouterr().out
    rows = [line.split("  ")[0].strip() for line in out.splitlines()]
    assert {"boots", "network", "10000", "as it is", "one command for all", "a boot"} <= set(rows)


def test_a_cost_is_scaled_alone() -> None:
    twice = program.scaled(ALL, ("tasks", "kernel_bytes"), 2)
    assert twice.tasks == {"only": 2 * TASK} and twice.kernel_bytes == 2 * 10**8
    assert twice.model_copy(update={"tasks": ALL.tasks, "kernel_bytes": 10**8}) == ALL
