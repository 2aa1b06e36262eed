"""`a2a-claude serve` and `healthcheck`: flags, layers, references, TLS, exit codes, and what a mistake is answered."""

from __future__ import annotations

import datetime
import ipaddress
import json
import subprocess
import sys
import time
from operator import attrgetter
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from a2a_claude.cli import main
from tests.serving import ROOT, environment, run, serving, start, write_agent


def card(url: str, **kwargs: Any) -> dict[str, Any]:
    response = httpx.get(f"{url}/.well-known/agent-card.json", headers={"A2A-Version": "1.0"}, **kwargs)
    found: dict[str, Any] = response.json()
    return found


# --- What is served, and by which layer -------------------------------------------------------------------------------


def test_flags_win_over_set_that_over_the_environment_that_over_the_file(tmp_path: Path) -> None:
    config = {"agentCard": {"name": "file", "description": "file", "version": "file"}}
    environ = environment(AGENT_NAME="environment", AGENT_DESCRIPTION="environment")
    flags = ("--set", "agentCard.name=set", "--agent-name", "flag: [#$x]", "--advertise-host", "agent.example")
    with serving(tmp_path, *flags, environ=environ, **config) as served:
        found = card(served.url)
    assert (found["name"], found["description"], found["version"]) == ("flag: [#$x]", "environment", "file")
    assert found["supportedInterfaces"][0]["url"] == f"http://agent.example:{served.port}/a2a/jsonrpc"


def test_the_typescript_form_serves_too(tmp_path: Path) -> None:
    write_agent(tmp_path)
    for option in ("--config", "-c", "--agent-json"):
        command = [sys.executable, "-m", "a2a_claude", option, "agents/reviewer/agent.yaml", "--executor", "scripted"]
        flags = ["-p", "0", "-w", "/tmp", "-m", "opus", "--permission-mode", "plan", "--no-stream-artifacts"]
        with subprocess.Popen(
            [*command, *flags],
            cwd=tmp_path,
            env=environment(XDG_STATE_HOME=str(tmp_path)),
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            from tests.serving import Served

            served = Served(process).wait_until_it_listens()
            assert card(served.url)["name"] == "Reviewer"
            assert served.stop() == 0


FLAGS: list[tuple[str, str, Any]] = [
    ("--port 4000", "server.port", 4000),
    ("-p 4000", "server.port", 4000),
    ("--hostname ::1", "server.hostname", "::1"),
    ("--advertise-host a.example", "server.advertise_host", "a.example"),
    ("--workspace /w$x", "claude.working_directory", "/w$x"),
    ("--working-dir /w", "claude.working_directory", "/w"),
    ("-w /w", "claude.working_directory", "/w"),
    ("--model opus", "claude.model", "opus"),
    ("-m opus", "claude.model", "opus"),
    ("--permission-mode plan", "claude.permission_mode", "plan"),
    ("--agent-name N", "agent_card.name", "N"),
    ("--agent-description D", "agent_card.description", "D"),
    ("--stream-artifacts", "features.stream_artifact_chunks", True),
    ("--no-stream-artifacts", "features.stream_artifact_chunks", False),
    ("--log-level WARN", "logging.level", "warn"),
]


@pytest.mark.parametrize(("flags", "path", "value"), FLAGS, ids=[flags for flags, _, _ in FLAGS])
def test_each_flag_of_the_typescript_form_sets_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, path: str, value: Any
) -> None:
    folder = write_agent(tmp_path, features={"streamArtifactChunks": value is False})
    agents: list[Any] = []

    def run_it(agent: Any, *_: Any) -> int:
        agents.append(agent)
        return 0

    monkeypatch.setattr("a2a_claude.commands.serve._run", run_it)
    arguments = ["--config", str(folder / "agent.yaml"), "-w", "/other", *flags.split()]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert attrgetter(path)(agents[0].config) == value


def test_an_agent_goes_by_its_name_its_folder_its_file_and_its_compiled_form(tmp_path: Path) -> None:
    folder = write_agent(tmp_path)
    assert run(tmp_path, "compile", "agents", "--output", "deploy").returncode == 0
    for agent in ("reviewer", str(folder), "agents/reviewer/agent.yaml", "deploy/reviewer/agent.json"):
        served = start(tmp_path, Path(agent), "--port", "0").wait_until_it_listens()
        assert served.stop() == 0, agent


def test_the_agents_of_this_project_need_nothing_to_be_tried(tmp_path: Path) -> None:
    served = start(tmp_path, ROOT / "agents" / "reviewer", "--port", "0").wait_until_it_listens()
    assert card(served.url)["name"] == "Claude Reviewer"
    assert served.stop() == 0


@pytest.mark.parametrize(
    ("environ", "arguments", "place"),
    [
        ({"STATE_DIRECTORY": "{}/systemd:{}/other"}, (), "systemd"),
        ({"XDG_STATE_HOME": "{}/xdg"}, (), "xdg/a2a-claude/reviewer"),
        ({"HOME": "{}/home", "XDG_STATE_HOME": "relative"}, (), "home/.local/state/a2a-claude/reviewer"),
        ({"STATE_DIRECTORY": "{}/systemd"}, ("--state-dir", "flag"), "flag"),
    ],
    ids=["systemd", "xdg", "home", "flag"],
)
def test_the_store_is_in_the_state_directory(
    tmp_path: Path, environ: dict[str, str], arguments: tuple[str, ...], place: str
) -> None:
    write_agent(tmp_path)
    env = environment(**{name: value.format(tmp_path, tmp_path) for name, value in environ.items()})
    command = [sys.executable, "-m", "a2a_claude", "serve", "reviewer", "--executor", "scripted", "-p", "0"]
    with subprocess.Popen([*command, *arguments], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        from tests.serving import Served

        served = Served(process).wait_until_it_listens()
        assert (tmp_path / place / "tasks.sqlite3").is_file()
        assert (tmp_path / place).stat().st_mode & 0o777 == 0o700
        assert served.stop() == 0


# --- References -------------------------------------------------------------------------------------------------------


def test_a_variable_that_is_not_set_is_told_with_the_line_that_needs_it(tmp_path: Path) -> None:
    agent = write_agent(tmp_path)
    (agent / "agent.yaml").write_text(
        "agentCard: {name: A, description: D, version: '1'}\n"
        "store:\n  type: postgresql\n  url: postgresql://a:${PGPASSWORD}@db/a\n"
    )
    found = run(tmp_path, "serve", "reviewer", "--executor", "scripted")
    assert found.returncode == 78
    assert "agents/reviewer/agent.yaml:4:8: error" in found.stderr
    assert "PGPASSWORD is not set" in found.stderr


# --- What it says when it cannot serve --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("serve", "reviewer", "--port", "0"), 78, "claude.workingDirectory"),
        (("serve",), 2, "no agent is given"),
        (("serve", "nobody", "--executor", "scripted"), 2, "no agent is named nobody"),
        (("serve", "agents", "--executor", "scripted"), 2, "several agents: other, reviewer"),
        (("serve", "reviewer", "--executor", "magic"), 2, "no executor is named magic"),
        (("serve", "reviewer", "--no-such-flag"), 2, "No such option"),
        (("serve", "reviewer", "--port", "65536"), 2, "65536"),
        (("serve", "reviewer", "--config", "x"), 2, "not both"),
        (("--confg", "x"), 2, "No such option"),
        (("serve", "reviewer", "--executor", "scripted", "--log-level", "loud"), 78, "logging.level"),
        (("serve", "reviewer", "--executor", "scripted", "--set", "server.prot=1"), 78, "did you mean 'port'"),
        (("serve", "reviewer", "--executor", "scripted", "--set", "store.type=postgresql"), 78, "store"),
        (("healthcheck", "nobody"), 2, "nobody"),
        (("healthcheck", "agents"), 2, "not one agent"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_mistake_is_told_and_nothing_is_served(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    write_agent(tmp_path)
    write_agent(tmp_path, "other", server={"port": 3999})
    found = run(tmp_path, *arguments)
    assert found.returncode == code, found.stderr
    assert words in found.stderr
    assert "Traceback" not in found.stderr


WITHOUT = """
import importlib.util, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("a2a", "falcon", "granian") else real(name, *rest)
from a2a_claude.cli import main
main(prog_name="a2a-claude")
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "reviewer", "--executor", "scripted"),
        ("call", "http://x", "hi"),
        ("card", "http://x"),
        ("cancel", "http://x", "t"),
    ],
)
def test_without_the_runtime_it_says_what_to_install(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_agent(tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert "pip install 'a2a-claude[runtime]'" in found.stderr


# --- Health check -----------------------------------------------------------------------------------------------------


def test_the_health_check_tells_a_ready_server_from_none(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        arguments = ("healthcheck", "reviewer", "--port", str(served.port))
        assert run(tmp_path, *arguments).returncode == 0
        assert run(tmp_path, *arguments, "--live").returncode == 0
        assert run(tmp_path, *arguments, "--hostname", "0.0.0.0").returncode == 0
        assert run(tmp_path, *arguments, "--hostname", "127.0.0.2").returncode == 1
        assert run(tmp_path, "healthcheck", environ=environment(PORT=str(served.port))).returncode == 0
        served.stop()
        found = run(tmp_path, *arguments)
    assert (found.returncode, "Connection refused" in found.stdout) == (1, True)


def test_the_health_check_reads_the_port_of_a_compiled_agent_without_the_compiler(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        (tmp_path / "agent.json").write_text(
            json.dumps({"server": {"port": served.port, "hostname": "0.0.0.0"}}),
        )
        script = (
            "import sys; from a2a_claude.commands.healthcheck import command\n"
            "try:\n    command(['agent.json'])\n"
            "except SystemExit as end:\n    code = end.code\n"
            "assert not {'yaml', 'jsonschema', 'falcon', 'a2a', 'httpx'} & set(sys.modules), sys.modules.keys()\n"
            "sys.exit(code)"
        )
        found = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.monotonic()
        found = run(tmp_path, "healthcheck", "--port", str(silent.getsockname()[1]), "--timeout", "0.2")
    assert found.returncode == 1
    assert "timed out" in found.stdout
    assert time.monotonic() - started < 30


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, and server.pem/.key and client.pem/.key that it signed."""
    folder = tmp_path_factory.mktemp("tls")
    now = datetime.datetime.now(datetime.UTC)

    def make(name: str, issuer: Any = None) -> tuple[Any, Any]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        addresses = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer[0].subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(addresses, critical=False)
            .sign(issuer[1] if issuer else key, hashes.SHA256())
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, key

    authority = make("ca")
    make("server", authority)
    make("client", authority)
    return folder


def tls(folder: Path, **more: str) -> dict[str, str]:
    return {"certificateFile": str(folder / "server.pem"), "keyFile": str(folder / "server.key"), **more}


def context(folder: Path, client: bool = False) -> Any:
    import ssl

    found = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if client:
        found.load_cert_chain(folder / "client.pem", folder / "client.key")
    return found


def test_a_server_with_a_certificate_speaks_tls(tmp_path: Path, certificates: Path) -> None:
    with serving(tmp_path, server={"tls": tls(certificates)}) as served:
        assert served.url.startswith("https://")
        assert card(served.url, verify=context(certificates))["name"] == "Reviewer"
        with httpx.Client(http2=True, verify=context(certificates)) as http:
            assert http.get(f"{served.url}/health").http_version == "HTTP/2"
        assert run(tmp_path, "healthcheck", "reviewer", "--port", str(served.port)).returncode == 0
        assert served.stop() == 0


def test_with_a_client_ca_only_its_certificates_get_in(tmp_path: Path, certificates: Path) -> None:
    server = {"tls": tls(certificates, clientCaFile=str(certificates / "ca.pem")), "auth": {"mtls": True}}
    with serving(tmp_path, server=server) as served:
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{served.url}/health", verify=context(certificates))
        assert card(served.url, verify=context(certificates, client=True))["name"] == "Reviewer"
        assert run(tmp_path, "healthcheck", "reviewer", "--port", str(served.port)).returncode == 0
