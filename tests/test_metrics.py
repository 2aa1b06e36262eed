"""Metrics: the text format, read by a parser of its grammar, and the numbers of a real server."""

from __future__ import annotations

import math
import re
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_claude.observe.metrics import MOST_SERIES, Counter, Histogram, Metrics, process_metrics
from tests.serving import message, serving

# https://prometheus.io/docs/instrumenting/exposition_formats/
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"')
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parse(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels. AssertionError where the grammar is broken."""
    assert text.endswith("\n")
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    kinds: dict[str, str] = {}
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, f"{name} twice"
            kinds[name] = kind
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        family = re.sub(r"_(bucket|sum|count)$", "", match[1])
        assert match[1] in kinds or kinds.get(family) == "histogram", line
        labels = frozenset(
            (key, re.sub(r'\\[\\"n]', lambda each: ESCAPES[each[0]], value))
            for key, value in LABEL.findall(match[2] or "")
        )
        assert (match[1], labels) not in found, line
        found[match[1], labels] = float(match[3].replace("Inf", "inf"))
    return found


@given(st.text(), st.text(), st.floats(allow_nan=False))
def test_any_label_and_any_number_reads_back(agent: str, route: str, number: float) -> None:
    metrics = Metrics(agent.replace("\r", ""), "1")
    metrics.requests.add("GET", route.replace("\r", ""), "200")
    metrics.read("a_number", "A number.", lambda: number)
    found = parse(metrics.render().decode("utf-8", "surrogatepass"))
    assert found["a_number", frozenset()] == number
    labels = frozenset({("method", "GET"), ("route", route.replace("\r", "")), ("code", "200")})
    assert found["a2a_claude_http_requests_total", labels] == 1


@given(st.lists(st.floats(0, 100), max_size=30))
def test_the_buckets_of_a_histogram_hold_what_is_not_above_their_bound(observations: list[float]) -> None:
    histogram = Histogram("h", "", (1, 10, 50))
    for each in observations:
        histogram.observe(each)
    samples = {(suffix, values): number for suffix, _, values, number in histogram.samples()}
    for bound, shown in ((1, "1"), (10, "10"), (50, "50"), (math.inf, "+Inf")):
        assert samples["_bucket", (shown,)] == sum(each <= bound for each in observations)
    assert samples["_count", ()] == len(observations)
    assert samples["_sum", ()] == pytest.approx(sum(observations))


def test_a_caller_cannot_fill_the_memory_with_label_values() -> None:
    counter = Counter("c", "", ("route",))
    for number in range(3 * MOST_SERIES):
        counter.add(str(number))
    found = {values: count for _, _, values, count in counter.samples()}
    assert len(found) == MOST_SERIES + 1
    assert sum(found.values()) == 3 * MOST_SERIES


def test_a_process_has_the_standard_metrics() -> None:
    found = {each.name: next(iter(each.samples()))[3] for each in process_metrics()}
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_open_fds"] >= 3
    assert 1_600_000_000 < found["process_start_time_seconds"] < 10_000_000_000


def test_a_server_counts_tasks_turns_and_requests(tmp_path: Path) -> None:
    with serving(tmp_path) as served, httpx.Client(base_url=served.url, timeout=60) as http:
        for end in ("completed", "completed", "failed"):
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message({"end": end})}}
            http.post("/a2a/jsonrpc", json=body, headers={"A2A-Version": "1.0"}).raise_for_status()
        assert http.get("/a2a/rest/v1/tasks/none").status_code == 404
        http.get("/not/there/at/all")
        response = http.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {
        (name, *sorted(value for _, value in labels)): number for (name, labels), number in parse(response.text).items()
    }
    assert found["a2a_claude_tasks_started_total",] == 3
    assert found["a2a_claude_tasks_ended_total", "completed"] == 2
    assert found["a2a_claude_tasks_ended_total", "failed"] == 1
    assert found["a2a_claude_tasks", "completed"] == 2
    assert found["a2a_claude_turn_duration_seconds_count",] == 3
    assert found["a2a_claude_turns_running",] == 0
    assert found["a2a_claude_turns_queued",] == 0
    assert found["a2a_claude_streams_open",] == 0
    assert found["a2a_claude_http_requests_total", "/a2a/jsonrpc", "200", "POST"] == 3
    assert found["a2a_claude_http_requests_total", "404", "GET", "unknown"] == 1
    assert sum(number for (name, *labels), number in found.items() if "http_requests" in name and "404" in labels) == 2


def test_a_config_can_do_without_metrics(tmp_path: Path) -> None:
    with serving(tmp_path, observability={"metrics": False}) as served:
        assert httpx.get(f"{served.url}/metrics").status_code == 404
        assert httpx.get(f"{served.url}/health").status_code == 200
