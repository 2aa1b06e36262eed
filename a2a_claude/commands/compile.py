"""`a2a-claude compile`: agents in, a `deploy/` tree out."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from a2a_claude.commands.common import DRIFT, INVALID, config_options, fail, has_colours, load, report
from a2a_claude.compiler import Output, Plan, Scope, diff, is_outdated, plan, render, render_fleet, write
from a2a_claude.config.diagnostics import Diagnostic, error
from a2a_claude.config.exposure import open_image
from a2a_claude.config.layers import Files
from a2a_claude.config.loader import Fleet, Loaded
from a2a_claude.config.node import Entry
from a2a_claude.config.report import printable
from a2a_claude.output_folder import MANIFEST, OutputError, exclusive
from a2a_claude.targets import CONTAINERS, TARGETS, Unrenderable

_DIFF_STYLES: dict[str, dict[str, Any]] = {
    "--- ": {"bold": True},
    "+++ ": {"bold": True},
    "@@ ": {"fg": "cyan"},
    "-": {"fg": "red"},
    "+": {"fg": "green"},
}


@click.command()
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("-o", "--output", default="deploy", type=click.Path(), show_default=True)
@click.option("--target", "targets", multiple=True, type=click.Choice(list(TARGETS)), help="Render only these formats.")
@click.option("--agent", "only", multiple=True, metavar="NAME", help="Compile only these agents.")
@click.option("--check", is_flag=True, help="Change nothing; exit 3 with a diff when the folder is not current.")
@click.option("--diff", "diff_only", is_flag=True, help="As --check, and print nothing but the diff.")
@click.option("--force", is_flag=True, help="Overwrite files that were edited by hand.")
@click.option("--prune", is_flag=True, help="Remove the files of agents and formats that are gone.")
@config_options
def command(
    paths: tuple[str, ...],
    output: str,
    targets: tuple[str, ...],
    only: tuple[str, ...],
    check: bool,
    diff_only: bool,
    force: bool,
    prune: bool,
    profile: str | None,
    settings: tuple[str, ...],
    form: str,
    strict: bool,
) -> None:
    """Render the agents at PATHS (agents/ when none is given) into a deploy/ folder.

    Nothing is written unless every agent is valid. Exits 0 when all is well, 1 when a config is invalid, 2 when
    something cannot be read or written, 3 when files differ: edited by hand, or not current under --check and --diff.
    """
    gc.disable()  # next to nothing is garbage before the end, and looking for it takes a tenth of the time
    click.get_current_context().call_on_close(gc.enable)
    if not output:
        fail("the output folder has no name", "leave -o out, or name a folder")
    fleet = load(paths, profile, settings, only)
    _keep_apart(Path(output), fleet)
    chosen = targets or tuple(TARGETS)
    try:
        outputs, problems = _render(fleet, chosen)
        problems += _open_images(fleet, chosen, wanted=bool(targets))
        # A diff can be a patch: nothing else may be among it.
        if not report([*fleet.diagnostics, *problems], form, strict, aside=diff_only):
            raise SystemExit(INVALID)
        if not only:
            outputs |= render_fleet(fleet.agents, chosen)
        scope = Scope(frozenset(only) if only else None, frozenset(chosen))
        if check or diff_only:
            _compare(plan(Path(output), fleet.agents, outputs, scope), diff_only)
            return
        with exclusive(Path(output)):
            made = plan(Path(output), fleet.agents, outputs, scope)
            if made.edited and not force:
                _refuse(made)
            changed = write(made, prune, force)
    except OutputError as problem:
        fail(str(problem), problem.hint)
        return
    if form == "text":
        _tell(made, changed, set() if force else made.touched, prune)


def _keep_apart(output: Path, fleet: Fleet) -> None:
    """Exits 2 when files would be rendered beside the configs: an agent's agent.json would then be a second config."""
    files = Files()
    for each in fleet.loaded:
        if files.real(output / each.file.name) == files.real(each.file.path.parent):
            fail(f"{output} is the agents folder itself", "choose another output folder with -o, such as deploy")


def _render(fleet: Fleet, targets: Iterable[str]) -> tuple[dict[str, Output], list[Diagnostic]]:
    outputs: dict[str, Output] = {}
    refusals: list[Diagnostic] = []
    started, shown = time.monotonic(), False
    for number, each in enumerate(fleet.loaded):
        if sys.stderr.isatty() and time.monotonic() - started > 1:
            shown = True
            click.echo(f"\r{number} of {len(fleet.loaded)} agents rendered", err=True, nl=False)
        if each.agent is None:
            continue
        try:
            outputs |= render(each.agent, targets)
        except Unrenderable as problem:
            refusals.append(_refusal(each, problem))
    if shown:
        click.echo("\r\x1b[K", err=True, nl=False)
    return outputs, refusals


def _refusal(loaded: Loaded, problem: Unrenderable) -> Diagnostic:
    """At the value that cannot be rendered, or the nearest thing above it that is written in a file."""
    steps, hint = problem.path.split("."), f"{problem.hint}, or leave the format out with --target"
    for end in range(len(steps), 0, -1):
        found = loaded.root.find(tuple(steps[:end]))
        if isinstance(found, Entry):
            return error("cannot-render", str(problem), found.node.span, hint)
    return error("cannot-render", str(problem), loaded.root.span, hint)


def _open_images(fleet: Fleet, targets: Iterable[str], wanted: bool) -> list[Diagnostic]:
    if CONTAINERS.isdisjoint(targets):
        return []
    return [found for each in fleet.loaded if (found := open_image(each, wanted))]


def _compare(made: Plan, diff_only: bool) -> None:
    different = made.paths("new", "stale", "edited", "gone")
    if not different and not is_outdated(made):
        if not diff_only:
            click.echo(f"{made.folder} is current: {len(made.outputs)} files")
        return
    terminal, colours = sys.stdout.isatty(), has_colours(sys.stdout)
    for line in diff(made):
        click.echo(_on_terminal(line, colours) if terminal else line, nl=False, color=True)
    if diff_only:
        raise SystemExit(DRIFT)
    kinds = {"new": "missing", "stale": "stale", "edited": "edited by hand", "gone": "of no agent any more"}
    for path in different:
        click.echo(f"{made.folder / path}: {kinds[made.states[path]]}", err=True)
    if not different:
        click.echo(f"{made.folder / MANIFEST}: stale", err=True)
    raise SystemExit(DRIFT)


def _on_terminal(line: str, colours: bool) -> str:
    """A line of a diff in the colours that diffs have; what could steer the terminal is replaced."""
    style = next((style for start, style in _DIFF_STYLES.items() if colours and line.startswith(start)), None)
    shown = "\t".join(map(printable, line.removesuffix("\n").split("\t")))
    return f"{click.style(shown, **style) if style else shown}\n"


def _refuse(made: Plan) -> None:
    for path in made.edited:
        click.echo(f"{made.folder / path}: edited by hand, not overwritten", err=True)
    click.echo("  hint: move the change into the config, see it with --check, or overwrite it with --force", err=True)
    raise SystemExit(DRIFT)


def _entries(paths: Iterable[str]) -> list[str]:
    """What is in a folder, of a folder in it only the name."""
    return sorted({path.split("/", 1)[0] + ("/" if "/" in path else "") for path in paths})


def _folder(path: str) -> str:
    """An agent's folder, or none for a file of all agents."""
    return path.split("/", 1)[0] if "/" in path else ""


def _tell(made: Plan, changed: int, touched: set[str], prune: bool) -> None:
    for name, paths in groupby(sorted(made.outputs, key=lambda path: ("/" in path, path)), key=_folder):
        click.echo(f"{made.folder / name}: {', '.join(_entries(path.removeprefix(f'{name}/') for path in paths))}")
    if made.scope.agents is not None:
        click.echo("files of all agents together are left as they are: compile without --agent to renew them")
    if made.gone and not prune:
        click.echo("files of no agent any more; remove them with --prune:")
        for path in made.gone:
            click.echo(f"  {made.folder / path}")
    for path in sorted(touched) if prune else ():
        click.echo(f"{made.folder / path}: edited by hand, removed only with --force")
    count = len(made.agents)
    files = "1 file" if changed == 1 else f"{changed} files"
    click.echo(f"{count} agent{'s' if count != 1 else ''} compiled into {made.folder}: {files} changed")
