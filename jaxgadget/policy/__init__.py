"""Policies: files, blueprints, evaluation, whole games solved."""
