"""jaxgadget: thousands of subgames of imperfect-information games, solved in one batch.

Load a game, enumerate it, make blueprints, and re-solve every subgame below a cut:

    tree = jaxgadget.enumerate_game(jaxgadget.load("leduc_poker"))
    blueprint = jaxgadget.Policy.uniform(tree)
    print(jaxgadget.refine(tree, "flop", blueprint).table)
"""

from typing import Any

import lazy_loader

from jaxgadget.util.viewers import set_viewer

# `__init__.pyi` lists every public name with its module; a name is imported on first use.
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("jaxgadget")
    return _find(name)


def _explore(result: object, **options: Any) -> Any:  # imported on first use, too
    from jaxgadget.explorer.page import explore

    return explore(result, **options)


set_viewer(_explore)
