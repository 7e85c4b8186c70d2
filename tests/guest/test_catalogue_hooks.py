# SPDX-License-Identifier: GPL-2.0-or-later
"""Every hook of the catalogue for this kernel is in its BTF, with the argument that it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab_analysis.formats.catalogue import Hook, load, version

TYPES_TO_PASS = ("CONST", "TYPEDEF", "VOLATILE")


class Btf:
    """A kernel's types, as bpftool prints them."""

    def __init__(self, types: list[dict[str, Any]]) -> None:
        self.by_id = {type_["id"]: type_ for type_ in types}
        self.functions = {type_["name"]: type_ for type_ in types if type_["kind"] == "FUNC"}
        self.typedefs = {type_["name"]: type_ for type_ in types if type_["kind"] == "TYPEDEF"}

    def arguments(self, hook: Hook) -> list[dict[str, Any]]:
        """The parameters that a program attached there sees."""
        if hook.kind == "tracepoint":
            proto = self.by_id[
                self.by_id[self.typedefs[f"btf_trace_{hook.target}"]["type_id"]]["type_id"]
            ]
            # The first is the tracepoint's own.
            return list(proto["params"][1:])
        return list(self.by_id[self.functions[hook.target]["type_id"]]["params"])

    def returned(self, hook: Hook) -> str:
        """The type that the function returns."""
        return self.pointed_at(self.by_id[self.functions[hook.target]["type_id"]]["ret_type_id"])

    def pointed_at(self, number: int) -> str:
        """The name of what a pointer's type points at."""
        one = self.by_id[number]
        while one["kind"] in TYPES_TO_PASS or one["kind"] == "PTR":
            one = self.by_id[one["type_id"]]
        return str(one["name"])


@pytest.fixture(scope="module")
def btf(lab: LabRoot, stock: Kernel) -> Btf:
    bind = Bind(stock.path, "build")
    call = ["bpftool", "--json", "btf", "dump", "file", f"{bind.inside}/vmlinux"]
    return Btf(json.loads(lab.run(call, binds=[bind], what="bpftool btf dump"))["types"])


HOOKS = [hook for hooked in load().hooked for hook in hooked.hooks if hook.fits(version("6.12"))]


@pytest.mark.labroot
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.at)
def test_the_kernel_has_the_hook(hook: Hook, btf: Btf) -> None:
    subject = hook.subject
    if subject is None:
        assert hook.target in btf.functions
        return
    want = "napi_struct" if hook.napi else "sk_buff_head" if subject.list else "sk_buff"
    if subject.index is None:
        assert btf.returned(hook) == want
        return
    argument = btf.arguments(hook)[subject.index]
    assert btf.pointed_at(argument["type_id"]) == want
    # Tracepoints' prototypes have no names in BTF.
    if hook.kind != "tracepoint":
        assert argument["name"] == subject.name


@pytest.mark.labroot
def test_hooks_for_older_kernels_are_gone(btf: Btf) -> None:
    catalogue = load()
    gone = [h for p in catalogue.points for h in p.hooks if not h.fits(version("6.12"))]
    assert gone
    for hook in gone:
        assert f"btf_trace_{hook.target}" not in btf.typedefs
        assert hook.target not in btf.functions
