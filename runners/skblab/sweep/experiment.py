# SPDX-License-Identifier: GPL-2.0-or-later
"""An experiment file: question, traffic, settings to compare, what to measure, how often.

The settings are the baseline, those of `[[setting]]`, each the baseline but for what it names, and
all combinations of `[matrix]`. Knobs of a `pair` go through their values together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from skblab.knobs import commands, keys, rules
from skblab.knobs.base import Knob
from skblab.knobs.commands import Commands
from skblab.knobs.naming import unknown
from skblab.knobs.netfilter import Netfilter
from skblab.knobs.registry import KNOBS, Catalogue
from skblab.knobs.rules import Texts, is_file
from skblab.knobs.sysctl import Sysctl
from skblab.knobs.values import PLAIN, Knobs, Name, PlainName, Value, flat, text
from skblab.sweep import kept
from skblab.sweep.measure.base import Sections
from skblab.sweep.measure.latency import Latency
from skblab.sweep.measures import MEASURES, PARTS, measures, parts
from skblab.sweep.planned import TESTER
from skblab.testbeds.asked import Needs, Traffic
from skblab_analysis.base import textfile, tomlfile
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.checked import Finite
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.published_study import LATENCY, threshold_us
from skblab_analysis.formats.run import RunName
from skblab_analysis.trials.rows import Setting as RecordedName

BASELINE = "baseline"
NETFILTER = "netfilter"
_NAME = re.compile(PLAIN)
_RECORDED: TypeAdapter[str] = TypeAdapter(RecordedName)
# Of one experiment, repeats included: at a second each they take eleven days.
MOST_TRIALS = 1_000_000
# No sysctl is in so many tables.
DEEPEST = 20
# Knobs that lead packets out, with the value that does not; and which of them exclude each other.
WAYS_OUT: Mapping[str, Value] = {
    **{"bridge": "none", "vlan": 0, "vrf": False},
    **{"routes": 0, "routes6": 0, "next_hops": 1},
}
WAYS_APART = (
    ("bridge", "vlan"),
    *(("vrf", other) for other in WAYS_OUT if other != "vrf"),
)
# Of the router, in every testbed.
PORTS = ("r0", "r1")
# devinet.c: both are one number.
_ALIASES = {"net/ipv4/conf/all/forwarding": "net/ipv4/ip_forward"}


class _Measured(Sections):
    @model_validator(mode="after")
    def _fits(self) -> _Measured:
        if not measures(self):
            *names, last = (measure.name for measure in MEASURES)
            raise ValueError(
                f"measures nothing: write [measure.{names[0]}], or one of {', '.join(names[1:])} "
                f"or {last} instead"
            )
        for fault in (fault for part in parts(self) for fault in part.faults(self)):
            raise ValueError(fault)
        return self


if TYPE_CHECKING:
    Measured = _Measured
else:
    # What is measured. Interrupts, softirqs, softnet and NIC statistics always are.
    Measured = create_model(
        "Measured",
        __base__=_Measured,
        __module__=__name__,
        **{part.name: (part.section | None, None) for part in PARTS},
    )


class Repeats(Finite):
    """How often: until the interval is narrow enough, or `most`, or the budget is spent.

    The budget comes first: fewer blocks than `least` are measured if no more fit.
    """

    least: Annotated[int, Field(ge=1, le=1000, description="fewest blocks, in fresh boots")] = 3
    most: Annotated[int, Field(ge=1, le=1000, description="most blocks")] = 3
    width: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            description="end once half of each interval is at most this share of its mean "
            "(by the blocks' scatter)",
        ),
    ] = None
    budget_minutes: Annotated[
        float | None,
        Field(gt=0, description="no further block begins that would end later than this"),
    ] = None
    warm_up_seconds: Annotated[
        float, Field(ge=0, le=600, description="traffic at the begin of each boot, not measured")
    ] = 2.0

    @model_validator(mode="after")
    def _ordered(self) -> Repeats:
        if self.most < self.least:
            raise ValueError(f"most is {self.most}, expected at least `least`, {self.least}")
        if self.most > self.least and self.width is None and self.budget_minutes is None:
            raise ValueError(
                f"least is {self.least} and most is {self.most}: write width or budget_minutes, "
                "which ends the sweep between them"
            )
        return self


Rate = Annotated[float, Field(gt=0)]


class Study(Finite):
    """A published study whose experiment this is."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=60, description="what it is called, such as J. Doe (2015)"),
    ]
    differs: Annotated[str, Field(description="what here is not as it was there")] = ""


class Setting(Finite):
    """A named setting: the baseline, but for `knobs`."""

    name: Annotated[
        RecordedName,
        Field(min_length=1, max_length=60, description="name of the setting in all tables"),
    ]
    knobs: Annotated[Knobs, Field(min_length=1, description="knobs that differ from the baseline")]
    published: Annotated[
        tuple[Rate, Rate] | None,
        Field(
            description="frames a second that the study published: of its own baseline, and with "
            "this setting"
        ),
    ] = None
    published_latency: Annotated[
        dict[Annotated[str, Field(pattern=f"^({LATENCY})$")], tuple[Rate, Rate]] | None,
        Field(
            description="likewise of latency: `min`, `mean` and `max` in us, and how many "
            "`anomalies from N us`, N being one of `late_us`"
        ),
    ] = None

    @field_validator("name")
    @classmethod
    def _not_ours(cls, name: str) -> str:
        if name in (BASELINE, AGAIN):
            raise ValueError(f"{name!r} is the baseline itself: choose another name")
        if name == TESTER:
            raise ValueError(f"{name!r} is the tester without a router: choose another name")
        return name


class Own(Finite):
    """A knob of your own: commands that set a value, print it, and put back what there was."""

    set: Annotated[str, Field(description="sets `{value}`")]
    get: Annotated[str, Field(description="prints the value, in one line")]
    restore: Annotated[
        str, Field(description="puts back `{value}`, which `get` printed before `set`")
    ]

    @field_validator("set", "get", "restore")
    @classmethod
    def _good(cls, template: str, info: ValidationInfo) -> str:
        if wrong := commands.fault(str(info.field_name), template):
            raise ValueError(wrong)
        return template


def _table(value: object) -> object:
    if isinstance(value, (dict, Own)):
        return value
    raise ValueError("write [commands.NAME] with set, get and restore below it")


class Experiment(Finite):
    """An experiment file."""

    name: Annotated[RunName, Field(description="name of the run's folder: a-z, 0-9, _ and -")]
    question: Annotated[str, Field(min_length=1, description="what the report answers")]
    seed: Annotated[Whole, Field(description="of the random order of settings")] = 1
    needs: Needs = Needs()
    traffic: Traffic = Traffic()
    study: Study | None = None
    baseline: Annotated[Knobs, Field(description="knobs of what others are compared with")] = {}  # noqa: RUF012 - pydantic copies it
    setting: tuple[Setting, ...] = ()
    matrix: Annotated[
        dict[Name, Annotated[tuple[Value, ...], Field(min_length=1)]],
        BeforeValidator(flat),
        Field(description="every combination of these values"),
    ] = {}  # noqa: RUF012 - pydantic copies it
    pair: Annotated[
        tuple[Annotated[tuple[Name, ...], Field(min_length=2)], ...],
        Field(description="knobs of the matrix that change together"),
    ] = ()
    exclude: Annotated[
        tuple[Annotated[Knobs, Field(min_length=1)], ...],
        Field(description="combinations of the matrix that are left out"),
    ] = ()
    commands: Annotated[
        dict[PlainName, Annotated[Own, BeforeValidator(_table)]],
        Field(description="knobs of your own, by their names"),
    ] = {}  # noqa: RUF012 - pydantic copies it
    # Without it only instructions can be counted, which no section asks for.
    measure: Measured = Field(default_factory=Measured.model_construct)
    repeats: Repeats = Repeats()
    # Rules that are files: text by value, as they were when the experiment was read.
    _rules: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @property
    def rules(self) -> Mapping[str, str]:
        """The texts of the files that its values name."""
        return self._rules

    @property
    def catalogue(self) -> Catalogue:
        """Every knob that its settings can name: skblab's, any sysctl, and its own."""
        own: dict[str, Knob] = {
            name: Commands(name, one.set, one.get, one.restore)
            for name, one in self.commands.items()
        }
        if self._rules:
            own[NETFILTER] = Netfilter(Texts(self._rules))
        return KNOBS.having(own)

    @model_validator(mode="after")
    def _has_what_is_narrow(self) -> Experiment:
        narrow = any(measure.narrows for measure in measures(self.measure))
        if self.repeats.width is not None and not narrow:
            names = " or ".join(
                f"measure.{measure.name}" for measure in MEASURES if measure.narrows
            )
            raise ValueError(f"repeats.width is of rates and delays: expected {names}, or no width")
        return self

    @model_validator(mode="after")
    def _of_a_study(self) -> Experiment:
        published = [
            setting.name
            for setting in self.setting
            if setting.published or setting.published_latency
        ]
        if published and self.study is None:
            raise ValueError(
                f"setting {published[0]!r} has published figures: expected [study] with its name"
            )
        if self.study is not None and not published:
            raise ValueError(
                "study: no [[setting]] has figures that it published (`published` or "
                "`published_latency`)"
            )
        asked = self.measure.get(Latency)
        for figure in (name for one in self.setting for name in one.published_latency or ()):
            late = threshold_us(figure)
            if asked is None or (late is not None and late not in asked.late_us):
                wanted = (
                    "measure.latency" if asked is None else f"{late} in measure.latency.late_us"
                )
                raise ValueError(f"published_latency has {figure!r}: expected {wanted} as well")
        return self

    @model_validator(mode="after")
    def _whole(self) -> Experiment:
        for pair in self.pair:
            if unknown := [name for name in pair if name not in self.matrix]:
                raise ValueError(f"pair: {unknown[0]} is not in the matrix")
            lengths = {len(self.matrix[name]) for name in pair}
            if len(lengths) > 1:
                raise ValueError(f"pair: {', '.join(pair)} need equally many values in the matrix")
        paired = [name for pair in self.pair for name in pair]
        if twice := {name for name in paired if paired.count(name) > 1}:
            raise ValueError(f"pair: {min(twice)} is in two pairs: a knob can be in one")
        for excluded in self.exclude:
            if unknown := [name for name in excluded if name not in self.matrix]:
                raise ValueError(f"exclude: {unknown[0]} is not in the matrix")
        self._check_number()
        for combination in self._combinations():
            _recordable(combination.name)
        names = Counter(setting.name for setting in self.settings())
        if twice := {name for name, count in names.items() if count > 1}:
            raise ValueError(f"setting: two are named {min(twice)!r}")
        self._check_ways_out()
        return self

    def _check_ways_out(self) -> None:
        """Raise ValueError if packets of a setting had two ways out, of which one is taken."""
        for setting in (None, *self.settings()):
            knobs = knobs_of(self, setting)
            if against := ways_apart(knobs):
                name = setting.name if setting else BASELINE
                one, other = (f"{knob} = {_quoted(knobs[knob])}" for knob in against)
                raise ValueError(
                    f"{name}: {one} and {other} both lead packets out their way: expected one of "
                    "them"
                )

    def _check_number(self) -> None:
        """Raise ValueError for more trials than anybody can wait for, before they are made."""
        groups = [pair[0] for pair in self.pair]
        groups += [name for name in self.matrix if not self._paired(name)]
        settings = len(self.setting) + prod(len(self.matrix[name]) for name in groups)
        traffic = self.traffic
        kinds = (traffic.family, traffic.frame, traffic.flows, traffic.destinations)
        trials = settings * prod(map(len, kinds)) * self.repeats.most
        if trials > MOST_TRIALS:
            raise ValueError(
                f"matrix: {settings} settings are {trials} trials, with all traffic and repeats; "
                f"expected at most {MOST_TRIALS}"
            )

    def settings(self) -> list[Setting]:
        """Return every setting but the baseline, in the file's order."""
        return [*self.setting, *self._combinations()]

    def _combinations(self) -> Iterator[Setting]:
        """Yield those of the matrix that are not excluded and are not the baseline itself."""
        groups = [*self.pair, *((name,) for name in self.matrix if not self._paired(name))]
        columns = [
            [
                dict(zip(group, values, strict=True))
                for values in zip(*(self.matrix[name] for name in group), strict=True)
            ]
            for group in groups
        ]
        # In the order of the matrix, whatever is paired.
        order = list(self.matrix)
        for chosen in product(*columns) if columns else ():
            knobs = {name: value for part in chosen for name, value in part.items()}
            knobs = {name: knobs[name] for name in order}
            if any(knobs.items() >= excluded.items() for excluded in self.exclude):
                continue
            if self.baseline.items() >= knobs.items():
                continue
            # Names of settings have no braces.
            words = " ".join(
                f"{name.replace(keys.PORT, 'port')}={text(value)}" for name, value in knobs.items()
            )
            yield Setting.model_construct(name=words, knobs=knobs)

    def _paired(self, name: str) -> bool:
        return any(name in pair for pair in self.pair)


def _recordable(name: str) -> None:
    """Raise ValueError if records take no such name, which is made of a matrix."""
    try:
        _RECORDED.validate_python(name)
    except ValidationError as error:
        [fault] = error.errors(include_url=False)
        raise ValueError(
            f"matrix: the combination {name!r} ({len(name)} characters) cannot be recorded by its "
            f"name: {fault['msg']}; write it as a [[setting]] with a name of its own"
        ) from None


def read(file: Path) -> Experiment:
    """Read an experiment file; UsageError says what is wrong in which line."""
    what = "the experiment"
    raw = tomlfile.parse(textfile.read(file, what), f"{what} {file}")
    # Before it is validated: a dotted name makes a table, of which nothing useful would be said.
    if wrong := list(_misnamed(raw)):
        raise tomlfile.complaint(file, wrong)
    found = tomlfile.read(Experiment, file, what)
    found._rules, wrong = _rules(found, file.parent)
    if wrong:
        raise tomlfile.complaint(file, wrong)
    return found


def _rules(
    experiment: Experiment, folder: Path
) -> tuple[dict[str, str], list[tuple[tomlfile.Place, str]]]:
    """Return the texts of files of rules, beside an experiment's file, and which cannot be had."""
    texts: dict[str, str] = {}
    wrong: list[tuple[tomlfile.Place, str]] = []
    for place, name, value in _given(experiment):
        if name == NETFILTER and isinstance(value, str) and is_file(value) and value not in texts:
            try:
                texts[value] = rules.read(kept.file(folder, value))
            except ValueError as error:
                wrong.append((place, str(error)))
    return texts, wrong


def _misnamed(raw: Mapping[str, object]) -> Iterator[tuple[tomlfile.Place, str]]:
    """Yield where a TOML document names knobs as no knob is named, such as net.core.dev_weight."""
    tables: list[tuple[tomlfile.Place, object]] = [
        (("baseline",), raw.get("baseline")),
        (("matrix",), raw.get("matrix")),
    ]
    settings = raw.get("setting")
    for number, setting in enumerate(settings if isinstance(settings, list) else ()):
        if isinstance(setting, dict):
            tables.append((("setting", number, "knobs"), setting.get("knobs")))
    for place, table in tables:
        for path in _paths(table):
            name = keys.canonical(".".join(path))
            sysctl = path[0] == keys.PREFIX and len(path) <= DEEPEST and keys.is_sysctl(name)
            if not sysctl and not (len(path) == 1 and _named(name)):
                yield (*place, *path), unknown(name)


def _named(name: str) -> bool:
    return keys.is_sysctl(name) or _NAME.fullmatch(name) is not None


def _paths(table: object, deep: int = DEEPEST) -> Iterator[tuple[str, ...]]:
    """Yield the path of each value in a table of tables, or its begin where that is too long."""
    for name, value in table.items() if isinstance(table, dict) else ():
        if isinstance(value, dict) and value and deep:
            yield from ((name, *path) for path in _paths(value, deep - 1))
        else:
            yield (name,)


def ways_apart(knobs: Mapping[str, Value]) -> tuple[str, str] | None:
    """Return two of these knobs that both lead packets out, of which one has no effect; or None.

    The routes of all but `vrf` are in the main table, where nothing from a VRF is looked up.
    """
    there = [name for name, none in WAYS_OUT.items() if knobs.get(name, none) != none]
    for one, other in WAYS_APART:
        if one in there and other in there:
            return one, other
    return None


def _quoted(value: Value) -> str:
    return text(value) if isinstance(value, bool) else repr(value)


def knobs_of(experiment: Experiment, setting: Setting | None) -> Mapping[str, Value]:
    """Return all knobs of a setting; None is the baseline."""
    return {**experiment.baseline, **(setting.knobs if setting else {})}


def differing(experiment: Experiment, setting: Setting) -> dict[str, Value]:
    """Return the knobs of a setting that are not as they are in the baseline."""
    return {
        name: value
        for name, value in setting.knobs.items()
        if name not in experiment.baseline or experiment.baseline[name] != value
    }


def faults(experiment: Experiment) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Yield where an experiment has a knob that there is not, or a value that it does not take."""
    catalogue = experiment.catalogue
    for name in experiment.commands:
        if name in KNOBS or name == keys.PREFIX:
            yield ("commands", name), "is a knob of skblab's: choose another name"
    yield from _twice(experiment)
    for place, name, value in _given(experiment):
        knob = catalogue.find(name)
        if knob is None:
            yield place, unknown(name, experiment.commands)
            continue
        try:
            knob.check(value)
        except ValueError as error:
            yield place, str(error)


def _given(experiment: Experiment) -> Iterator[tuple[tuple[int | str, ...], str, Value]]:
    for name, value in experiment.baseline.items():
        yield ("baseline", *_written(name)), name, value
    for number, setting in enumerate(experiment.setting):
        for name, value in setting.knobs.items():
            yield ("setting", number, "knobs", *_written(name)), name, value
    for name, values in experiment.matrix.items():
        for value in values:
            yield ("matrix", *_written(name)), name, value


def _written(name: str) -> tuple[str, ...]:
    """Return a knob's name as files have it, key by key."""
    return (keys.PREFIX, keys.key(name)) if keys.is_sysctl(name) else (name,)


def _twice(experiment: Experiment) -> Iterator[tuple[tomlfile.Place, str]]:
    """Yield sysctls that are set in two ways: each would put back what the other has set."""
    given = {name: place for place, name, _ in _given(experiment)}
    setters = {
        path: name
        for name, knob in KNOBS.items()
        if name in given and isinstance(knob, Sysctl)
        for path in _same(path.replace("{device}", keys.PORT) for path in knob.keys)
    }
    for name in filter(keys.is_sysctl, given):
        paths = _same([keys.path(name)])
        if others := {setters[path] for path in paths & setters.keys()}:
            other = min(others)
            what = "" if keys.is_sysctl(other) else "the knob "
            yield given[name], f"{what}{other} sets it as well: use one of them"
        setters |= dict.fromkeys(paths, name)


def _same(paths: Iterable[str]) -> set[str]:
    """Return what sysctls are set by paths with `{port}`, each by one path of those that it has."""
    found = {path.replace(keys.PORT, port) for path in paths for port in PORTS}
    return {_ALIASES.get(path, path) for path in found}
