# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the pages that are made of the code (make schemas)."""

from __future__ import annotations

from skblab.lab import paths
from skblab.pages.made import FOLDERS, pages
from skblab_analysis.base.disk import write_whole


def main() -> None:
    """Write all of them, and remove those of commands that there are not any more."""
    made = pages()
    for folder in FOLDERS:
        (paths.tree() / folder).mkdir(parents=True, exist_ok=True)
        for file in (paths.tree() / folder).glob("*.md"):
            if str(file.relative_to(paths.tree())) not in made:
                file.unlink()
    for name, text in made.items():
        write_whole(paths.tree() / name, text)


if __name__ == "__main__":
    main()
