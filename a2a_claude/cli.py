"""The command line: names and help of the commands. Each command's own module is imported when it runs."""

from __future__ import annotations

import io
import sys
from importlib import import_module

import click

from a2a_claude import __version__

COMMANDS = {
    "compile": "Render every agent for Docker, systemd, NixOS, Compose, Podman and Kubernetes.",
    "validate": "Check configs and say what is wrong, where, and what to do.",
    "show": "Print the resolved config of an agent, and where each value comes from.",
    "graph": "Show the fleet as a page: who calls whom, with which permissions and secrets.",
    "explain": "Explain a rule, with an example.",
    "schema": "Print the JSON Schema of an agent config.",
    "init": "Write a commented agent to start from.",
    "serve": "Serve an agent over A2A.",
    "start": "Serve an agent in the background, on one's own machine.",
    "stop": "Stop an agent in the background.",
    "restart": "Stop an agent in the background and start it again.",
    "status": "Say which agents run in the background.",
    "logs": "Print the log of an agent in the background.",
    "healthcheck": "Ask a server on this machine whether it is ready.",
    "call": "Send a message to an agent and print what it answers.",
    "card": "Print the card of an agent.",
    "cancel": "Cancel a task of an agent.",
    "doctor": "Look at what this machine has to serve an agent.",
}
_OF_GROUP = ("-h", "--help", "-v", "--version")


class Commands(click.Group):
    """Lists commands without importing them, so that `--help` starts fast."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options without a command are those of `serve`, as `a2a-claude --config FILE` always was."""
        if args and args[0].startswith("-") and args[0] not in _OF_GROUP:
            args = ["serve", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"a2a_claude.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-v", "--version", prog_name="a2a-claude")
def main() -> None:
    """A declarative agent config becomes a hardened Claude agent that other agents call over A2A."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files need not be UTF-8, and terminals neither; what cannot be printed is shown as an escape.
            stream.reconfigure(errors="backslashreplace")
