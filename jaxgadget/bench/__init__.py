"""Timing beside peers."""
