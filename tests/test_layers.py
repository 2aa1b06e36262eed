"""Layers: found in the project and nowhere else, merged in order, each mistake told in the file that holds it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.config.diagnostics import Diagnostic
from a2a_claude.config.layers import MAX_EXTENDS
from a2a_claude.config.loader import Fleet, Options, load_fleet

AGENT = "agents/reviewer/agent.yaml"
BESIDE = "agents/reviewer/a.yaml"
OTHER = "agents/reviewer/b.yaml"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder / "agents"


def load(
    agents: Path, profile: str | None = None, settings: tuple[str, ...] = (), environ: dict[str, str] | None = None
) -> Fleet:
    return load_fleet([agents], Options(profile, settings, environ))


def told(fleet: Fleet) -> list[tuple[str, str]]:
    """Rule and place of each error and warning, the place by file name."""
    return [(each.rule, where(each)) for each in fleet.diagnostics if each.severity != "note"]


def where(each: Diagnostic) -> str:
    return f"{Path(each.span.source.name).name}:{each.span.line + 1}:{each.span.column + 1}"


def document(fleet: Fleet) -> dict[str, Any]:
    (loaded,) = fleet.loaded
    assert loaded.agent is not None, told(fleet)
    return loaded.document


# --- Merging ----------------------------------------------------------------------------------------------------------

ORDER = [
    ("agents/defaults.yaml", None),
    ("agents/_layers/base.yaml", None),
    ("agents/_layers/extended.yaml", None),
    (AGENT, None),
    ("agents/defaults.prod.yaml", "prod"),
    ("agents/reviewer/agent.prod.yaml", "prod"),
]


@pytest.mark.parametrize("last", range(len(ORDER)))
def test_the_later_layer_wins(last: int, tmp_path: Path) -> None:
    extends = {
        AGENT: "extends: [../_layers/extended.yaml]\n",
        "agents/_layers/extended.yaml": "extends: [base.yaml]\n",
    }
    files = {
        name: extends.get(name, "") + f"x-{number}: 1\n" + (f"server: {{port: {4000 + number}}}\n" * (number <= last))
        for number, (name, _) in enumerate(ORDER)
    }
    found = document(load(write(tmp_path, files), "prod"))
    assert found["server"]["port"] == 4000 + last
    assert [found[f"x-{number}"] for number in range(len(ORDER))] == [1] * len(ORDER)
    assert found["extends"] == []


def test_environment_and_settings_are_above_the_files_in_this_order(tmp_path: Path) -> None:
    agents = write(tmp_path, {AGENT: "server: {port: 4000}\n"})
    environ = {"PORT": "4001", "HOSTNAME": "0.0.0.0"}
    assert document(load(agents, environ=environ))["server"]["port"] == 4001
    assert document(load(agents, settings=("server.port=4002",), environ=environ))["server"]["port"] == 4002
    assert document(load(agents, environ=environ))["server"]["hostname"] != "0.0.0.0"
    assert document(load(agents))["server"]["port"] == 4000


MERGED: list[tuple[str, str, str, Any]] = [
    ("mappings merge", "x-a: {b: 1, c: 1}", "x-a: {c: 2, d: 2}", {"b": 1, "c": 2, "d": 2}),
    ("lists replace", "x-a: [1, 2]", "x-a: [3]", [3]),
    ("a mapping replaces a scalar", "x-a: 1", "x-a: {b: 1}", {"b": 1}),
    ("a scalar replaces a mapping", "x-a: {b: 1}", "x-a: 1", 1),
    ("a list replaces a mapping", "x-a: {b: 1}", "x-a: [1]", [1]),
    ("null removes", "x-a: 1", "x-a: null", None),
    ("null removes a whole mapping", "x-a: {b: {c: 1}}", "x-a: ~", None),
    ("nothing removes", "x-a: 1", "x-a:", None),
]


@pytest.mark.parametrize(("lower", "upper", "value"), [case[1:] for case in MERGED], ids=[case[0] for case in MERGED])
def test_how_two_layers_become_one(lower: str, upper: str, value: Any, tmp_path: Path) -> None:
    found = document(load(write(tmp_path, {"agents/defaults.yaml": lower, AGENT: upper})))
    assert found.get("x-a") == value
    assert ("x-a" in found) == (value is not None)


def test_what_a_null_removed_can_be_set_again(tmp_path: Path) -> None:
    files = {
        "agents/defaults.yaml": "mcp: {a: {type: stdio, command: one, args: [x]}}\nclaude: {model: one}\n",
        AGENT: "mcp: null\nclaude: {model: null}\n",
        "agents/reviewer/agent.prod.yaml": "mcp: {a: {type: stdio, command: two}}\nclaude: {model: two}\n",
    }
    agents = write(tmp_path, files)
    assert document(load(agents))["mcp"] == {}
    assert "model" not in document(load(agents))["claude"]
    found = document(load(agents, "prod"))
    assert (found["mcp"]["a"]["command"], found["mcp"]["a"].get("args", [])) == ("two", [])
    assert found["claude"]["model"] == "two"


def test_a_null_that_is_data_is_kept(tmp_path: Path) -> None:
    schema = {"type": "object", "default": None, "properties": {"a": {"enum": [None, 1]}}}
    text = (
        f"claude:\n  outputFormat: {{type: json_schema, schema: {json.dumps(schema)}}}\nx-a: {{b: null, c: [null]}}\n"
    )
    found = document(load(write(tmp_path, {AGENT: text})))
    assert found["claude"]["outputFormat"]["schema"] == schema
    assert found["x-a"] == {"b": None, "c": [None]}


def test_a_mistake_that_a_later_layer_hides_is_told(tmp_path: Path) -> None:
    files = {
        "agents/defaults.yaml": "server: {port: many}\n",
        AGENT: "server: {port: 0}\n",
        "agents/reviewer/agent.prod.yaml": "server: {port: 4000}\n",
    }
    agents = write(tmp_path, files)
    hidden = [("wrong-type", "defaults.yaml:1:16"), ("out-of-range", "agent.yaml:1:16")]
    assert sorted(told(load(agents, "prod"))) == sorted(hidden)
    assert set(hidden) <= set(told(load(agents, settings=("server.port=4000",))))
    assert set(hidden) <= set(told(load(agents, environ={"PORT": "4000"})))


# --- The environment --------------------------------------------------------------------------------------------------


def test_one_variable_changes_one_value(tmp_path: Path) -> None:
    agents = write(tmp_path, {AGENT: "agentCard: {name: a, description: b}\n"})
    found = document(load(agents, environ={"AGENT_NAME": "c", "PORT": "", "HOSTNAME": "0.0.0.0"}))
    assert (found["agentCard"]["name"], found["agentCard"]["description"]) == ("c", "b")
    assert found["server"] == document(load(agents))["server"]


def test_a_value_of_the_environment_is_never_expanded(tmp_path: Path) -> None:
    agents = write(tmp_path, {AGENT: "claude: {model: '${MODEL}'}\n"})
    fleet = load(agents, environ={"WORKSPACE_DIR": "/a/${HOME}$X$$", "CLAUDE_MODEL": "$HOME"})
    found = document(fleet)["claude"]
    assert (found["workingDirectory"], found["model"]) == ("/a/$${HOME}$$X$$$$", "$$HOME")
    assert fleet.loaded[0].agent is not None
    assert fleet.loaded[0].agent.variables == ()


def test_a_variable_that_repeats_the_file_is_no_warning(tmp_path: Path) -> None:
    assert told(load(write(tmp_path, {AGENT: "server: {port: 4000}\n"}), environ={"PORT": "4000"})) == []


ENVIRONMENT: list[tuple[str, str, str]] = [
    ("PORT", "abc", "wrong-type"),
    ("PORT", "0", "out-of-range"),
    ("PORT", "9" * 30, "wrong-type"),
    ("LOG_LEVEL", "loud", "not-allowed"),
    ("CLAUDE_EFFORT", "huge", "not-allowed"),
    ("AGENT_NAME", "a\nb", "control-character"),
    ("AGENT_NAME", "a\x1bb", "control-character"),
]


@pytest.mark.parametrize(("name", "value", "rule"), ENVIRONMENT)
def test_a_wrong_variable_is_told_by_its_name(name: str, value: str, rule: str, tmp_path: Path) -> None:
    agents = write(tmp_path, {AGENT: "agentCard: {name: a}\n"})
    assert told(load(agents, environ={name: value})) == [(rule, f"environment variable {name}:1:1")]


# --- Settings ---------------------------------------------------------------------------------------------------------

SETTINGS: list[tuple[str, list[str | int], Any]] = [
    ("server.port=4000", ["server", "port"], 4000),
    ("claude.allowedTools=[Read, Grep]", ["claude", "allowedTools"], ["Read", "Grep"]),
    ("claude.systemPromptAppend=a=b", ["claude", "systemPromptAppend"], "a=b"),
    ('claude.systemPromptAppend="a: b"', ["claude", "systemPromptAppend"], "a: b"),
    ("claude.systemPromptAppend=", ["claude", "systemPromptAppend"], None),
    ("claude.systemPromptAppend=null", ["claude", "systemPromptAppend"], None),
    ('x-a."b.c"=1', ["x-a", "b.c"], 1),
    ('x-a."b=c"."[d]"=1', ["x-a", "b=c", "[d]"], 1),
    ("x-a={b: [1, {c: 2}]}", ["x-a", "b", 1, "c"], 2),
    ("x-s.deep.er=1", ["x-s", "deep", "er"], 1),
]


@pytest.mark.parametrize(("setting", "path", "value"), SETTINGS)
def test_a_setting_is_over_every_file(setting: str, path: list[str | int], value: Any, tmp_path: Path) -> None:
    agents = write(tmp_path, {AGENT: "claude: {systemPromptAppend: x}\nx-s: scalar\n"})
    found: Any = document(load(agents, settings=(setting,)))
    for step in path:
        found = found.get(step) if isinstance(step, str) else found[step]
    assert found == value


BROKEN_SETTINGS: list[tuple[str, str]] = [
    ("", "bad-setting"),
    ("server.port", "bad-setting"),
    ("=1", "bad-setting"),
    (".a=1", "bad-setting"),
    ("a..b=1", "bad-setting"),
    ('"a=1', "bad-setting"),
    ("a[0]=1", "bad-setting"),
    ("x-a." * 5000 + "b=1", "bad-setting"),
    ("server.port=no", "ambiguous-scalar"),
    ("server.port=[1", "yaml-syntax"),
    ("server.port=a: b: c", "yaml-colon"),
    ("server.port=!x 1", "yaml-tag"),
    ("server.port=*a", "yaml-alias"),
    ("server.port=many", "wrong-type"),
    ("server.prot=1", "unknown-key"),
    ("x-a=\0", "control-character"),
    ("x-a=\udcff", "control-character"),
    ("x-a=" + "[" * 100, "too-deep"),
    ("server.port=3030", "no-effect"),
    ("extends=[other.yaml]", "no-effect"),
]


@pytest.mark.parametrize(("setting", "rule"), BROKEN_SETTINGS)
def test_a_broken_setting_is_told_at_its_place(setting: str, rule: str, tmp_path: Path) -> None:
    agents = write(tmp_path, {AGENT: "server: {port: 3030}\n"})
    found = [each for each in load(agents, settings=(setting,)).diagnostics if each.severity != "note"]
    assert [each.rule for each in found] == [rule]
    assert all(each.span.source.name == "--set" for each in found)


# --- Extending --------------------------------------------------------------------------------------------------------


def test_a_diamond_is_read_once(tmp_path: Path) -> None:
    files = {
        AGENT: "extends: [../_l/one.yaml, ../_l/two.yaml, ../_l/../_l/one.yaml]\n",
        "agents/_l/one.yaml": "extends: [base.yaml]\nx-a: one\n",
        "agents/_l/two.yaml": "extends: [./base.yaml]\nx-a: two\n",
        "agents/_l/base.yaml": "x-a: base\nx-b: base\n",
    }
    fleet = load(write(tmp_path, files))
    assert (document(fleet)["x-a"], document(fleet)["x-b"]) == ("two", "base")
    (agent,) = fleet.agents
    assert [Path(each).name for each in agent.layers] == ["base.yaml", "one.yaml", "two.yaml", "agent.yaml"]


def test_the_defaults_can_be_extended_and_stay_lowest(tmp_path: Path) -> None:
    files = {"agents/defaults.yaml": "x-a: 1\n", AGENT: "extends: [../defaults.yaml]\nx-b: 1\n"}
    assert document(load(write(tmp_path, files)))["x-a"] == 1


EXTENDS: list[tuple[str, dict[str, str], str, str]] = [
    ("itself", {AGENT: "extends: [agent.yaml]"}, "extends-cycle", "agent.yaml:1:11"),
    (
        "a circle of three",
        {AGENT: "extends: [a.yaml]", BESIDE: "extends: [b.yaml]", OTHER: "extends: [agent.yaml]"},
        "extends-cycle",
        "b.yaml:1:11",
    ),
    ("a file that is not there", {AGENT: "extends: [none.yaml]"}, "extends-missing", "agent.yaml:1:11"),
    (
        "a file of another kind",
        {AGENT: "extends: [a.txt]", BESIDE.replace("yaml", "txt"): ""},
        "extends-missing",
        "agent.yaml:1:11",
    ),
    ("a folder", {AGENT: "extends: [a.yaml]", "agents/reviewer/a.yaml/b": ""}, "unreadable-file", "a.yaml:1:1"),
    ("an absolute path", {AGENT: "extends: [/etc/passwd]"}, "extends-outside", "agent.yaml:1:11"),
    ("a path out of the project", {AGENT: "extends: [../../../a.yaml]"}, "extends-outside", "agent.yaml:1:11"),
    ("an address", {AGENT: "extends: ['https://a.b/c.yaml']"}, "extends-outside", "agent.yaml:1:11"),
    ("a NUL", {AGENT: 'extends: ["a\\0.yaml"]'}, "extends-missing", "agent.yaml:1:11"),
    ("a long path", {AGENT: f"extends: [{'a' * 5000}.yaml]"}, "extends-missing", "agent.yaml:1:11"),
    ("text", {AGENT: "extends: a.yaml"}, "wrong-type", "agent.yaml:1:10"),
    ("a number", {AGENT: "extends: [1]"}, "wrong-type", "agent.yaml:1:11"),
    ("a mapping", {AGENT: "extends: {a: b}"}, "wrong-type", "agent.yaml:1:10"),
]


@pytest.mark.parametrize(("files", "rule", "place"), [case[1:] for case in EXTENDS], ids=[case[0] for case in EXTENDS])
def test_a_wrong_extends_is_told_at_its_place(files: dict[str, str], rule: str, place: str, tmp_path: Path) -> None:
    assert told(load(write(tmp_path, files))) == [(rule, place)]


def test_a_long_chain_and_a_link_to_its_own_folder_end(tmp_path: Path) -> None:
    files = {f"agents/_l/{n}.yaml": f"extends: [{n + 1}.yaml]\n" for n in range(2000)}
    agents = write(tmp_path, files | {"agents/_l/2000.yaml": "", AGENT: "extends: [../_l/0.yaml]\n"})
    assert told(load(agents)) == [("too-deep", f"{MAX_EXTENDS - 1}.yaml:1:11")]
    (tmp_path / AGENT).write_text("extends: [again/agent.yaml]\n", "utf-8")
    (tmp_path / AGENT).with_name("again").symlink_to(".")
    assert told(load(agents)) == [("extends-cycle", "agent.yaml:1:11")]


# --- Profiles ---------------------------------------------------------------------------------------------------------


def test_a_profile_without_files_is_a_warning(tmp_path: Path) -> None:
    assert [rule for rule, _ in told(load(write(tmp_path, {AGENT: "x-a: 1\n"}), "prod"))] == ["unused-profile"]


# --- Finding files: what a pull request may plant ---------------------------------------------------------------------


def link_out(path: Path) -> None:
    outside = path.parents[2].with_name("outside.yaml")
    outside.write_text("secret: of-the-host\n", "utf-8")
    path.symlink_to(outside)


PLANTED: list[tuple[str, str, Callable[[Path], None]]] = [
    ("a pipe", AGENT, os.mkfifo),
    ("a folder", AGENT, Path.mkdir),
    ("a link to a device", AGENT, lambda path: path.symlink_to("/dev/zero")),
    ("a link to nothing", AGENT, lambda path: path.symlink_to("nothing")),
    ("a link to itself", AGENT, lambda path: path.symlink_to("agent.yaml")),
    ("a link out of the project", AGENT, link_out),
    ("a link to /etc/passwd", AGENT, lambda path: path.symlink_to("/etc/passwd")),
    ("defaults that are a link out", "agents/reviewer/../defaults.yaml", lambda path: path.symlink_to("/etc/passwd")),
    ("an overlay that is a link out", "agents/reviewer/agent.prod.yaml", lambda path: path.symlink_to("/etc/passwd")),
]


@pytest.mark.parametrize(("name", "plant"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED])
def test_a_file_that_is_none_of_the_project_is_refused_unread(
    name: str, plant: Callable[[Path], None], tmp_path: Path
) -> None:
    project = tmp_path / "project"
    agents = write(project, {"agents/reviewer/notes.txt": "", "agents/reviewer/agent.yaml": "x-a: 1\n"})
    if name == AGENT:
        (project / AGENT).unlink()
    plant(project / name)
    found = [each for each in load(agents, "prod").diagnostics if each.rule not in ("unused-profile", "no-skills")]
    assert [each.rule for each in found if each.severity == "error"] == ["unreadable-file"]
    assert all(each.span.source.line(0) in ("", "x-a: 1") for each in found)


def test_extending_and_an_agents_folder_by_a_link_out_are_refused(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    write(outside, {"agent.yaml": "secret: x\n"})
    agents = write(project, {AGENT: "extends: [link.yaml]\n"})
    (project / AGENT).with_name("link.yaml").symlink_to(outside / "agent.yaml")
    assert told(load(agents)) == [("extends-outside", "agent.yaml:1:11")]
    (project / AGENT).write_text("x-a: 1\n", "utf-8")
    (agents / "other").symlink_to(outside)
    assert told(load(agents)) == [("unreadable-file", "agent.yaml:1:1")]


def test_a_link_within_the_project_is_followed(tmp_path: Path) -> None:
    agents = write(tmp_path, {"shared.yaml": "x-a: 1\n", "agents/reviewer/notes.txt": ""})
    (tmp_path / AGENT).symlink_to("../../shared.yaml")
    assert document(load(agents))["x-a"] == 1


def test_folders_that_cannot_be_agents_are_told(tmp_path: Path) -> None:
    names = ["Upper", "a" * 64, "with space", "new\nline", 'quo"te', "1a", os.fsdecode(b"\xff")]
    agents = write(tmp_path, {f"agents/{name}/agent.yaml": "x-a: 1\n" for name in names})
    assert [rule for rule, _ in told(load(agents))] == ["agent-name"] * len(names)


def test_two_configs_in_one_place_are_an_error_naming_both(tmp_path: Path) -> None:
    files = {AGENT: "", "agents/reviewer/config.json": "{}", "agents/defaults.yaml": "", "agents/defaults.yml": ""}
    (config,) = [each for each in load(write(tmp_path, files)).diagnostics if each.severity == "error"]
    assert config.rule == "two-configs"
    assert "agent.yaml" in config.message
    assert "config.json" in config.message
    (tmp_path / "agents/reviewer/config.json").unlink()
    (layer,) = [each for each in load(tmp_path / "agents").diagnostics if each.severity == "error"]
    assert "defaults.yaml and" in layer.message


def test_two_agents_of_one_name_are_an_error(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", {AGENT: "x-a: 1\n"}), write(tmp_path / "two", {AGENT: "x-a: 2\n"})
    assert told(load_fleet([one, two])) == [("two-configs", "agent.yaml:1:1")]


def test_an_agent_given_twice_is_loaded_once(tmp_path: Path) -> None:
    agents = write(tmp_path, {AGENT: "x-a: 1\n"})
    folder = agents / "reviewer"
    spellings = [agents, folder, folder / "agent.yaml", agents / ".." / "agents", folder / ".." / "reviewer"]
    (tmp_path / "link").symlink_to(agents)
    fleet = load_fleet([*spellings, tmp_path / "link"])
    assert len(fleet.loaded) == 1
    assert told(fleet) == []


def test_two_names_for_one_file_are_two_agents(tmp_path: Path) -> None:
    agents = write(tmp_path, {AGENT: "server: {port: 4000}\n"})
    (agents / "writer").mkdir()
    (agents / "writer" / "agent.yaml").symlink_to("../reviewer/agent.yaml")
    assert [rule for rule, _ in told(load(agents))] == ["port-clash"]


@pytest.mark.parametrize("content", [{}, {"agents/_layers/a.yaml": ""}, {"agents/empty/notes.txt": ""}])
def test_a_folder_without_agents_is_an_error(content: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    assert [rule for rule, _ in told(load(write(tmp_path, content)))] == ["no-agents"]


# --- Shipped files ----------------------------------------------------------------------------------------------------

SKILL = "agents/reviewer/skills/one/SKILL.md"


def test_what_memory_names_is_shipped(tmp_path: Path) -> None:
    files = {
        AGENT: "memory: {instructions: ../notes.md, skills: [skills/one]}\nclaude: {settingSources: [project]}\n",
        "agents/notes.md": "",
        SKILL: "",
        "agents/reviewer/skills/one/scripts/a.sh": "",
        "agents/reviewer/skills/one/elsewhere/b": "",
    }
    fleet = load(write(tmp_path, files))
    (agent,) = fleet.agents
    assert told(fleet) == []
    assert sorted(agent.files) == ["memory/notes.md", "memory/skills/one/SKILL.md", "memory/skills/one/scripts/a.sh"]
    assert (agent.document["memory"]["instructions"], agent.document["memory"]["skills"]) == (
        "memory/notes.md",
        ["memory/skills/one"],
    )


def big(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate((10 << 20) + 1)


UNSHIPPABLE: list[tuple[str, str, str, Callable[[Path], None]]] = [
    ("a link out", "skills: [skills/one]", "skills/one/scripts/a", lambda path: path.symlink_to("/etc/passwd")),
    ("a folder by a link out", "skills: [skills/one]", "skills/one/scripts/a", lambda path: path.symlink_to("/etc")),
    ("a link to nothing", "skills: [skills/one]", "skills/one/scripts/a", lambda path: path.symlink_to("b")),
    ("a folder by a link", "skills: [skills/one]", "skills/one/scripts/a", lambda path: path.symlink_to("..")),
    ("a pipe", "skills: [skills/one]", "skills/one/scripts/a", os.mkfifo),
    ("a name with a line break", "skills: [skills/one]", "skills/one/scripts/a\nRUN x", Path.touch),
    ("a name that is not UTF-8", "skills: [skills/one]", os.fsdecode(b"skills/one/scripts/\xff"), Path.touch),
    ("a large file", "skills: [skills/one]", "skills/one/scripts/a", big),
    ("large instructions", "instructions: a.md", "a.md", big),
    ("instructions by a link out", "instructions: a.md", "a.md", lambda path: path.symlink_to("/etc/passwd")),
    ("instructions outside", "instructions: ../../../../../../../etc/passwd", "a.md", Path.touch),
    ("a skill outside", "skills: [../../../../../../../etc]", "a.md", Path.touch),
    ("two skills of one name", "skills: [skills/one, other/one]", "other/one/SKILL.md", Path.touch),
    ("a NUL", 'instructions: "a\\0b"', "a.md", Path.touch),
    ("a long name", f"instructions: {'a' * 5000}", "a.md", Path.touch),
]


@pytest.mark.parametrize(
    ("memory", "name", "plant"), [case[1:] for case in UNSHIPPABLE], ids=[case[0] for case in UNSHIPPABLE]
)
def test_a_file_that_cannot_be_shipped_is_told(
    memory: str, name: str, plant: Callable[[Path], None], tmp_path: Path
) -> None:
    text = f"memory: {{{memory}}}\nclaude: {{settingSources: [project]}}\n"
    agents = write(tmp_path / "project", {AGENT: text, SKILL: ""})
    path = agents / "reviewer" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    plant(path)
    fleet = load(agents)
    assert {rule for rule, _ in told(fleet)} & {"memory-file", "control-character"}
    assert not any("passwd" in str(each) for each in fleet.agents)
