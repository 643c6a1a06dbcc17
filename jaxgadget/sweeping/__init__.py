"""Many refinements, resumable."""
