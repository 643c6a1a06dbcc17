"""Utilities of all packages: files, progress, compilation, time."""
