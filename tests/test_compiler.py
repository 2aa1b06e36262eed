"""The deploy/ tree: the same for the same input, changed as a whole or not at all, and nobody's work overwritten."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from a2a_claude.cli import main
from a2a_claude.config.source import MAX_BYTES
from a2a_claude.targets import TARGETS
from tests.tools import require

ROOT = Path(__file__).parent.parent
AGENT = "agentCard: {{name: {name}, description: b, version: '1'}}\nserver: {{port: {port}}}\n"


def project(folder: Path, *names: str) -> Path:
    """A project with agents of these names."""
    for number, name in enumerate(names or ("reviewer", "writer")):
        path = folder / "agents" / name / "agent.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(AGENT.format(name=name, port=4000 + number), "utf-8")
    return folder


def compile_in(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        main, ["compile", str(folder / "agents"), "-o", str(folder / "deploy"), *arguments], catch_exceptions=False
    )


def tree(folder: Path) -> dict[str, bytes]:
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "deploy" / "manifest.json").read_text("utf-8"))
    return content


def change(folder: Path, name: str = "reviewer", text: str = "x-changed: 1\n") -> None:
    with (folder / "agents" / name / "agent.yaml").open("a", encoding="utf-8") as file:
        file.write(text)


# --- Determinism ------------------------------------------------------------------------------------------------------

SPELLINGS: list[tuple[str, str, str, int]] = [
    ("agents", "deploy", ".", 0o022),
    ("agents/", "deploy/", ".", 0o077),
    ("./agents/../agents", "agents/../deploy", ".", 0o022),
    ("{here}/agents", "{here}/deploy", "/", 0o022),
    ("../../agents", "../../deploy", "agents/reviewer", 0o027),
]


def test_a_tree_does_not_depend_on_where_and_how_it_is_compiled(tmp_path: Path) -> None:
    text = "memory: {skills: [skills/one]}\nclaude: {model: '${M}', settingSources: [project]}\n"
    found = []
    for number, (agents, out, cwd, umask) in enumerate(SPELLINGS):
        here = project(tmp_path / f"p{number}" / "project")
        change(here, text=text)
        for name in ("SKILL.md", "scripts/b.py", "scripts/a.py"):
            place = here / "agents" / "reviewer" / "skills" / "one" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(name, "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "a2a_claude", "compile", agents.format(here=here), "-o", out.format(here=here)],
            cwd=here / cwd,
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(number), "PATH": "", "TZ": f"UTC+{number}"},
            umask=umask,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(tree(here / "deploy"))
    assert found[1:] == found[:1] * (len(SPELLINGS) - 1)
    assert not [path for path, data in found[0].items() if str(tmp_path).encode() in data]
    assert len(found[0]) > 2 * len(TARGETS)


def test_the_manifest_tells_what_a_tree_is_made_of(tmp_path: Path) -> None:
    here = project(tmp_path)
    assert compile_in(here).exit_code == 0
    content = manifest(here)
    files = tree(here / "deploy")
    assert content["outputs"].keys() == files.keys() - {"manifest.json"}
    for path, entry in content["outputs"].items():
        assert entry["sha256"] == hashlib.sha256(files[path]).hexdigest()
        assert entry["target"] in TARGETS
    source = "agents/reviewer/agent.yaml"
    ((layer, digest),) = content["layers"]["reviewer"].items()
    assert layer.endswith(source)
    assert digest == hashlib.sha256((here / source).read_bytes()).hexdigest()


def test_a_second_compile_touches_nothing(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    before = {each: each.stat().st_mtime_ns for each in (here / "deploy").rglob("*")}
    assert "0 files changed" in compile_in(here).output
    assert {each: each.stat().st_mtime_ns for each in (here / "deploy").rglob("*")} == before


# --- All or nothing ---------------------------------------------------------------------------------------------------


def test_one_wrong_agent_changes_nothing(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    before = tree(here / "deploy")
    change(here, "reviewer")
    change(here, "writer", "claude: {permissionMod: plan}\n")
    assert compile_in(here).exit_code == 1
    assert tree(here / "deploy") == before


def test_what_a_format_cannot_hold_changes_nothing_and_is_told_at_its_place(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    before = tree(here / "deploy")
    change(here, "writer", "deploy: {docker: {workspace: /usr}}\n")
    done = compile_in(here)
    assert (done.exit_code, "writer/agent.yaml:3:30" in done.output) == (1, True)
    assert tree(here / "deploy") == before


def limited(bytes_of_a_file: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, bytes_of_a_file))


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """A limit on the size of files fails as a full disk does, in the middle of writing."""
    here = project(tmp_path)
    compile_in(here)
    before = tree(here / "deploy")
    change(here)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "a2a_claude", "compile"],
        cwd=here,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        preexec_fn=limited(3000),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "cannot be written" in done.stderr) == (2, True), done.stderr
    assert tree(here / "deploy") == before


def test_a_compile_that_is_killed_leaves_whole_files_and_the_next_one_goes_on(tmp_path: Path) -> None:
    here = project(tmp_path, *(f"agent-{number}" for number in range(8)))
    assert compile_in(here).exit_code == 0
    started = time.monotonic()
    command = [sys.executable, "-m", "a2a_claude", "compile"]
    environ = {"PYTHONPATH": str(ROOT), "PATH": ""}
    change(here, "agent-0", "x-warm: 1\n")
    subprocess.run(command, cwd=here, env=environ, check=True, capture_output=True)
    whole = time.monotonic() - started
    chance = random.Random(1)  # noqa: S311 - no secret
    known: dict[str, set[str]] = {}

    def remember() -> None:
        for path, entry in manifest(here)["outputs"].items():
            known.setdefault(path, set()).add(entry["sha256"])

    remember()
    for turn in range(6):
        for number in range(8):
            change(here, f"agent-{number}", f"x-turn-{turn}: 1\n")
        running = subprocess.Popen(command, cwd=here, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * chance.uniform(0.5, 1.05))
        running.send_signal(signal.SIGKILL)
        running.wait()
        left = tree(here / "deploy")
        change(here, "agent-0", f"x-more-{turn}: 1\n")  # what was written half is not what comes next either
        done = compile_in(here)
        assert done.exit_code == 0, done.output
        remember()
        assert not [each for each in (here / "deploy").iterdir() if each.name.startswith(".")]
        for path, data in left.items():
            if not path.startswith(".staging-") and path.endswith("agent.json"):
                json.loads(data)  # whole
    assert compile_in(here, "--check").exit_code == 0


def test_files_of_a_killed_compile_are_no_hand_edits(tmp_path: Path) -> None:
    """The state in between, made by hand: some files are new already, the manifest is old, the staging is there."""
    here = project(tmp_path)
    compile_in(here)
    old = (here / "deploy" / "manifest.json").read_bytes()
    change(here)
    compile_in(here)
    staging = here / "deploy" / ".staging-x"
    staging.mkdir()
    shutil.copy(here / "deploy" / "manifest.json", staging / "manifest.json")
    (here / "deploy" / "manifest.json").write_bytes(old)
    change(here, text="x-again: 1\n")
    done = compile_in(here)
    assert done.exit_code == 0, done.output
    assert not staging.exists()
    assert compile_in(here, "--check").exit_code == 0


def test_compiles_at_the_same_time_take_turns(tmp_path: Path) -> None:
    names = [f"agent-{number}" for number in range(4)]
    here = project(tmp_path, *names)
    compile_in(here)
    for turn in range(2):
        for name in names:
            change(here, name, f"x-turn-{turn}: 1\n")
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "a2a_claude", "compile", "--agent", name],
                cwd=here,
                env={"PYTHONPATH": str(ROOT), "PATH": ""},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in names
        ]
        for each in running:
            assert (each.communicate()[1] or "").count("error") == 0
            assert each.returncode == 0
        assert manifest(here)["layers"].keys() == set(names)
        assert compile_in(here, "--check").exit_code == 0


# --- Stale, edited, gone ----------------------------------------------------------------------------------------------


def test_check_says_what_differs_and_changes_nothing(tmp_path: Path) -> None:
    here = project(tmp_path)
    fresh = compile_in(here, "--check")
    assert fresh.exit_code == 3
    assert not (here / "deploy").exists()
    compile_in(here)
    assert compile_in(here, "--check").exit_code == 0
    change(here)
    before = tree(here / "deploy")
    done = compile_in(here, "--check")
    assert done.exit_code == 3
    assert f"--- {here}/deploy/reviewer/agent.json\n+++ compiled/reviewer/agent.json\n" in done.output
    assert '+  "x-changed": 1' in done.output
    assert "reviewer/agent.json: stale" in done.output
    assert "deploy/writer" not in done.output
    assert tree(here / "deploy") == before


def test_check_sees_a_layer_that_changed_no_output(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    change(here, text="# a comment\n")
    done = compile_in(here, "--check")
    assert (done.exit_code, "manifest.json: stale" in done.output) == (3, True)
    assert compile_in(here).exit_code == 0
    assert compile_in(here, "--check").exit_code == 0


def test_a_diff_goes_by_line_feeds_alone(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    (here / "deploy" / "reviewer" / "agent.json").write_bytes(b"{\x0c}\r\nlast")
    done = compile_in(here, "--check")
    assert done.exit_code == 3
    assert b"-{\x0c}\r\n" in done.stdout_bytes
    assert b"-last\n\\ No newline at end of file\n" in done.stdout_bytes


def test_an_edited_file_is_never_overwritten_without_force(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    edited = here / "deploy" / "reviewer" / "Dockerfile"
    edited.write_text("FROM scratch\n", "utf-8")
    change(here)
    before = tree(here / "deploy")
    done = compile_in(here)
    assert (done.exit_code, "Dockerfile: edited by hand" in done.output) == (3, True)
    assert tree(here / "deploy") == before
    assert compile_in(here, "--check").exit_code == 3
    assert compile_in(here, "--force").exit_code == 0
    assert edited.read_text("utf-8") != "FROM scratch\n"
    assert compile_in(here, "--check").exit_code == 0


def test_a_file_that_no_compile_made_counts_as_edited(tmp_path: Path) -> None:
    here = project(tmp_path)
    place = here / "deploy" / "reviewer"
    place.mkdir(parents=True)
    (place / "Dockerfile").write_text("FROM scratch\n", "utf-8")
    assert compile_in(here).exit_code == 3
    assert not (here / "deploy" / "manifest.json").exists()


def test_files_of_a_removed_agent_are_listed_and_removed_with_prune(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    (here / "deploy" / "writer" / "own.txt").write_text("mine", "utf-8")
    shutil.rmtree(here / "agents" / "writer")
    done = compile_in(here)
    assert (done.exit_code, "writer/agent.json" in done.output) == (0, True)
    assert (here / "deploy" / "writer" / "agent.json").exists()
    assert compile_in(here, "--check").exit_code == 3
    assert compile_in(here, "--prune").exit_code == 0
    assert tree(here / "deploy" / "writer") == {"own.txt": b"mine"}
    assert manifest(here)["layers"].keys() == {"reviewer"}
    assert compile_in(here, "--check").exit_code == 0


def test_prune_spares_what_was_edited_unless_forced(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    edited = here / "deploy" / "writer" / "Dockerfile"
    edited.write_text("FROM scratch\n", "utf-8")
    shutil.rmtree(here / "agents" / "writer")
    done = compile_in(here, "--prune")
    assert (done.exit_code, "edited by hand, removed only with --force" in done.output) == (0, True)
    assert tree(here / "deploy" / "writer") == {"Dockerfile": b"FROM scratch\n"}
    assert compile_in(here, "--prune", "--force").exit_code == 0
    assert not edited.parent.exists()


def test_a_part_of_the_agents_or_targets_leaves_the_rest(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    before, record = tree(here / "deploy"), manifest(here)
    change(here, "reviewer")
    change(here, "writer")
    assert compile_in(here, "--agent", "reviewer", "--target", "config", "--prune").exit_code == 0
    after = tree(here / "deploy")
    assert {path for path in before | after if before.get(path) != after.get(path)} == {
        "manifest.json",
        "reviewer/agent.json",
    }
    assert manifest(here)["outputs"].keys() == record["outputs"].keys()
    assert manifest(here)["layers"]["writer"] == record["layers"]["writer"]
    assert compile_in(here, "--agent", "reviewer", "--target", "config", "--check").exit_code == 0
    assert compile_in(here, "--check").exit_code == 3
    assert compile_in(here).exit_code == 0
    assert compile_in(here, "--check").exit_code == 0


# --- A hostile output folder ------------------------------------------------------------------------------------------

ENTRY = {"sha256": "0" * 64, "target": "config"}
MANIFESTS: list[tuple[str, str]] = [
    ("no JSON", "{"),
    ("not UTF-8", "\udcff"),
    ("deep", "[" * 100_000),
    ("a list", "[]"),
    ("nothing in it", "{}"),
    ("outputs that are a list", '{"layers": {}, "outputs": []}'),
    ("layers that are a list", '{"layers": [], "outputs": {}}'),
    ("layers of text", '{"layers": {"reviewer": "x"}, "outputs": {}}'),
    ("a digest that is a number", '{"layers": {"reviewer": {"a": 1}}, "outputs": {}}'),
    ("an entry that is text", '{"layers": {}, "outputs": {"reviewer/a": "x"}}'),
    ("an entry without target", '{"layers": {}, "outputs": {"reviewer/a": {"sha256": "0"}}}'),
    ("a target that is a list", '{"layers": {}, "outputs": {"reviewer/a": {"sha256": "0", "target": []}}}'),
    *(
        (f"the path {path!r}", json.dumps({"layers": {}, "outputs": {path: ENTRY}}))
        for path in ("../victim", "reviewer/../../victim", "/etc/passwd", "victim", "", ".", "reviewer/", "reviewer//a")
    ),
    *(
        (f"the path {path!r}", json.dumps({"layers": {}, "outputs": {path: ENTRY}}))
        for path in ("manifest.json", "reviewer/./a", "reviewer/a\0b", "reviewer/a\nb", "Reviewer/a", ".git/config")
    ),
]


@pytest.mark.parametrize("text", [case[1] for case in MANIFESTS], ids=[case[0] for case in MANIFESTS])
def test_a_hostile_manifest_is_refused(text: str, tmp_path: Path) -> None:
    here = project(tmp_path)
    (here / "deploy" / "reviewer").mkdir(parents=True)
    (here / "victim").write_text("mine", "utf-8")
    (here / "deploy" / "victim").write_text("mine", "utf-8")
    (here / "deploy" / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    before = tree(here)
    done = compile_in(here, "--prune", "--force")
    assert (done.exit_code, "is not a manifest" in done.output) == (2, True)
    assert tree(here) == before


def test_a_manifest_cannot_have_files_of_others_removed(tmp_path: Path) -> None:
    here = project(tmp_path)
    (here / "deploy" / "reviewer").mkdir(parents=True)
    (here / "deploy" / "reviewer" / "notes.txt").write_text("mine", "utf-8")
    record = {"layers": {}, "outputs": {"reviewer/notes.txt": ENTRY}}
    (here / "deploy" / "manifest.json").write_text(json.dumps(record), "utf-8")
    assert compile_in(here, "--prune").exit_code == 0
    assert (here / "deploy" / "reviewer" / "notes.txt").read_text("utf-8") == "mine"


PLANTED: list[tuple[str, str, Callable[[Path], object]]] = [
    ("the folder is a file", "deploy", Path.touch),
    ("an agent's folder is a file", "deploy/reviewer", Path.touch),
    ("an agent's folder is a link out", "deploy/reviewer", lambda path: path.symlink_to("../victims")),
    ("an agent's folder is a link within", "deploy/reviewer", lambda path: path.symlink_to("writer")),
    ("a file is a link out", "deploy/reviewer/Dockerfile", lambda path: path.symlink_to("../../victims/a")),
    ("a file is a link to a device", "deploy/reviewer/Dockerfile", lambda path: path.symlink_to("/dev/zero")),
    ("a file is a link to itself", "deploy/reviewer/Dockerfile", lambda path: path.symlink_to("Dockerfile")),
    ("a file is a pipe", "deploy/reviewer/Dockerfile", os.mkfifo),
    ("a file is a folder", "deploy/reviewer/Dockerfile", Path.mkdir),
    ("the manifest is a link out", "deploy/manifest.json", lambda path: path.symlink_to("../victims/a")),
    ("the manifest is a pipe", "deploy/manifest.json", os.mkfifo),
]


@pytest.mark.parametrize(("name", "plant"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED])
def test_a_planted_thing_is_told_and_nothing_is_written_through_it(
    name: str, plant: Callable[[Path], object], tmp_path: Path
) -> None:
    here = project(tmp_path)
    (here / "victims").mkdir()
    (here / "victims" / "a").write_text("mine", "utf-8")
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    plant(here / name)
    done = compile_in(here, "--force", "--prune")
    assert done.exit_code == 2, done.output
    assert "hint:" in done.output
    assert tree(here / "victims") == {"a": b"mine"}


@pytest.mark.parametrize("output", ["agents", "./agents/", "deploy/../agents", "link"])
def test_the_agents_folder_is_no_output_folder(output: str, tmp_path: Path) -> None:
    """Not by force either: a rendered agent.json would be a second config, or replace the only one."""
    here = project(tmp_path)
    (here / "agents" / "writer" / "agent.yaml").unlink()
    (here / "agents" / "writer" / "agent.json").write_text('{"server": {"port": 3032}}', "utf-8")
    (here / "link").symlink_to(here / "agents")
    before = tree(here / "agents")
    done = CliRunner().invoke(main, ["compile", str(here / "agents"), "-o", str(here / output), "--force"])
    assert (done.exit_code, tree(here / "agents")) == (2, before)
    assert "is the agents folder itself" in done.output


def test_an_output_folder_by_a_link_is_the_folder(tmp_path: Path) -> None:
    here = project(tmp_path)
    (here / "elsewhere").mkdir()
    (here / "deploy").symlink_to("elsewhere")
    assert compile_in(here).exit_code == 0
    assert (here / "elsewhere" / "reviewer" / "agent.json").exists()
    assert compile_in(here, "--check").exit_code == 0


def test_what_is_shipped_is_compiled_byte_by_byte(tmp_path: Path) -> None:
    here = project(tmp_path)
    data = bytes(range(256)) * (MAX_BYTES // 512)
    (here / "agents" / "reviewer" / "notes.md").write_bytes(data)
    change(here, text="memory: {instructions: notes.md}\nclaude: {settingSources: [project]}\n")
    assert compile_in(here).exit_code == 0
    assert (here / "deploy" / "reviewer" / "memory" / "notes.md").read_bytes() == data


# --- What all agents have together ------------------------------------------------------------------------------------


def test_files_of_all_agents_are_at_the_top_and_belong_to_a_compile_of_all(tmp_path: Path) -> None:
    here = project(tmp_path)
    done = compile_in(here, "--agent", "reviewer")
    assert (done.exit_code, "compile without --agent" in done.output) == (0, True)
    assert not (here / "deploy" / "compose.yaml").exists()
    assert compile_in(here, "--check").exit_code == 3
    done = compile_in(here)
    assert f"{here}/deploy: compose.yaml, kustomization.yaml\n" in done.output
    assert manifest(here)["outputs"]["compose.yaml"]["target"] == "compose"
    before = (here / "deploy" / "compose.yaml").read_bytes()
    shutil.rmtree(here / "agents" / "writer")
    assert compile_in(here, "--prune").exit_code == 0
    after = (here / "deploy" / "compose.yaml").read_bytes()
    assert (b"writer" in before, b"writer" in after) == (True, False)


def test_files_of_all_agents_go_with_their_target(tmp_path: Path) -> None:
    here = project(tmp_path)
    assert compile_in(here, "--target", "config").exit_code == 0
    assert {each.name for each in (here / "deploy").iterdir()} == {"manifest.json", "reviewer", "writer"}
    assert compile_in(here, "--target", "compose", "--target", "kubernetes").exit_code == 0
    assert {each.name for each in (here / "deploy").iterdir() if each.is_file()} == {
        *("manifest.json", "compose.yaml", "kustomization.yaml")
    }


def test_an_edited_file_of_all_agents_is_not_overwritten(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    edited = here / "deploy" / "compose.yaml"
    edited.write_text("services: {}\n", "utf-8")
    assert compile_in(here).exit_code == 3
    assert edited.read_text("utf-8") == "services: {}\n"


# --- Containers without authentication --------------------------------------------------------------------------------


def test_an_agent_that_starts_in_no_container_is_told(tmp_path: Path) -> None:
    here = project(tmp_path)
    assert "reviewer/agent.yaml" in compile_in(here).output
    assert "note[A2C702]" in compile_in(here).output
    assert "A2C702" not in compile_in(here, "--target", "systemd", "--target", "nix").output
    for target in ("docker", "compose", "quadlet", "kubernetes"):
        assert "warning[A2C702]" in compile_in(here, "--target", target).output
        assert compile_in(here, "--target", target, "--strict").exit_code == 1
    for auth in ("server.auth.allowUnauthenticated=true", "server.auth.bearer={tokensVariable: CALLER_TOKENS}"):
        told = compile_in(here, "--target", "docker", "--set", auth)
        assert (told.exit_code, "A2C702" in told.output) == (0, False)


# --- A diff -----------------------------------------------------------------------------------------------------------


def test_a_diff_is_a_patch_and_nothing_else(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    same = compile_in(here, "--diff")
    assert (same.exit_code, same.stdout) == (0, "")
    change(here)
    before = tree(here / "deploy")
    done = compile_in(here, "--diff")
    assert done.exit_code == 3
    assert tree(here / "deploy") == before
    assert "manifest.json" not in done.stdout
    assert {line[:1] for line in done.stdout.splitlines()} == {"-", "+", "@", " "}
    patch = require("patch", "apt-get install patch")
    subprocess.run([patch, "-p1", "-d", "/"], input=done.stdout.encode(), check=True, capture_output=True)
    assert "0 files changed" in compile_in(here).output


def test_a_diff_has_colours_on_a_terminal_and_cannot_steer_it(tmp_path: Path) -> None:
    here = project(tmp_path)
    compile_in(here)
    (here / "deploy" / "reviewer" / "Dockerfile").write_bytes(b"FROM \x1b]0;x\x07scratch\n")
    seen = on_terminal(here, "compile", "--diff")
    assert b"\x1b[31m-FROM \xef\xbf\xbd]0;x\xef\xbf\xbdscratch\x1b[0m" in seen
    assert b"\x1b[32m+" in seen
    plain = on_terminal(here, "compile", "--diff", NO_COLOR="1")
    assert (b"-FROM" in plain, b"\x1b" in plain) == (True, False)


def on_terminal(folder: Path, *arguments: str, **environ: str) -> bytes:
    """What a command prints where it has a terminal for its output."""
    terminal, end = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "a2a_claude", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "TERM": "xterm", **environ},
        stdout=end,
        stderr=subprocess.DEVNULL,
    )
    os.close(end)
    seen = b""
    with suppress(OSError):  # the terminal is gone with who wrote to it
        while data := os.read(terminal, 65536):
            seen += data
    os.close(terminal)
    running.wait()
    return seen
