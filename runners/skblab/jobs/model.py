# SPDX-License-Identifier: GPL-2.0-or-later
"""What is stored of tasks: documents of one version each, which are never changed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from skblab_analysis.base.checked import Closed, Finite

KEY = r"^[0-9a-f]{16,64}$"
KeyName = Annotated[str, Field(pattern=KEY)]
# How often a task may begin.
TRIES = 3
# Who runs elements.
Engine = Literal["local", "slurm"]


class Artefact(Closed):
    """What nodes need of the cache: an entry's kind and key."""

    kind: Annotated[str, Field(pattern=r"^[a-z-]+$")]
    key: Annotated[str, Field(pattern=r"^[0-9a-z][0-9a-z.-]*$")]


class Task(Finite):
    """One task: what names its result, about how long it takes, and what it does."""

    key: KeyName
    seconds: float = Field(ge=0, description="estimate, on one CPU")
    does: dict[str, JsonValue] = Field(default_factory=dict, description="what its kind takes")
    artefacts: tuple[Artefact, ...] = Field(
        default=(), description="what it needs of the cache beside the campaign's"
    )


class Record(Finite):
    """`records/KE/KEY.json`: the result of one task."""

    schema_name: Literal["skblab.task-record/1"] = "skblab.task-record/1"
    key: KeyName
    kind: str
    versions: dict[str, str] = Field(description="tool to version, of the node that measured")
    host: str
    job: str = Field(description="as the submitter names it; empty: none said so")
    attempt: int = Field(ge=1)
    made: str = Field(description="UTC")
    seconds: float = Field(ge=0, description="wall time")
    result: dict[str, JsonValue]


class Begun(Closed):
    """`attempts/KE/KEY.N`: somebody is about to begin, or began, a task for the Nth time."""

    schema_name: Literal["skblab.task-begun/1"] = "skblab.task-begun/1"
    host: str
    job: str
    campaign: str
    array: int
    index: int
    begun: str = Field(description="UTC")


class Ended(Closed):
    """`attempts/KE/KEY.N.end`: that attempt gave no record, and why.

    `KEY.N.final` is the same of the last attempt: the task itself says that no other helps.
    """

    schema_name: Literal["skblab.task-ended/1"] = "skblab.task-ended/1"
    why: str
    ended: str = Field(description="UTC")


class Campaign(Closed):
    """`campaigns/ID/campaign.json`: what all tasks of one command have in common."""

    schema_name: Literal["skblab.campaign/1"] = "skblab.campaign/1"
    kind: str = Field(description="which function runs its tasks")
    title: str
    again: str = Field(description="the command that asks for it")
    memory: int = Field(ge=1, description="MiB of a task")
    on: Engine = Field(default="local", description="the engine that it was first meant for")
    artefacts: tuple[Artefact, ...] = ()
    context: dict[str, JsonValue] = Field(
        default_factory=dict, description="what all of its tasks take"
    )


class StoreMark(Closed):
    """`skblab-store.json`: the folder is a store, of this version."""

    schema_name: Literal["skblab.store/1"] = "skblab.store/1"
    id: str = Field(default="", description="tells it from other stores; older ones have none")
