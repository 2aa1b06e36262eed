"""`a2a-claude explain`: what a rule means."""

from __future__ import annotations

import textwrap

import click
import yaml

from a2a_claude.commands.common import fail
from a2a_claude.config.rules import RULES
from a2a_claude.package_data import folder


@click.command()
@click.argument("rule", required=False)
def command(rule: str | None) -> None:
    """Explain RULE, by its id (A2C301) or name (unknown-key), with an example. Lists all rules when none is given."""
    if rule is None:
        for name, each in RULES.items():
            click.echo(f"{each.code}  {name:24} {each.title}")
        return
    found = next((name for name, each in RULES.items() if rule.lower() in (name, each.code.lower())), None)
    if found is None:
        fail(f"there is no rule {rule}", "a2a-claude explain lists all rules")
        return
    explained = yaml.safe_load((folder("schema") / "rules.yaml").read_text("utf-8"))[found]
    click.echo(f"{RULES[found].code} {found}: {RULES[found].title}\n")
    click.echo(textwrap.fill(explained["why"], 100))
    for title, key in (("Wrong", "wrong"), ("Right", "right")):
        if key in explained:
            click.echo(f"\n{title}:\n{textwrap.indent(explained[key].rstrip(), '  ')}")
