"""A real server process: how it starts, what supervisors hear of it, and how it stops."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h2.exceptions
import httpx
import pytest

from tests.serving import PATIENCE, Served, environment, message, serving, write_agent

HEADERS = {"A2A-Version": "1.0"}


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def send(served: Served, script: dict[str, Any] | None = None, **configuration: Any) -> dict[str, Any]:
    """Sends a message and gives the JSON-RPC answer."""
    body = rpc("SendMessage", message=message(script), configuration=configuration)
    answer = httpx.post(f"{served.url}/a2a/jsonrpc", json=body, headers=HEADERS, timeout=PATIENCE)
    result: dict[str, Any] = answer.json()
    return result


def begin(served: Served, script: dict[str, Any]) -> str:
    """Starts a task and gives its id."""
    task_id: str = send(served, script, returnImmediately=True)["result"]["task"]["id"]
    return task_id


def task(served: Served, task_id: str) -> dict[str, Any]:
    answer = httpx.post(f"{served.url}/a2a/jsonrpc", json=rpc("GetTask", id=task_id), headers=HEADERS, timeout=PATIENCE)
    result: dict[str, Any] = answer.json()["result"]
    return result


def until(true: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Stream(threading.Thread):
    """Reads an event stream to its end; `ended` tells whether it came by itself."""

    def __init__(self, served: Served, script: dict[str, Any], http2: bool = False) -> None:
        super().__init__(daemon=True)
        self._url, self._script, self._http2 = served.url, script, http2
        self.events: list[Any] = []
        self.first = threading.Event()
        self.problem: Exception | None = None
        self.start()
        assert self.first.wait(PATIENCE)

    def run(self) -> None:
        body = rpc("SendStreamingMessage", message=message(self._script))
        try:
            with (
                httpx.Client(http1=not self._http2, http2=self._http2, timeout=PATIENCE) as http,
                http.stream("POST", f"{self._url}/a2a/jsonrpc", json=body, headers=HEADERS) as response,
            ):
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        self.events.append(json.loads(line[6:])["result"])
                        self.first.set()
        except (httpx.HTTPError, h2.exceptions.ProtocolError) as error:
            self.problem = error


# --- Start ------------------------------------------------------------------------------------------------------------


def test_health_and_ready_answer_and_the_card_names_the_port_that_was_taken(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        health, ready = httpx.get(f"{served.url}/health"), httpx.get(f"{served.url}/ready")
        assert (health.status_code, health.json()) == (200, {"status": "healthy", "agent": "Reviewer"})
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "agent": "Reviewer"})
        card = httpx.get(f"{served.url}/.well-known/agent-card.json", headers=HEADERS).json()
        assert card["supportedInterfaces"][0]["url"] == f"http://localhost:{served.port}/a2a/jsonrpc"
        assert served.stop() == 0


def test_a_request_keeps_the_id_that_its_caller_gave_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--log-level", "debug") as served:
        assert httpx.get(f"{served.url}/health", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
        strange = httpx.get(f"{served.url}/health", headers={"X-Request-Id": "a b"}).headers["x-request-id"]
        assert strange != "a b"
        served.stop()
    assert [each["request_id"] for each in served.lines if each["message"] == "GET /health 200"] == ["abc-1", strange]


def test_tasks_outlive_the_server_and_interrupted_ones_have_failed(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        done = send(served)["result"]["task"]["id"]
        hanging = begin(served, {"end": "hang"})
        served.process.kill()
        served.wait()
    with serving(tmp_path) as served:
        assert task(served, done)["status"]["state"] == "TASK_STATE_COMPLETED"
        interrupted = task(served, hanging)
        assert interrupted["status"]["state"] == "TASK_STATE_FAILED"
        assert interrupted["metadata"]["reason"] == "server_restarted"


# --- Stop -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_turn_may_end_and_its_client_gets_the_answer(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as served:
        stream = Stream(served, {"chunks": 4, "delay": 0.4})
        served.signal(number)
        assert served.wait() == 0
        stream.join(PATIENCE)
    assert stream.problem is None
    assert stream.events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_while_it_drains_new_messages_are_refused_and_tasks_can_be_read(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        running = begin(served, {"delay": 6})
        served.signal()
        until(lambda: httpx.get(f"{served.url}/ready").status_code == 503, "it stayed ready")
        assert httpx.get(f"{served.url}/ready").json()["problems"] == {"server": "it is stopping"}
        body = rpc("SendMessage", message=message())
        answer = httpx.post(f"{served.url}/a2a/jsonrpc", json=body, headers=HEADERS)
        assert (answer.json()["error"]["code"], answer.headers["retry-after"]) == (-32603, "10")
        assert task(served, running)["status"]["state"] == "TASK_STATE_WORKING"
        assert httpx.get(f"{served.url}/health").status_code == 200
        assert served.wait() == 0


def test_turns_that_do_not_end_in_time_fail_with_a_reason_and_every_stream_ends(tmp_path: Path) -> None:
    with serving(tmp_path, timeouts={"shutdown": 300}, server={"http2Cleartext": True}) as served:
        streams = [Stream(served, {"end": "hang"}, http2=each) for each in (False, True)]
        served.signal()
        assert served.wait() == 0
        for each in streams:
            each.join(PATIENCE)
            assert each.problem is None
            update = each.events[-1]["statusUpdate"]
            assert update["status"]["state"] == "TASK_STATE_FAILED"
            assert update["metadata"]["reason"] == "server_stopped"


def test_silent_connections_are_closed_and_keep_nobody_out(tmp_path: Path) -> None:
    with serving(tmp_path, server={"limits": {"headerTimeout": 1000}}) as served, contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), PATIENCE)) for _ in range(300)
        ]
        assert httpx.get(f"{served.url}/health", timeout=PATIENCE).status_code == 200
        for each in silent:
            each.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionResetError):
                while each.recv(4096):  # an answer that says so may come first
                    pass


def test_one_caller_cannot_take_all_streams(tmp_path: Path) -> None:
    with serving(tmp_path, server={"limits": {"maxStreamsPerCaller": 2}}, timeouts={"shutdown": 0}) as served:
        streams = [Stream(served, {"end": "hang"}) for _ in range(2)]
        body = rpc("SendStreamingMessage", message=message())
        answer = httpx.post(f"{served.url}/a2a/jsonrpc", json=body, headers=HEADERS, timeout=PATIENCE)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
        assert "you have 2 event streams open" in answer.json()["error"]["message"]
        served.signal()
        for each in streams:
            each.join(PATIENCE)
        assert served.wait() == 0
    with serving(tmp_path, server={"limits": {"maxStreamsPerCaller": 1}}) as served:
        for _ in range(3):  # a stream that has ended counts no more
            Stream(served, {"text": "done"}).join(PATIENCE)


def test_a_server_can_leave_out_the_older_protocol(tmp_path: Path) -> None:
    with serving(tmp_path, server={"legacyProtocol": False}) as served:
        card = httpx.get(f"{served.url}/.well-known/agent-card.json").json()
        assert {each["protocolVersion"] for each in card["supportedInterfaces"]} == {"1.0"}
        assert "url" not in card
        answer = httpx.post(f"{served.url}/a2a/jsonrpc", json=rpc("message/send", message=message())).json()
        assert answer["error"]["code"] in (-32009, -32601)


def test_idle_connections_and_half_sent_requests_hold_nothing_up(tmp_path: Path) -> None:
    with serving(tmp_path, timeouts={"shutdown": 100}) as served, contextlib.ExitStack() as stack:
        for text in (b"", b"GET /health HT", b"POST /a2a/jsonrpc HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), PATIENCE))
            connection.sendall(text)
        http = stack.enter_context(httpx.Client())
        http.get(f"{served.url}/health")
        started = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - started < 30


def test_a_second_signal_quits_at_once_and_loses_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        hanging = begin(served, {"end": "hang"})
        served.signal()
        until(lambda: any(each.startswith("Stopping") for each in served.messages), "it did not stop")
        served.signal(signal.SIGINT)
        assert served.wait() == 128 + signal.SIGINT
    with serving(tmp_path) as served:
        assert task(served, hanging)["status"]["state"] == "TASK_STATE_FAILED"


# --- systemd ----------------------------------------------------------------------------------------------------------


def test_systemd_hears_ready_watchdog_and_stopping(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        environ = environment(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="400000")
        with serving(tmp_path, environ=environ) as served:
            first = systemd.recv(4096).decode()
            assert first == f"READY=1\nSTATUS=Listening on {served.url}"
            assert httpx.get(f"{served.url}/ready").status_code == 200
            assert [systemd.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            served.signal()
            told: list[str] = []
            while not told or not told[-1].startswith("STOPPING=1"):
                told.append(systemd.recv(4096).decode())
            assert set(told[:-1]) <= {"WATCHDOG=1"}
            assert served.wait() == 0


ACTIVATE = """
import os, socket, sys
listener = socket.socket()
listener.bind((os.environ["ADDRESS"], 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
if listener.fileno() != 3:
    os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="a2a")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@contextlib.contextmanager
def activated(tmp_path: Path, address: str = "127.0.0.1") -> Iterator[tuple[Served, int]]:
    """A server on a socket that was there before it, as systemd starts one."""
    agent = write_agent(tmp_path)
    command = ["-m", "a2a_claude", "serve", str(agent), "--executor", "scripted", "--state-dir", str(tmp_path / "s")]
    process = subprocess.Popen(
        [sys.executable, "-c", ACTIVATE, *command],
        cwd=tmp_path,
        env=environment(ADDRESS=address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    served = Served(process)
    try:
        yield served, port
    finally:
        process.kill()
        served.wait()


def test_an_inherited_socket_is_served_also_what_came_before_the_server(tmp_path: Path) -> None:
    with activated(tmp_path) as (served, port):
        # Connected while the server still starts: the socket unit has the connection wait.
        assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=PATIENCE).status_code == 200
        served.wait_until_it_listens()
        assert served.port == port
        children = Path(f"/proc/{served.process.pid}/environ").read_bytes()
        assert b"LISTEN_FDS" in children  # what it was started with; what it hands on is tested below
        assert served.stop() == 0


def test_an_inherited_socket_that_is_open_to_the_network_needs_authentication_too(tmp_path: Path) -> None:
    with activated(tmp_path, "0.0.0.0") as (served, _):
        assert served.wait() == 78
        assert any("without authentication" in each for each in served.messages), served.raw


def test_no_child_inherits_the_socket_or_its_variables() -> None:
    script = (
        "import os, socket\n"
        "from a2a_claude.listening import inherited\n"
        "listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen()\n"
        "os.dup2(listener.fileno(), 3) if listener.fileno() != 3 else None\n"
        "os.set_inheritable(3, True)\n"
        "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES='x')\n"
        "found = inherited(os.environ)\n"
        "assert found.fileno() == 3 and not os.get_inheritable(3)\n"
        "assert not any(name.startswith('LISTEN') for name in os.environ)\n"
        "assert inherited(os.environ) is None\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("a, b = socket.socketpair()", "no listening TCP socket"),
        ("a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "no listening TCP socket"),
        ("a = socket.socket()", "no listening TCP socket"),
        ("a = open('/dev/null')", "is no socket"),
    ],
)
def test_a_descriptor_that_cannot_be_served_is_told(make: str, words: str) -> None:
    script = (
        "import os, socket\n"
        "from a2a_claude.listening import ListenError, inherited\n"
        f"{make}\n"
        "os.dup2(a.fileno(), 3) if a.fileno() != 3 else None\n"
        "try:\n"
        "    inherited({'LISTEN_FDS': '1', 'LISTEN_PID': str(os.getpid())})\n"
        "except ListenError as error:\n"
        "    print(error)\n"
        "os._exit(0)\n".replace("os._exit", "import sys; sys.stdout.flush(); os._exit")
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False
    )
    assert words in done.stdout, done.stderr


def test_variables_for_another_process_are_not_ours() -> None:
    from a2a_claude.listening import inherited

    environ = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + 1)}
    assert inherited(environ) is None
    assert environ == {}
