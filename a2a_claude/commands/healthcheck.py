"""`a2a-claude healthcheck`: is the server on this machine ready?"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from typing import Any

import click

from a2a_claude.commands.naming import agent_path

# As in `common`, which brings the compiler along.
INVALID, USAGE = 1, 2

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
_DEFAULTS = {"port": 3030, "hostname": "127.0.0.1"}


@click.command()
@click.argument("path", required=False, type=click.Path())
@click.option("--port", "-p", type=click.IntRange(1, 65535), help="The port; the agent's own unless given.")
@click.option("--hostname", help="The address that serve was given; the agent's own unless given.")
@click.option("--live", is_flag=True, help="Ask only whether the process answers (/health, not /ready).")
@click.option("--timeout", type=float, default=4.0, show_default=True, help="Seconds to wait.")
def command(path: str | None, port: int | None, hostname: str | None, live: bool, timeout: float) -> None:
    """Ask the server of the agent at PATH, which runs on this machine. Exits 0 when it is ready, 1 when it is not.

    PATH is as for serve; $PORT, --port and --hostname win over what it says. The certificate of a TLS server is not
    checked, and one that wants a client certificate is fine when it says so: that much of it works.
    """
    server = _settings(path)
    if port or os.environ.get("PORT", "").isdigit():
        server["port"] = port or int(os.environ["PORT"])
    host = str(hostname or server["hostname"]).strip("[]")
    problem = ask(host, server["port"], bool(server.get("tls")), not live, timeout)
    click.echo(problem or "ready")
    raise SystemExit(INVALID if problem else 0)


def ask(host: str, port: int, tls: bool, ready: bool, timeout: float) -> str:
    """What is wrong with the server that listens on `host`, empty when nothing is."""
    host = _WILDCARDS.get(host, host)
    connection: http.client.HTTPConnection
    if tls:
        context = ssl.create_default_context()
        context.check_hostname = False  # it is asked by an address of this machine, not by its name
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", "/ready" if ready else "/health")
        response = connection.getresponse()
        body = response.read(65536)
    except ssl.SSLError as error:
        wants_certificate = "CERTIFICATE_REQUIRED" in str(error) or "HANDSHAKE_FAILURE" in str(error)
        return "" if wants_certificate else f"{host} port {port}: {error}"
    except (OSError, http.client.HTTPException) as error:
        return f"{host} port {port}: {error or type(error).__name__}"
    finally:
        connection.close()
    if response.status == http.client.OK:
        return ""
    return f"{host} port {port}: {response.status} {body.decode('utf-8', 'replace').strip()}"


def _settings(path: str | None) -> dict[str, Any]:
    """The `server` settings of an agent. A compiled agent.json is read without the compiler, which takes its time."""
    if path is None:
        return dict(_DEFAULTS)
    target = agent_path(path)
    if target.name == "agent.json" and os.path.isfile(target):
        try:
            document = json.loads(target.read_bytes())
            if not document.get("extends"):
                return {**_DEFAULTS, **document.get("server", {})}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            click.echo(f"a2a-claude: {target} cannot be read: {error}", err=True)
            raise SystemExit(USAGE) from None
    from a2a_claude.commands.common import load, report

    fleet = load([str(target)], None, ())
    if len(fleet.agents) != 1:
        report(fleet.diagnostics, "text", strict=False)
        click.echo(f"a2a-claude: {path} is not one agent\n  hint: name an agent's folder or its file", err=True)
        raise SystemExit(USAGE)
    return dict(fleet.agents[0].document["server"])
