"""All studies behind one command: `python -m experiments STUDY [NAME …] [--smoke] [--redraw] [--folder F]`.

`python -m experiments.STUDY` is the same.
"""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Sequence

STUDIES = tuple(sorted(path.parent.name for path in pathlib.Path(__file__).parent.glob("*/__main__.py")))


def main(arguments: Sequence[str]) -> None:
    """Delegates to the study that is named first."""
    if not arguments or arguments[0] not in STUDIES:
        asked = f"unknown: {arguments[0]}" if arguments else "no study is named"
        sys.exit(f"python -m experiments: {asked}; expected one of {', '.join(STUDIES)}")
    importlib.import_module(f"experiments.{arguments[0]}.__main__").main(arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
