# SPDX-License-Identifier: GPL-2.0-or-later
"""The script that a CI calls: the base is measured once, and who is at fault is told by status."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conftest import TREE
from repositories import run_git

SCRIPT = TREE / "docs" / "howto" / "ci" / "compare-commits.sh"
# Stands for skblab: notes what it is asked, makes a base's run folder, and ends as it is told.
SKBLAB = """\
#!/bin/sh
echo "$*" >>"$HERE/asked"
case "$*" in
*--markdown)
	[ -d "$2" ] || exit 99
	echo '| table |'
	status=$(cat "$HERE/status")
	[ ! -f "$HERE/then" ] || mv "$HERE/then" "$HERE/status"
	exit "$status" ;;
*)
	mkdir -p "$SKBLAB_RESULTS/compare-1"
	state=finished
	[ ! -f "$HERE/state" ] || state=$(cat "$HERE/state")
	printf '"state": "%s"\\n' "$state" >"$SKBLAB_RESULTS/compare-1/run.json"
	[ ! -f "$HERE/base" ] || exit "$(cat "$HERE/base")" ;;
esac
"""


class Place:
    """A repository with two commits, a command that stands for skblab, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.linux = folder / "linux"
        self.linux.mkdir()
        run_git(self.linux, "init", "-q")
        for number in range(2):
            run_git(self.linux, "commit", "-q", "--allow-empty", "-m", f"{number}")
        self.base, self.head = (run_git(self.linux, "rev-parse", of) for of in ("HEAD~1", "HEAD"))
        command = folder / "skblab"
        command.write_text(SKBLAB)
        command.chmod(0o755)
        self.say(status=0)

    def say(self, **statuses: int) -> None:
        """Set what the command ends with: `status`, `then` the next time, `base` of a base."""
        for name, status in statuses.items():
            (self.folder / name).write_text(f"{status}\n")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        mine = {"HERE": str(self.folder), "KEPT": str(self.folder / "kept")}
        return subprocess.run(
            [str(SCRIPT), *words],
            env={**os.environ, **mine, "SKBLAB": str(self.folder / "skblab")},
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[str]:
        """Return what was asked since the last time."""
        found = self.folder / "asked"
        lines = found.read_text().splitlines() if found.exists() else []
        found.unlink(missing_ok=True)
        return lines


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return one."""
    return Place(tmp_path)


def test_the_base_is_measured_once(place: Place) -> None:
    done = place.run(str(place.linux), "HEAD~1", "HEAD")
    assert (done.returncode, done.stdout) == (0, "| table |\n")
    first, second = place.asked()
    assert first == f"compare git:{place.linux}@{place.base} --quick"
    kept = second.split()[1]
    assert second == f"compare {kept} git:{place.linux}@{place.head} --quick --markdown"
    assert Path(kept).parent.parent == place.folder / "kept"
    place.run(str(place.linux), "HEAD~1", "HEAD")
    assert place.asked() == [second]
    # What is asked for else has another base.
    place.run(str(place.linux), "HEAD~1", "HEAD", "--workload", "veth")
    first, second = place.asked()
    assert first == f"compare git:{place.linux}@{place.base} --workload veth"
    assert second.split()[1] != kept


@pytest.mark.parametrize("status", [1, 3, 143])
def test_its_status_is_that_of_the_comparison(place: Place, status: int) -> None:
    place.say(status=status)
    for _ in range(2):
        assert place.run(str(place.linux), "HEAD~1", "HEAD").returncode == status


def test_a_base_that_does_not_fit_any_more_is_measured_again(place: Place) -> None:
    place.run(str(place.linux), "HEAD~1", "HEAD")
    place.say(status=2, then=1)
    place.asked()
    assert place.run(str(place.linux), "HEAD~1", "HEAD").returncode == 1
    assert [line.split()[-1] for line in place.asked()] == ["--markdown", "--quick", "--markdown"]


@pytest.mark.parametrize(
    ("status", "state", "ends"),
    [
        (3, "finished", 0),
        (3, "failed", 3),
        (1, "failed", 3),
        (2, "failed", 2),
        (130, "failed", 130),
        (255, "failed", 255),
    ],
)
def test_a_base_that_was_not_measured_is_not_kept_and_blames_nobody(
    place: Place, status: int, state: str, ends: int
) -> None:
    place.say(base=status)
    (place.folder / "state").write_text(state)
    done = place.run(str(place.linux), "HEAD~1", "HEAD")
    assert done.returncode == ends
    kept = ends == 0
    assert len(place.asked()) == 1 + kept
    place.say(base=0)
    assert place.run(str(place.linux), "HEAD~1", "HEAD").returncode == 0
    assert len(place.asked()) == 2 - kept


@pytest.mark.parametrize(
    "words", [(), ("linux",), ("linux", "gone", "HEAD"), ("nowhere", "a", "b")]
)
def test_bad_usage_asks_nothing(place: Place, words: tuple[str, ...]) -> None:
    named = [str(place.linux) if word == "linux" else word for word in words]
    assert place.run(*named).returncode == 2
    assert place.asked() == []


def test_what_others_added_to_the_base_is_not_the_branchs(place: Place) -> None:
    run_git(place.linux, "checkout", "-q", "-b", "branch", place.base)
    run_git(place.linux, "commit", "-q", "--allow-empty", "-m", "of the branch")
    place.run(str(place.linux), place.head, "branch")
    first, _ = place.asked()
    assert first == f"compare git:{place.linux}@{place.base} --quick"


def test_a_place_that_cannot_be_written_to_blames_nobody(place: Place) -> None:
    (place.folder / "kept").write_text("a file\n")
    done = place.run(str(place.linux), "HEAD~1", "HEAD")
    assert done.returncode == 2 and place.asked() == []
