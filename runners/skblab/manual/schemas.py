# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the schemas of what commands print and do not store: `make schemas`.

python -m skblab.manual.schemas
"""

from __future__ import annotations

import json

from skblab.commands.documents import PRINTED, STORED
from skblab.lab import paths
from skblab_analysis.base.disk import write_whole


def documents() -> dict[str, str]:
    """Return every file of results-schema/ that is made here: name to text."""
    models = {name: model for found in PRINTED.values() for name, model in found.items()}
    return {
        f"{name}.schema.json": json.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$comment": "SPDX-License-Identifier: GPL-2.0-or-later",
                # As it is printed: what has a default is there, too.
                **model.model_json_schema(by_alias=True, mode="serialization"),
            },
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
        for name, model in models.items()
        if name not in STORED
    }


if __name__ == "__main__":
    for name, text in documents().items():
        write_whole(paths.tree() / "results-schema" / name, text)
