"""The compiled algebra, which knows no game and no gadget."""
