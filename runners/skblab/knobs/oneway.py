# SPDX-License-Identifier: GPL-2.0-or-later
"""Sysctls that no write puts back: those that lock themselves, and one that throws things away."""

from __future__ import annotations

import re

_LOCKS = "the kernel lets nobody write what was there before, until it boots again"
# Key, with slashes; what it takes of all values, where only some are for good; why.
_ONE_WAY = (
    (r"kernel/modules_disabled", (), _LOCKS),
    (r"kernel/kexec_load_disabled", (), _LOCKS),
    (r"kernel/kexec_load_limit_(?:panic|reboot)", (), _LOCKS),
    (r"kernel/unprivileged_bpf_disabled", ("0", "2"), _LOCKS),
    (r"kernel/yama/ptrace_scope", ("0", "1", "2"), _LOCKS),
    (
        r"net/ipv6/conf/[^/]+/disable_ipv6",
        (),
        "addresses and routes that it throws away do not come back",
    ),
)


def why_not(path: str, text: str) -> str:
    """Return why a sysctl must not be set to a text, in words; empty if it can be put back."""
    for pattern, allowed, why in _ONE_WAY:
        if re.fullmatch(pattern, path) and text.strip() not in allowed:
            return f"cannot be put back: {why}" + (
                f"; expected {' or '.join(allowed)}" if allowed else ""
            )
    return ""
