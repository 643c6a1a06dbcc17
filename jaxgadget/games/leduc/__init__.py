"""Leduc poker of any size."""
