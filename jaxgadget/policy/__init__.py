"""Policies: files, blueprints, evaluation, matches, and solutions of whole games."""
