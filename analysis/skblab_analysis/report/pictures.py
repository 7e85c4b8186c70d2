# SPDX-License-Identifier: GPL-2.0-or-later
"""Has gnuplot draw the pictures of a run.

Each picture leaves NAME.gp, NAME.dat, NAME.svg, NAME-narrow.svg (for a phone) and NAME.png side
by side; `gnuplot NAME.gp` in that folder makes the pictures again. The drawing itself is in the
picture's template; what all have in common is in analysis/gnuplot/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from skblab_analysis.base import disk
from skblab_analysis.base.checked import RecordError, RefusedError
from skblab_analysis.base.pictures import TEMPLATES, Picture, Value

# Runs gnuplot with arguments in a folder; raises when gnuplot fails.
GnuplotRunner = Callable[[Sequence[str], Path], None]

OUTPUTS = (".svg", "-narrow.svg", ".png")


def write(picture: Picture, folder: Path) -> bool:
    """Write a picture's script and data into `folder`; return whether it is there, drawn by them.

    What was drawn by others is removed.
    """
    variables = {"name": picture.name, "data": f"{picture.name}.dat", **picture.variables}
    parts = (TEMPLATES / "style.gp", picture.template, TEMPLATES / "outputs.gp")
    script = "\n".join(
        [
            "# SPDX-License-Identifier: GPL-2.0-or-later",
            f"# {' '.join(picture.title.split())}. Draw it again: gnuplot {picture.name}.gp",
            "reset session",
            *(_assignment(name, value) for name, value in variables.items()),
            "",
            *map(_template, parts),
        ]
    )
    texts = {folder / f"{picture.name}.dat": picture.data, folder / f"{picture.name}.gp": script}
    outputs = [folder / f"{picture.name}{suffix}" for suffix in OUTPUTS]
    same = all(
        path.is_file() and path.read_bytes() == text.encode() for path, text in texts.items()
    )
    if same and all(output.is_file() and output.stat().st_size for output in outputs):
        return True
    for path, text in texts.items():
        disk.write(path, text)
    _remove(outputs)
    return False


def draw(picture: Picture, folder: Path, gnuplot: GnuplotRunner) -> None:
    """Write and draw a picture in `folder`; RefusedError when gnuplot leaves no output."""
    write(picture, folder)
    # Or what is left of an earlier one would pass for what gnuplot draws.
    _remove([folder / f"{picture.name}{suffix}" for suffix in OUTPUTS])
    gnuplot([f"{picture.name}.gp"], folder)
    for suffix in OUTPUTS:
        output = folder / f"{picture.name}{suffix}"
        if not output.is_file() or not output.stat().st_size:
            raise RefusedError(f"gnuplot made no {output.name} from {picture.name}.gp in {folder}")


def _assignment(name: str, value: Value) -> str:
    if isinstance(value, str):
        # Ticks hold quoted strings themselves, so they stand in single quotes.
        return f"{name} = {_single(value)}"
    if isinstance(value, int | float):
        return f"{name} = {value!r}"
    items = ", ".join(_single(item) if isinstance(item, str) else str(item) for item in value)
    return f"array {name}[{len(value)}] = [{items}]"


def _remove(outputs: Sequence[Path]) -> None:
    for output in outputs:
        with disk.explained(output):
            output.unlink(missing_ok=True)


def _single(text: str) -> str:
    """Return a string in single quotes, in which gnuplot executes and replaces nothing."""
    if any(character in text for character in "\n\r\0"):
        raise RecordError(f"{text!r} cannot stand in a gnuplot script")
    return f"'{text.replace(chr(39), chr(39) * 2)}'"


def _template(path: Path) -> str:
    """Return a part of a script without its licence line, which the script has once."""
    return path.read_text().partition("\n")[2]
