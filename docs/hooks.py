"""Hooks of the site.

Files outside docs/ become pages, too; formulas become MathML; and the list of games and the command line's
help are generated from the package when the site is built.
"""

from __future__ import annotations

import html
import pathlib
import posixpath
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert.filters.markdown_mistune import IPythonRenderer

from jaxgadget import list_games

ROOT = pathlib.Path(__file__).parents[1]
SHOWN = (  # files of the site outside docs/, with unchanged paths
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    *(
        f"{folder}/**/*.{suffix}"
        for folder in ("experiments", "notebooks")
        for suffix in ("md", "png", "svg")
    ),
    "experiments/**/*.csv",
    "experiments/**/*.parquet",
    "experiments/**/*.py",
    "notebooks/*.ipynb",
)

END_OF_FIRST_PAGE = "<!-- docs: end of the first page -->"
"""Where README.md has this line, the site shows only what stands above it."""

HELP = "<!-- the command line's help -->"
"""Placeholder of the help of all commands."""

GAMES = "<!-- the games that have a name -->"
"""Placeholder of the table of games."""

LIVE = "<!-- pages of the explorer -->"
"""Placeholder of the pages of `LIVE_COMMANDS`."""

LIVE_COMMANDS = {
    "leduc": (
        "Leduc poker, the flop re-solved",
        "refine leduc_poker --cut flop --blueprint cfr:10 --blueprint uniform --gadget resolving "
        "--gadget max-margin --iterations 1000",
    ),
    "river": (
        "A river of hold'em",
        "holdem --board Td9d6hQc2s --oop 22+,A2s+,KTs+,QTs+,JTs,T9s,98s,AJo+,KQo "
        "--ip 22+,A2s+,KTs+,QTs+,JTs,T9s,AJo+,KQo --pot 100 --stack 200",
    ),
    "off_tree": (
        "Answers to bets that a blueprint does not have",
        "off-tree 'no_limit_leduc(bets=1/2-1-a,max_raises=1,num_ranks=2,stack=5,suit_isomorphism=True)' "
        "--menu 1-a --blueprint cfr:20 --iterations 300",
    ),
}
"""Title and command of each page; `--explore FILE` is added."""

SCRIPTS_FROM_ELSEWHERE = (
    r"<!-- Load mathjax -->.*?<!-- End of mathjax configuration -->|<script type=\"module\">.*?</script>"
)
"""Scripts that notebooks would load from the network: MathJax and Mermaid, which no notebook uses."""


def on_config(config: MkDocsConfig) -> None:
    """Expands the navigation's patterns; notebooks' formulas become MathML as well."""
    named = re.findall(r"'([^'*]+\.(?:md|ipynb))'", str(config.nav))
    config.nav = _expanded(config.nav, frozenset(named))
    IPythonRenderer.inline_math = lambda self, body: _mathml(body, "inline")
    IPythonRenderer.block_math = lambda self, body: _mathml(body, "block")


def _expanded(nav: Any, named: frozenset[str]) -> list[Any]:
    """A part of the navigation with files in the place of patterns; parts without any file are left out."""
    found: list[Any] = []
    for item in nav:
        if isinstance(item, dict):
            (title, part), *_ = item.items()
            part = _expanded(part, named) if isinstance(part, list) else part
            found += [{title: part}] if part else []
        elif "*" in item:
            paths = (path.relative_to(ROOT).as_posix() for path in ROOT.glob(item))
            found += [path for path in sorted(paths, key=_in_order) if path not in named]
        elif (ROOT / item).exists() or (ROOT / "docs" / item).exists():
            found.append(item)
        else:
            raise PluginError(f"mkdocs.yml, nav: {item!r} is no file of the project or of docs/")
    return found


def _in_order(path: str) -> list[tuple[int, str]]:
    """Sort key by which notebook 10 follows notebook 9."""
    return [(int(digits or 0), text) for digits, text in re.findall(r"(\d+)|(\D+)", path)]


@event_priority(100)  # mkdocs-jupyter is to see the notebooks
def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds what stands outside docs/."""
    for path in _shown():
        uri = path.relative_to(ROOT).as_posix()
        files.append(File(uri, str(ROOT), config.site_dir, config.use_directory_urls))
    for name, (_, command) in LIVE_COMMANDS.items():
        files.append(File.generated(config, f"live/{name}.html", content=_explored(command)))


def _shown() -> Iterator[pathlib.Path]:
    for pattern in SHOWN:
        yield from sorted(path for path in ROOT.glob(pattern) if path.is_file())


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links that hold in the repository hold in the site, where docs/ is no folder of its own."""
    markdown = markdown.partition(END_OF_FIRST_PAGE)[0]
    for mark, text in ((HELP, _help), (GAMES, _games)):
        markdown = markdown.replace(mark, text()) if mark in markdown else markdown
    if page.file.src_dir != str(ROOT):
        depth = page.file.src_uri.count("/")
        markdown = re.sub(rf"(\]\(|\]: |src=\")((?:\.\./){{{depth}}})\.\./", r"\1\2", markdown)
        return markdown.replace(LIVE, _live()) if LIVE in markdown else markdown
    return re.sub(r"(\]\(|\]: |src=\")((?:\.\./)*)docs/", r"\1\2", markdown)


def _help() -> str:
    """Help of the command line, from its second heading on, without the list of commands."""
    command = [sys.executable, "-m", "typer", "jaxgadget.cli", "utils", "docs", "--name", "jaxgadget"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode or "## `jaxgadget refine`" not in done.stdout:
        raise PluginError(f"{' '.join(command[1:])} failed: {done.stderr}")
    text = done.stdout.partition("\n")[2]
    return re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", text)


def _games() -> str:
    """The table of `jaxgadget games`, as Markdown."""
    rows = ["| name | description | parameters and their defaults | cuts |", "|---|---|---|---|"]
    for game in list_games():
        parameters = "<br>".join(f"`{key}={value}`" for key, value in game.parameters.items())
        cuts = ", ".join(f"`{cut}`" for cut in game.cuts)
        rows.append(f"| `{game.name}` | {game.description} | {parameters or '–'} | {cuts or '–'} |")
    return "\n".join(rows)


def _live() -> str:
    """The explorer's pages in frames, each with the command that wrote it."""
    parts: list[str] = []
    for name, (title, command) in LIVE_COMMANDS.items():
        address = f"../../live/{name}.html"
        parts += [
            f"### {title}",
            f'<p><a href="{address}">In a window of its own</a></p>',
            f'<iframe class="live" src="{address}" title="{title}" loading="lazy"></iframe>',
            f"```bash\njaxgadget {command} --explore {name}.html\n```",
        ]
    return "\n\n".join(parts)


def _explored(command: str) -> bytes:
    """The page that a command writes."""
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        arguments = [sys.executable, "-m", "jaxgadget", *shlex.split(command), "--explore", str(page)]
        done = subprocess.run(arguments, capture_output=True, encoding="utf-8", check=False, cwd=ROOT)
        if done.returncode:
            raise PluginError(f"jaxgadget {command} failed: {done.stderr}")
        return page.read_bytes()


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas become MathML, which browsers draw by themselves; notebooks are made like other pages."""
    if page.file.src_uri.endswith(".ipynb"):
        content = re.sub(SCRIPTS_FROM_ELSEWHERE, "", content, flags=re.DOTALL)
        return re.sub(
            r' href="([^":]+\.(?:md|ipynb))([#"])',
            lambda found: f' href="{_page_url(found[1], page, files)}{found[2]}',
            content,
        )
    return re.sub(
        r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>',
        lambda found: _mathml(html.unescape(found[2]), "inline" if found[1] == "span" else "block"),
        content,
        flags=re.DOTALL,
    )


def _page_url(target: str, page: Page, files: Files) -> str:
    """Where a notebook's link to a file of the repository leads; MkDocs looks after other pages' links."""
    uri = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target))
    found = files.get_file_from_path(uri.removeprefix("docs/"))
    if found is None:
        raise PluginError(f"{page.file.src_uri}: the link to {target!r} leads nowhere")
    return found.url_relative_to(page.file.url)


def _mathml(latex: str, display: str) -> str:
    found = convert(latex, display=display)
    unknown = re.search(r"\\[A-Za-z]+|>&<", html.unescape(found))  # latex2mathml leaves these as they are
    if unknown:
        raise PluginError(f"latex2mathml does not know {unknown[0].strip('<>')!r} in: {latex}")
    return found
