"""Metrics in Prometheus' text format, version 0.0.4.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/. The format is a page long, and the client library
costs a tenth of a second and several megabytes at start, so it is written here.
"""

from __future__ import annotations

import bisect
import math
import os
import resource
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
TURN_BUCKETS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
# Label values beyond this many are counted together, so that no caller can fill the memory.
MOST_SERIES: Final = 500

Labels = tuple[str, ...]
Sample = tuple[str, Labels, Sequence[str], float]


class Metric(ABC):
    """A family of series: `name`, what it means, and the names of its labels."""

    kind = "gauge"

    def __init__(self, name: str, description: str, labels: Labels = ()) -> None:
        self.name, self.description, self.labels = name, description, labels

    @abstractmethod
    def samples(self) -> Iterator[Sample]:
        """Suffix of the name, names and values of the labels, and the number, of each line."""


class Counter(Metric):
    """Only grows."""

    kind = "counter"

    def __init__(self, name: str, description: str, labels: Labels = ()) -> None:
        super().__init__(name, description, labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, *values: str, by: float = 1.0) -> None:
        """Counts `by` more for these label values."""
        if values not in self._values and len(self._values) >= MOST_SERIES:
            values = ("other",) * len(self.labels)
        self._values[values] = self._values.get(values, 0.0) + by

    def samples(self) -> Iterator[Sample]:
        """One line for each label values."""
        for values, count in sorted(self._values.items()):
            yield "", self.labels, values, count


class Read(Metric):
    """Read when it is asked for: `read` gives the number, or a mapping from the labels' values to numbers."""

    def __init__(
        self,
        name: str,
        description: str,
        read: Callable[[], float | Mapping[str, float] | Mapping[Labels, float]],
        labels: Labels = (),
        kind: str = "gauge",
    ) -> None:
        super().__init__(name, description, labels)
        self._read, self.kind = read, kind

    def samples(self) -> Iterator[Sample]:
        """One line for each label value."""
        found = self._read()
        if isinstance(found, Mapping):
            for values, number in sorted(found.items()):
                yield "", self.labels, (values,) if isinstance(values, str) else values, number
        else:
            yield "", (), (), found


class Histogram(Metric):
    """How observations are spread over `buckets`, their upper bounds."""

    kind = "histogram"

    def __init__(self, name: str, description: str, buckets: Sequence[float], labels: Labels = ()) -> None:
        super().__init__(name, description, labels)
        self._buckets = tuple(buckets)
        self._series: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}
        if not labels:
            self._series[()] = self._new()

    def _new(self) -> tuple[list[int], list[float]]:
        return [0] * (len(self._buckets) + 1), [0.0]

    def observe(self, number: float, *values: str) -> None:
        """Counts an observation."""
        counts, total = self._series.setdefault(values, self._new())
        counts[bisect.bisect_left(self._buckets, number)] += 1
        total[0] += number

    def samples(self) -> Iterator[Sample]:
        """The cumulative buckets, the sum and the count of each label values."""
        for values, (counts, total) in sorted(self._series.items()):
            sum_of_counts = 0
            for bound, count in zip((*self._buckets, math.inf), counts, strict=True):
                sum_of_counts += count
                yield "_bucket", (*self.labels, "le"), (*values, _number(bound)), sum_of_counts
            yield "_sum", self.labels, values, total[0]
            yield "_count", self.labels, values, sum_of_counts


class Metrics:
    """What this server counts. `tokens` and `cost` belong to executors that spend them."""

    def __init__(self, agent: str, version: str) -> None:
        self.requests = Counter(
            "a2a_claude_http_requests_total", "HTTP requests answered.", ("method", "route", "code")
        )
        self.tasks_ended = Counter("a2a_claude_tasks_ended_total", "Tasks that reached a terminal state.", ("state",))
        self.tasks_started = Counter("a2a_claude_tasks_started_total", "Tasks accepted.")
        self.turns = Histogram(
            "a2a_claude_turn_duration_seconds", "Time from the start of a turn to its end.", TURN_BUCKETS
        )
        self.tokens = Counter("a2a_claude_tokens_total", "Tokens of the model, by type.", ("type",))
        self.cost = Counter("a2a_claude_cost_usd_total", "Cost of the model's work, in US dollars.")
        self._families: list[Metric] = [
            self.requests,
            self.tasks_started,
            self.tasks_ended,
            self.turns,
            self.tokens,
            self.cost,
            Read("a2a_claude_info", "This server.", lambda: {version: 1}, ("version",)),
            Read("a2a_claude_agent_info", "The agent that it serves.", lambda: {agent: 1}, ("agent",)),
            *process_metrics(),
        ]

    def read(
        self,
        name: str,
        description: str,
        read: Callable[[], float | Mapping[str, float] | Mapping[Labels, float]],
        labels: Labels = (),
        kind: str = "gauge",
    ) -> None:
        """Adds a number, or one for each value of the labels, that is read at each scrape."""
        self._families.append(Read(name, description, read, labels, kind))

    def render(self) -> bytes:
        """All of it, in the text format."""
        return "".join(_lines(self._families)).encode()


def process_metrics() -> list[Metric]:
    """The standard metrics of a process, from /proc (Linux) and getrusage(2)."""

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + _start_since_boot()
    return [
        Read("process_cpu_seconds_total", "Processor time used.", cpu, kind="counter"),
        Read("process_resident_memory_bytes", "Memory in use.", resident_bytes),
        Read("process_open_fds", "Open file descriptors.", lambda: float(len(os.listdir("/proc/self/fd")))),
        Read("process_start_time_seconds", "When it started, in seconds since 1970.", lambda: round(started, 2)),
    ]


def resident_bytes() -> float:
    """Resident memory of this process, proc(5)."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return float(statm.read().split()[1]) * resource.getpagesize()


def _start_since_boot() -> float:
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[19]) / float(os.sysconf("SC_CLK_TCK"))


def _lines(families: Iterable[Metric]) -> Iterator[str]:
    for family in families:
        yield f"# HELP {family.name} {_escaped(family.description)}\n# TYPE {family.name} {family.kind}\n"
        for suffix, names, values, number in family.samples():
            pairs = ",".join(f'{name}="{_escaped(value, True)}"' for name, value in zip(names, values, strict=True))
            yield f"{family.name}{suffix}{'{' + pairs + '}' if pairs else ''} {_number(number)}\n"


def _escaped(text: str, quoted: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text


def _number(number: float) -> str:
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number == int(number) else repr(number)
