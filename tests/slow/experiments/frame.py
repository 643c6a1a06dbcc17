"""The test shared by all studies."""

from collections.abc import Callable

from experiments.study import Settings, Study


def every_experiment_is_whole(study: Study) -> Callable[[Settings], None]:
    """A test that each experiment of a study writes data and a table, and its pictures if any."""

    def test(settings: Settings) -> None:
        text = (settings.folder / "tables.md").read_text(encoding="utf-8")
        pictures = list((settings.folder / "pictures").glob("*.png"))
        for experiment in study.experiments:
            name = experiment.NAME
            assert len(settings.data_of(name, "this test")), name
            assert f"## {name}\n" in text
            assert not hasattr(experiment, "draw") or pictures, name

    return test
