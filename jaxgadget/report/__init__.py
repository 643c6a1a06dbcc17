"""Results as tables and pictures.

The functions here draw from data frames or results and return matplotlib's axes, to which more can be
added. Names are imported on first use, matplotlib when a picture is drawn.
"""

import lazy_loader

# The public names and their modules are in `__init__.pyi`.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
