"""./dev python -m bench.server [--seconds 5] [--rounds 3] [--only a2a-claude,a2a-sdk]

Compares a2a-claude, its store on disk, with the servers of a2a-sdk and of @a2a-js/sdk, their stores in memory; all
with an executor that answers at once, over JSON-RPC on loopback. Every server has one core for itself, the client the
other. The peers are installed on the first run, below ~/.cache/a2a-claude. Figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from statistics import median

from bench.server import load
from bench.server.contenders import CONTENDERS, Contender, Running, running
from bench.server.process import cpu, memory

CONNECTIONS = 16
PATIENCE = 30.0  # seconds for the slowest stream
# Per second: more is better. Of everything else less is.
RATES = ("GetTask /s", "SendMessage /s", "1 stream of 1,000, events/s", "100 streams of 100, events/s")


def figures(contender: Contender, core: int | None, seconds: float, long: int) -> Iterator[tuple[str, float]]:
    """Everything that is measured of a server, by name."""
    with running(contender, core) as server:
        yield "ready, wall s", server.wall
        yield "ready, CPU s", server.cpu
        yield "idle RSS, MB", memory(server.pid)
        sending = load.request("SendMessage", load.message())
        task = load.ask(server.port, sending)["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
        yield from unary("GetTask", load.request("GetTask", {"id": task["id"]}), server, seconds)
        yield from unary("SendMessage", sending, server, seconds)
        load.streams(server.port, 100, 1, seconds)  # warms up
        yield "1 stream of 1,000, events/s", rate(load.streams(server.port, 1000, 1, PATIENCE))
        yield "100 streams of 100, events/s", rate(load.streams(server.port, 100, 100, PATIENCE))
        yield "CPU µs an event, stream of 100", cost(server, 100, 10)
        yield f"CPU µs an event, stream of {long:,}", cost(server, long, 1)
        yield "peak RSS, MB", memory(server.pid, "VmHWM")


def unary(name: str, sent: bytes, server: Running, seconds: float) -> Iterator[tuple[str, float]]:
    load.closed_loop(server.port, sent, CONNECTIONS, seconds / 5)  # warms up
    before = cpu(server.pid)
    found = load.closed_loop(server.port, sent, CONNECTIONS, seconds)
    yield f"{name} /s", found.per_second
    yield f"{name} CPU µs", 1e6 * (cpu(server.pid) - before) / (found.per_second * seconds)
    yield f"{name} p50 ms", found.p50
    yield f"{name} p99 ms", found.p99
    yield f"{name} client busy %", 100 * found.client


def cost(server: Running, chunks: int, times: int) -> float:
    """The server's CPU time for an event of such a stream, on average; not a number when it does not get that far."""
    before, events = cpu(server.pid), 0
    for _ in range(times):
        events += load.streams(server.port, chunks, 1, PATIENCE).events
    return 1e6 * (cpu(server.pid) - before) / events if events >= chunks * times else math.nan


def rate(streamed: load.Streamed) -> float:
    return streamed.events / streamed.seconds


def chosen(names: str, install: bool) -> list[Contender]:
    """The servers to compare; says which are left out."""
    found = []
    for contender in CONTENDERS:
        if names and contender.name not in names.split(","):
            continue
        if not contender.installed():
            if not install:
                print(f"{contender.name} is not installed: left out")
                continue
            contender.install()
        found.append(contender)
    return found


def cores() -> tuple[int | None, int | None]:
    """One for the server, one for the client; none is pinned where there is only one."""
    free = sorted(os.sched_getaffinity(0))
    return (free[-1], free[0]) if len(free) > 1 else (None, None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.server", description=(__doc__ or "").partition("\n")[2])
    parser.add_argument("--seconds", default=5.0, type=float, help="length of a measurement (default: %(default)s)")
    parser.add_argument("--rounds", default=3, type=int, help="of all measurements (default: %(default)s)")
    parser.add_argument("--long", default=10_000, type=int, help="chunks of the long stream (default: %(default)s)")
    parser.add_argument("--only", default="", help="names of the servers, with commas between them")
    parser.add_argument("--no-install", dest="install", action="store_false", help="leave out peers not installed")
    options = parser.parse_args()
    contenders = chosen(options.only, options.install)
    server_core, client_core = cores()
    print(f"load of the machine: {os.getloadavg()[0]:.2f}; cores: server {server_core}, client {client_core}\n")
    for contender in contenders:  # from here on, all byte code is there and in the page cache
        with running(contender, server_core):
            pass
    if client_core is not None:
        os.sched_setaffinity(0, {client_core})
    results: dict[str, dict[str, list[float]]] = {each.name: {} for each in contenders}
    for _ in range(options.rounds):
        for contender in contenders:
            for name, value in figures(contender, server_core, options.seconds, options.long):
                results[contender.name].setdefault(name, []).append(value)
    table({name: {key: median(values) for key, values in each.items()} for name, each in results.items()})


def table(results: dict[str, dict[str, float]]) -> None:
    ours = next(iter(results.values()))
    print(f"| | {' | '.join(results)} |\n|---|{'---|' * len(results)}")
    for name in ours:
        print(f"| {name} | {' | '.join(shown(each[name]) for each in results.values())} |")
    print()
    peers = list(results.values())[1:]
    if not peers:
        return
    for name in RATES:
        print(f"{name}: {ours[name] / max(each[name] for each in peers):.2f} times the faster peer")
    for name in ("ready, CPU s", "idle RSS, MB"):
        print(f"{name}: {ours[name] / min(each[name] for each in peers):.2f} times the leaner peer")
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")


def shown(value: float) -> str:
    if math.isnan(value):
        return f"not within {PATIENCE:.0f} s"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


if __name__ == "__main__":
    main()
