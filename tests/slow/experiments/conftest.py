"""Smoke test of a module's study: tiny games and few iterations."""

import pytest

from experiments.study import Settings


@pytest.fixture(scope="module")
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of the folder written by a smoke test of the module's `STUDY`."""
    study = request.module.STUDY
    folder = tmp_path_factory.mktemp(study.name)
    study.main(["--smoke", "--folder", str(folder)])
    return study.settings(smoke=True, folder=folder)
