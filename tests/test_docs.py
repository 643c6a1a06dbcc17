"""The documentation is complete, and its links are valid; `tests/slow` runs its programs."""

import importlib
import pathlib
import re

import pytest

import jaxgadget
import jaxgadget.report

ROOT = pathlib.Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [
    *DOCS,
    *(ROOT / name for name in ("README.md", "CHANGELOG.md")),
    *sorted((ROOT / "experiments").rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.md")),
]


def name_of(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


def shown(text: str) -> str:
    """A page without comments and code blocks."""
    return re.sub(r"<!--.*?-->|^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def described(text: str) -> list[str]:
    """The dotted paths that mkdocstrings documents on a page."""
    return re.findall(r"^::: (\S+)$", shown(text), re.MULTILINE)


def find(dotted: str) -> object:
    """A module, or a module's attribute of that name; functions hide modules of the same name."""
    module, _, name = dotted.rpartition(".")
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


def broken_links(text: str, folder: pathlib.Path) -> list[str]:
    """Links and pictures of a page without a target; links to other hosts or within the page are skipped."""
    targets = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", re.sub(r"`[^`\n]*`", "", shown(text)))
    links = [first or second for first, second in targets]
    local = [link for link in links if not re.match(r"https?://|mailto:|#", link)]
    return [link for link in local if not leads_somewhere(link, folder)]


def leads_somewhere(link: str, folder: pathlib.Path) -> bool:
    """Whether the file exists and, except for API pages, has the heading."""
    name, _, anchor = link.partition("#")
    path = folder / name
    if not path.is_file() or not anchor or path.suffix != ".md" or path.parent.name == "api":
        return path.is_file()
    titles = re.findall(r"^#+ (.+)$", shown(path.read_text(encoding="utf-8")), re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_there_are_pages():
    assert {"docs/concepts.md", "docs/games.md", "docs/cli.md", "docs/cite.md"} <= set(map(name_of, PAGES))


def test_every_public_name_is_described():
    objects = [find(dotted) for path in DOCS for dotted in described(path.read_text(encoding="utf-8"))]
    missing = [
        name
        for name in jaxgadget.__all__
        if not any(getattr(jaxgadget, name) is described for described in objects)
    ]
    assert not missing, f"no page of docs/api says `::: jaxgadget.….NAME` for {', '.join(missing)}"


def test_reports_are_described():
    names = [dotted for path in DOCS for dotted in described(path.read_text(encoding="utf-8"))]
    assert "jaxgadget.report" in names  # with every name in its __all__
    assert jaxgadget.report.__all__


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_to_files(path: pathlib.Path):
    assert broken_links(path.read_text(encoding="utf-8"), path.parent) == []


def test_every_page_is_in_the_navigation():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = re.search(r"^nav:.*?(?=^\S)", settings, re.MULTILINE | re.DOTALL)
    assert nav
    listed = set(re.findall(r"[\w./*-]+\.(?:md|ipynb)\b", nav[0]))
    assert {path.relative_to(ROOT / "docs").as_posix() for path in DOCS} <= listed
    missing = [
        name
        for name in listed
        if "*" not in name and not ((ROOT / name).is_file() or (ROOT / "docs" / name).is_file())
    ]
    assert not missing, f"mkdocs.yml lists {missing}"


def test_checks_notice(tmp_path: pathlib.Path):
    (tmp_path / "there.md").write_text("# X\n## Add a `game` …\n```text\n# Y\n```\n")
    page = (
        "[a](there.md#x) [h](there.md#add-a-game-) [i](there.md#y)\n"
        "![b](gone.png) [c](https://example.org) [d](#here) `[e](code.md)`\n"
        '<!-- [f](comment.md) -->\n<img src="lost.svg">\n```text\n[g](block.md)\n```\n'
    )
    assert broken_links(page, tmp_path) == ["there.md#y", "gone.png", "lost.svg"]
    assert described("::: a.b\n    options: {}\n<!--\n::: c.d\n-->\ntext ::: e\n") == ["a.b"]
    assert find("jaxgadget.subgames.refine.refine") is jaxgadget.refine
    with pytest.raises(AttributeError):
        find("jaxgadget.subgames.refine.nothing")
