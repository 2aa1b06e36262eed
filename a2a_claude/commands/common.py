"""Options and output that commands on configs share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

import click

from a2a_claude.config.diagnostics import Diagnostic, count, has_errors, tidy
from a2a_claude.config.loader import Fleet, Options, load_fleet

INVALID, USAGE, DRIFT = 1, 2, 3
CONFIG = 78
"""EX_CONFIG of sysexits.h(3head): what a server was given must change first. Units have it in
RestartPreventExitStatus=."""
_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


def _profile(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _PROFILE.match(value):
        raise click.BadParameter("a profile is a word of letters, digits, _ and -")
    return value


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what decides which config is read, and how problems are told."""
    for option in (
        click.option("--strict", is_flag=True, help="Treat warnings as errors."),
        click.option(
            "--format",
            "form",
            default="text",
            type=click.Choice(["text", "json", "github", "sarif"]),
            show_default=True,
        ),
    ):
        command = option(command)
    return layer_options(command)


def layer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what is laid over the files of a config."""
    for option in (
        click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Set one value, over every file."),
        click.option(
            "--profile", callback=_profile, metavar="NAME", help="Lay the files of this profile over the others."
        ),
    ):
        command = option(command)
    return command


def load(paths: Iterable[str], profile: str | None, settings: tuple[str, ...], only: Iterable[str] = ()) -> Fleet:
    """The agents at `paths`; `agents/` when none is given. Exits 2 when an agent in `only` is not there."""
    if "" in paths:
        fail("a path is empty", "give an agents folder, an agent's folder or its file")
    targets = [Path(each) for each in paths] or [Path("agents")]
    for target in targets:
        if not os.path.lexists(target):
            fail(f"{target} does not exist", "give an agents folder, an agent's folder or its file")
    fleet = load_fleet(targets, Options(profile, settings), only)
    names = {each.file.name for each in fleet.loaded}
    if missing := [name for name in only if name not in names]:
        fail(f"no agent is named {', '.join(missing)}", "an agent's folder is its name")
    return fleet


def fail(message: str, hint: str) -> None:
    """Says what cannot be done and exits 2."""
    click.echo(f"a2a-claude: {message}\n  hint: {hint}", err=True)
    raise SystemExit(USAGE)


def has_colours(stream: TextIO) -> bool:
    """Whether `stream` is a terminal whose user wants colours (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def report(diagnostics: Iterable[Diagnostic], form: str, strict: bool, aside: bool = False) -> bool:
    """Prints every problem, sorted, and gives whether the config is accepted.

    Text goes to standard error, in colour on a terminal; the other forms go to standard output, or also to standard
    error (`aside`) where the command prints something else.
    """
    from a2a_claude.config import report as reports

    found = tidy(diagnostics, strict)
    if form == "text":
        click.echo(reports.text(found, has_colours(sys.stderr)), err=True, nl=False, color=True)
        if any(count(found).values()):
            click.echo(reports.summary(found), err=True)
    else:
        click.echo(reports.FORMATS[form](found), nl=False, err=aside)
    return not has_errors(found)
