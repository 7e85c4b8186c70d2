# SPDX-License-Identifier: GPL-2.0-or-later
"""Completion of bash, zsh and fish: typer's scripts, which ask skblab itself what can come next."""

from __future__ import annotations

from typer._completion_shared import get_completion_script

from skblab.cli import COMPLETE

PLACES = {
    "bash": "bash-completion/completions/skblab",
    "zsh": "zsh/site-functions/_skblab",
    "fish": "fish/vendor_completions.d/skblab.fish",
}
# zsh reads the file when the first Tab is pressed, and that one is to be answered, too.
AT_ONCE = '\n[[ $zsh_eval_context[-1] == loadautofunc ]] && _skblab_completion "$@"'


def scripts() -> dict[str, str]:
    """Return each shell's script by its path below share/."""
    made = {
        shell: get_completion_script(prog_name="skblab", complete_var=COMPLETE, shell=shell)
        for shell in PLACES
    }
    made["zsh"] += AT_ONCE
    return {PLACES[shell]: f"{text}\n" for shell, text in made.items()}
