"""What `serve` ends with when it cannot start: 78 when somebody must change something first, 1 when it may pass."""

from __future__ import annotations

import os
import socket
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.store import StoreError, files
from tests.serving import Served, serving, start, write_agent
from tests.tools import require

PASSES, LASTS = 1, 78
CLAUDE = ("--executor", "claude", "-w", "/tmp")
OPEN = {"allowUnauthenticated": True}
KEY = {"enabled": True, "privateKeyJwkEnvVar": "CARD_KEY"}
CARD = {"name": "A", "description": "D", "version": "1", "signing": KEY}


def newer(folder: Path) -> None:
    with sqlite3.connect(folder / "tasks.sqlite3") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def damaged(folder: Path) -> None:
    (folder / "tasks.sqlite3").write_bytes(b"no database " * 100)


def a_file(folder: Path) -> None:
    (folder / "taken").write_text("")


def nothing(_: Path) -> None: ...


def no_tls(folder: Path) -> None:
    (folder / "some.pem").write_text("no certificate")


def told(served: Served, code: int, words: str) -> None:
    """It ended with `code`, and said why in one line."""
    assert served.wait() == code, served.raw
    assert any(words in each for each in served.raw), served.raw
    assert "Traceback" not in "".join(served.raw)


@pytest.mark.parametrize(
    ("code", "words", "config", "arguments", "before"),
    [
        (LASTS, "did you mean 'port'", {"server": {"prot": 1}}, (), nothing),
        (LASTS, "logging.level", {}, ("--log-level", "loud"), nothing),
        (LASTS, "NOT_SET is not set", {"store": {"type": "postgresql", "url": "x://${NOT_SET}@d"}}, (), nothing),
        (LASTS, "is not served by this version", {"store": {"type": "postgresql", "url": "x://d"}}, (), nothing),
        (LASTS, "without authentication", {"server": {"hostname": "0.0.0.0"}}, (), nothing),
        (PASSES, "/nope", {"server": {"auth": {"bearer": {"tokensFile": "/nope"}}}}, (), nothing),
        (LASTS, "TOKENS is not set", {"server": {"auth": {"bearer": {"tokensVariable": "TOKENS"}}}}, (), nothing),
        (LASTS, "CARD_KEY", {"agentCard": CARD}, (), nothing),
        (PASSES, "/no.pem", {"server": {"tls": {"certificateFile": "/no.pem", "keyFile": "/no.key"}}}, (), nothing),
        (
            LASTS,
            "no certificate and its key in PEM",
            {"server": {"tls": {"certificateFile": "{}/some.pem", "keyFile": "{}/some.pem"}}},
            (),
            no_tls,
        ),
        (PASSES, "/not/there does not exist", {}, ("--executor", "claude", "-w", "/not/there"), nothing),
        (PASSES, "/no/claude", {"claude": {"executablePathOverride": "/no/claude"}}, CLAUDE, nothing),
        (PASSES, "/no.md", {"memory": {"instructions": "/no.md"}}, CLAUDE, nothing),
        (LASTS, "written by a newer a2a-claude", {}, (), newer),
        (LASTS, "set store.path", {}, ("--state-dir", "{}/taken/below"), a_file),
        (PASSES, "the file is no SQLite database", {}, (), damaged),
        (PASSES, "cannot listen on 192.0.2.1", {"server": {"hostname": "192.0.2.1", "auth": OPEN}}, (), nothing),
        (PASSES, "be resolved", {"server": {"hostname": "no.such.host.invalid", "auth": OPEN}}, (), nothing),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_restart_mends_has_a_code_of_its_own(
    tmp_path: Path,
    code: int,
    words: str,
    config: dict[str, Any],
    arguments: tuple[str, ...],
    before: Callable[[Path], None],
) -> None:
    (state := tmp_path / "state").mkdir()
    before(state)
    agent = write_agent(tmp_path, **config)
    file = agent / "agent.yaml"
    file.write_text(file.read_text().replace("{}", str(state)))
    flags = [each.replace("{}", str(state)) for each in arguments]
    told(start(tmp_path, agent, "--port", "0", *flags), code, words)


def test_a_port_that_only_root_may_have_is_a_matter_of_the_config(tmp_path: Path) -> None:
    agent = write_agent(tmp_path, server={"hostname": "0.0.0.0", "auth": OPEN})
    # A network of its own has the kernel's default of who may have which port.
    alone = [require("unshare", "apt-get install util-linux"), "--net"]
    if os.geteuid() == 0:
        alone += [require("setpriv", "apt-get install util-linux"), "--bounding-set=-net_bind_service"]
    else:
        alone += ["--user", "--map-current-user"]
    served = start(tmp_path, agent, "--port", "80", before=alone)
    told(served, LASTS, "ports below 1024 take a privilege")


def test_a_port_that_another_program_has_may_become_free(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        served = start(tmp_path, write_agent(tmp_path), "--port", str(taken.getsockname()[1]))
        told(served, PASSES, "another program listens there")


def test_a_store_serves_one_server_at_a_time(tmp_path: Path) -> None:
    with serving(tmp_path):
        told(start(tmp_path, tmp_path / "agents" / "reviewer", "--port", "0"), PASSES, "another server uses it")


def test_a_mount_point_that_waits_for_its_file_system_may_get_it() -> None:
    """The folder of the state is made by the server, so none is there while its parent belongs to somebody else."""
    with tempfile.TemporaryDirectory() as folder:
        (kept := Path(folder, "kept")).mkdir(mode=0o555)
        os.chmod(folder, 0o555)  # noqa: S103 (anybody may look)
        found = []
        me = os.geteuid()
        os.seteuid(me or 65534)
        try:
            for path in (Path(folder, "mount", "state", "tasks.sqlite3"), kept / "tasks.sqlite3"):
                with pytest.raises(StoreError, match="Permission denied") as caught:
                    files.prepare(path)
                found.append(caught.value.passes)
        finally:
            os.seteuid(me)
            os.chmod(folder, 0o700)
        assert found == [True, False]
