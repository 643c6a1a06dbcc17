"""Resumable sweeps over many refinements."""
