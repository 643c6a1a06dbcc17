"""Results as tables and pictures.

The functions here draw from DataFrames or results and return matplotlib's axes, so that one
can go on drawing. Names are imported when they are first used, matplotlib when something is drawn.
"""

import lazy_loader

# Every public name and its module stands in `__init__.pyi`.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
