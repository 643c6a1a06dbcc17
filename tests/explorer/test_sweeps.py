"""Pages of a sweep: each row leads to the strategies that have its numbers."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import math
import pathlib
import re
import shutil
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jaxgadget as jg
from jaxgadget.explorer.sweeps import INDEX
from jaxgadget.gadgets.registry import ALTERNATIVES, GADGETS, GENERATIONS, PRIORS
from jaxgadget.policy.identity import identity, restore
from jaxgadget.util.registry import find
from tests.cli.commands import run
from tests.trees import tree_of

GRID: dict[str, Any] = {
    "games": "kuhn_poker",
    "cuts": "depth:1",
    "blueprints": ["uniform", "draws:1", "cfr:2"],
    "gadgets": ["resolving", "full"],
    "priors": ["none", "uniform"],
    "players": 1,
    "iterations": 5,
    "blueprints_at_once": 2,
}


def sweep(folder: pathlib.Path, **changed: Any) -> tuple[jg.SweepGrid, pd.DataFrame]:
    settings = GRID | changed
    at_once = settings.pop("blueprints_at_once")
    grid = jg.SweepGrid(**settings)
    return grid, jg.sweep(folder, grid, blueprints_at_once=at_once)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pd.DataFrame]:
    """A sweep of several pieces with different blueprints and gadgets, not to be modified."""
    folder = tmp_path_factory.mktemp("finished") / "sweep"
    return folder, sweep(folder)[1]


class Pages:
    """The pages in a folder."""

    def __init__(self, index: pathlib.Path) -> None:
        self.folder = index.parent
        self.sweep = self.header(index.name)["sweep"]

    def record(self, page: str, part: str) -> Any:
        text = (self.folder / page).read_text("utf-8")
        found = re.search(f'id="{part}">(.*?)</script>', text)
        assert found is not None
        return json.loads(gzip.decompress(base64.b64decode(found[1])))

    def header(self, page: str) -> Any:
        return self.record(page, "header")

    def strategy(self, page: str, lane: int) -> dict[tuple[int, str], list[float | None]]:
        """By player and infostate the stored probabilities, in thousandths."""
        (view,) = self.header(page)["views"]
        rows: dict[tuple[int, str], list[float | None]] = {}
        for frames, numbers in zip(view["frames"], view["values"][lane], strict=True):
            values = self.record(page, f"chunk-{numbers}")
            for node, frame in self.record(page, f"chunk-{frames}").items():
                for player, seat in enumerate(frame["seats"]):
                    for state, infostate in enumerate((seat or {}).get("infostates", [])):
                        shares = values[node]["seats"][player]["strategy"]["n"]
                        rows[player, infostate] = [of_action[state] for of_action in shares]
        return rows


def test_each_row_leads_to_the_strategies_with_its_numbers(
    finished: tuple[pathlib.Path, pd.DataFrame], tmp_path: pathlib.Path
) -> None:
    folder, rows = finished
    assert rows["piece"].nunique() == 4
    pages = Pages(jg.explore_sweep(folder, tmp_path / "pages"))
    assert len(pages.sweep["links"]) == len(rows) and len(pages.sweep["pages"]) == 1
    assert {path.name for path in pages.folder.iterdir()} == {INDEX, *pages.sweep["pages"]}
    (page,) = pages.sweep["pages"]
    (view,) = pages.header(page)["views"]
    tree = tree_of("kuhn_poker")
    seen: set[int] = set()
    for (_, row), (place, lane, base) in zip(rows.iterrows(), pages.sweep["links"], strict=True):
        assert place == 0 and view["lanes"][lane]["base"] == base
        assert view["lanes"][base]["label"] == row["blueprint"]
        number = view["table"]["lanes"].index(lane)
        shown = dict(zip(view["table"]["columns"], view["table"]["rows"][number], strict=True))
        for name in ("blueprint", "gadget", "prior", "refined_exploitability", "gap_max"):
            assert shown[name] == row[name]
        seen.add(lane)
        blueprint = pages.strategy(page, base)
        expected = jg.make_blueprints(tree, [row["blueprint"]])
        for (player, infostate), shares in blueprint.items():
            probabilities = expected.action_probabilities(infostate, player=player)
            assert shares == [round(1000 * share) for share in probabilities.values()]
        solved = pages.strategy(page, lane)
        changed = {key[0] for key, shares in solved.items() if shares != blueprint[key]}
        assert changed <= {1}
        # A policy with the page's probabilities, of three digits, has the row's exploitability.
        halves = [half.copy() for half in expected.probabilities]
        for (player, infostate), shares in solved.items():
            if player == 1:
                first = int(tree.infosets[1].first_sequence[tree.find_infoset(infostate, 1)[1]]) - 1
                halves[1][first : first + len(shares), 0] = np.array(shares, float) / 1000
        policy = jg.Policy(tree, (halves[0], halves[1] / 1.0), ("stored",))
        value = (row["game_value_low"], row["game_value_high"])
        stored = float(jg.exploitability(policy, 1, value=value)[0])
        assert stored == pytest.approx(row["refined_exploitability"], abs=5e-3)
    assert len(seen) == len(rows)


def test_subgames_of_each_row_are_those_of_refine(
    finished: tuple[pathlib.Path, pd.DataFrame], tmp_path: pathlib.Path
) -> None:
    folder, rows = finished
    pages = Pages(jg.explore_sweep(folder, tmp_path / "pages"))
    (page,) = pages.sweep["pages"]
    (view,) = pages.header(page)["views"]
    (refined,) = view["refined"]
    assert refined["player"] == 1 and refined["cut"] == "depth:1"
    tree = tree_of("kuhn_poker")
    for number in (0, len(rows) - 1):
        row = rows.iloc[number]
        gadget = {"resolving": jg.Resolving, "full": jg.Full}[row["gadget"]]
        prior = {"none": jg.NoPrior, "uniform": jg.UniformPrior}[row["prior"]]
        blueprint = jg.make_blueprints(tree, [row["blueprint"]])
        again = jg.refine(tree, "depth:1", blueprint, gadget(prior()), player=1, iterations=5)
        lane = pages.sweep["links"][number][1]
        subgames = pages.record(page, f"chunk-{refined['chunks'][str(lane)]}")["subgames"]
        values = [subgame["value"] for subgame in subgames]
        assert values == pytest.approx(again.gadget_value[:, 0].tolist(), abs=1e-4)


def test_results_are_split_into_as_few_pages_as_fit(
    finished: tuple[pathlib.Path, pd.DataFrame], tmp_path: pathlib.Path
) -> None:
    folder, rows = finished
    whole = Pages(jg.explore_sweep(folder, tmp_path / "whole"))
    size = (whole.folder / whole.sweep["pages"][0]).stat().st_size
    limit = size - 1500
    pages = Pages(jg.explore_sweep(folder, tmp_path / "parts", max_bytes=limit))
    names = pages.sweep["pages"]
    assert len(names) == 2 and all((pages.folder / name).stat().st_size <= limit for name in names)
    assert {link[0] for link in pages.sweep["links"]} == {0, 1}
    for (_, row), (place, lane, base) in zip(rows.iterrows(), pages.sweep["links"], strict=True):
        (view,) = pages.header(names[place])["views"]
        assert view["lanes"][lane]["base"] == base and view["lanes"][base]["label"] == row["blueprint"]
        assert str(lane) in view["refined"][0]["chunks"]


def test_finished_rows_by_hands_lead_to_pages(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "sweep"
    _, rows = sweep(folder, form="hands", gadgets=["resolving", "full"], priors="none", blueprints="uniform")
    pieces = rows["piece"].unique()
    assert len(pieces) == 2
    (folder / "pieces" / f"{pieces[0]}.parquet").unlink()
    written = run("sweep", folder, "--pages", tmp_path / "pages")
    assert written.exit_code == 0 and "index.html" in written.stdout, written.stderr
    pages = Pages(tmp_path / "pages" / INDEX)
    assert pages.sweep["links"] == [[0, 1, 0]]
    (view,) = pages.header(pages.sweep["pages"][0])["views"]
    (number,) = view["table"]["rows"]
    assert rows["refined_exploitability"].iloc[-1] in number


def test_a_command_that_sweeps_writes_pages(tmp_path: pathlib.Path) -> None:
    options = ("--game", "kuhn_poker", "--blueprint", "uniform", "--gadget", "resolving", "--prior", "none")
    done = run("sweep", tmp_path / "s", *options, "--iterations", 5, "--pages", tmp_path / "pages")
    assert done.exit_code == 0, done.stderr
    pages = Pages(tmp_path / "pages" / INDEX)
    assert len(pages.sweep["pages"]) == 2  # one for each player
    refused = run("sweep", tmp_path / "s", "--pages", tmp_path / "s")
    assert refused.exit_code == 2 and "is the folder of the sweep" in refused.stderr


@dataclasses.dataclass(frozen=True)
class OwnGadget(jg.Resolving):
    """A gadget of a user."""


def test_objects_of_a_user_require_the_grid(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "sweep"
    grid, rows = sweep(folder, gadgets=OwnGadget(jg.NoPrior()), blueprints="uniform")
    with pytest.raises(ValueError, match=r"cannot be solved again from its folder alone.*give its grid"):
        jg.explore_sweep(folder, tmp_path / "pages")
    with pytest.raises(ValueError, match=r"has other settings.*iterations"):
        jg.explore_sweep(folder, tmp_path / "pages", dataclasses.replace(grid, iterations=6))
    assert not list((tmp_path / "pages").iterdir())
    pages = Pages(jg.explore_sweep(folder, tmp_path / "pages", grid))
    assert len(pages.sweep["links"]) == len(rows) == 1
    shutil.rmtree(folder / "games")
    with pytest.raises(ValueError, match="lacks the blueprints of kuhn_poker"):
        jg.explore_sweep(folder, tmp_path / "pages", grid)


def test_rows_of_other_versions_are_reported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxgadget.sweeping.sweep import Workshop

    solve = Workshop.solve
    changed = lambda self, piece: solve(self, piece).assign(refined_exploitability=0.5)  # noqa: E731
    monkeypatch.setattr(Workshop, "solve", changed)
    sweep(tmp_path / "sweep", gadgets="resolving", priors="none", blueprints="uniform")
    with pytest.warns(UserWarning, match="have other exploitabilities than the rows, by up to 0"):
        jg.explore_sweep(tmp_path / "sweep", tmp_path / "pages")


def test_recorded_objects_are_restored() -> None:
    made = [find(table, name, "object") for table in (GADGETS, PRIORS, ALTERNATIVES) for name in table]
    objects: list[Any] = [kind() for kind in made]
    objects += [find(GENERATIONS, name, "object")(2) for name in GENERATIONS]
    objects.append(jg.Resolving(jg.UniformPrior(), 0.25, alternative=jg.ContinuationValues(7)))
    objects.append(jg.MaxMargin(jg.BlueprintPrior(), "auto"))
    for each in objects:
        record = json.loads(json.dumps(identity(each)))
        again = restore(record)
        assert type(again) is type(each) and identity(again) == identity(each)
    known = jg.Knowledge(math.inf, generate=objects[-3])
    assert restore(json.loads(json.dumps(identity(known))), jg.Knowledge) == known
    for record in (identity(OwnGadget(jg.NoPrior())), {"class": "os.system", "command": "true"}):
        with pytest.raises(ValueError, match="is not one of this package"):
            restore(record)
    with pytest.raises(ValueError, match="of another version"):
        restore(identity(jg.Resolving()) | {"later": 1})
