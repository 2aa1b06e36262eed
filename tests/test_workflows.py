"""The workflows in .github: their schema, their shell scripts, and what those do when they are run."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from a2a_claude import __version__
from tests.tools import absent, require

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")  # as runners start it


def read(name: str) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))
    return document


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in read(name)["jobs"].values() for step in job.get("steps", [])]


def scripts() -> list[tuple[str, str]]:
    return [(each.name, step["run"]) for each in WORKFLOWS for step in steps(each.name) if "run" in step]


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
        ("vendor.dependabot", [ROOT / ".github" / "dependabot.yml"]),
    ],
)
def test_githubs_schemas_accept_every_file(schema: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda each: each.name)
def test_actions_are_pinned_to_a_commit_whose_version_is_told(workflow: Path) -> None:
    uses = re.findall(r"uses: (.+)", workflow.read_text("utf-8"))
    pinned = r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    # Code scanning refuses old versions of its own action.
    followed = r"github/codeql-action/upload-sarif@v\d+"
    assert [each for each in uses if not re.fullmatch(rf"{pinned}|{followed}|\./\S+", each)] == []


# What the token of each job may do; anything else is nothing. Read: the checkout.
PERMISSIONS: dict[tuple[str, str], dict[str, str] | None] = {
    ("ci.yml", "all"): {"contents": "read"},
    ("release.yml", "ci"): {"contents": "read"},
    ("release.yml", "build"): {"contents": "read"},
    ("release.yml", "pypi"): {"id-token": "write"},
    ("release.yml", "image"): {
        "contents": "read",
        "packages": "write",
        "id-token": "write",
        "attestations": "write",
    },
    ("validate.yml", "validate"): None,  # the caller's
}


def test_each_job_has_the_permissions_of_the_table() -> None:
    found = {
        (each.name, name): job.get("permissions", read(each.name).get("permissions"))
        for each in WORKFLOWS
        for name, job in read(each.name)["jobs"].items()
    }
    assert found == PERMISSIONS


def zizmor(*arguments: Path | str) -> subprocess.CompletedProcess[str]:
    """zizmor reads workflows for what lets others in: injected texts, tokens that stay, actions that move."""
    program = require("zizmor", "pip install zizmor")
    command: list[Path | str] = [
        program,
        "--offline",
        "--no-progress",
        "--config",
        ROOT / ".github" / "zizmor.yml",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_zizmor_finds_nothing() -> None:
    done = zizmor("--collect", "all", "--strict-collection", ROOT / ".github")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"completed {each}" in done.stderr for each in WORKFLOWS)


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ('"$PACKAGE"', "${{ inputs.package }}", "template-injection"),
        ("          persist-credentials: false\n", "          clean: true\n", "artipacked"),
        ("@a26af69be951a213d495a4c3e4e4022e16d87065 # v5.6.0", "@v5", "unpinned-uses"),
    ],
)
def test_zizmor_would_find_it(old: str, new: str, finding: str, tmp_path: Path) -> None:
    text = (ROOT / ".github" / "workflows" / "validate.yml").read_text("utf-8")
    assert old in text
    (tmp_path / "changed.yml").write_text(text.replace(old, new), "utf-8")
    assert finding in zizmor(tmp_path / "changed.yml").stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda each: each.name)
def test_expressions_name_what_there_is(workflow: Path) -> None:
    """What is misspelt in an expression is an empty text, and no error."""
    document = read(workflow.name)
    inputs = (document[True].get("workflow_call") or {}).get("inputs", {})
    for name, job in document["jobs"].items():
        ids = [each["id"] for each in job.get("steps", []) if "id" in each]
        needed = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
        outputs = {(each, output) for each in needed for output in document["jobs"][each].get("outputs", {})}
        text = json.dumps(job)
        assert set(re.findall(r"\bsteps\.([\w-]+)\.", text)) <= set(ids), name
        assert set(re.findall(r"\bneeds\.([\w-]+)\.outputs\.([\w-]+)", text)) <= outputs, name
        assert set(re.findall(r"\binputs\.([\w-]+)", text)) <= inputs.keys(), name
        for step, output in re.findall(r"\bsteps\.([\w-]+)\.outputs\.([\w-]+)", text):
            [found] = [each for each in job["steps"] if each.get("id") == step]
            assert "uses" in found or f'echo "{output}=' in found["run"], (name, step)


@pytest.mark.parametrize(("workflow", "script"), scripts())
def test_scripts_have_no_finding_and_no_text_of_others(workflow: str, script: str) -> None:
    assert "${{" not in script  # what an expression becomes would be run: values come by variables
    shellcheck = require("shellcheck", "apt-get install shellcheck")
    done = subprocess.run([shellcheck, "--shell=bash", "-"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with an agent, and `a2a-claude`, `python` and `git` on PATH; pip installs nothing."""
    folder = tmp_path / "repository"
    (folder / "agents" / "clerk").mkdir(parents=True)
    (folder / "agents" / "clerk" / "agent.yaml").write_text("server: {port: 3055}\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "a2a-claude").write_text(f'#!/bin/sh\nexec {sys.executable} -m a2a_claude "$@"\n')
    (programs / "python").write_text(f'#!/bin/sh\ntest "$2" = pip || exec {sys.executable} "$@"\n')
    for each in programs.iterdir():
        each.chmod(0o755)
    return folder


def run(script: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder.parent / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        [*BASH, "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "RUNNER_TEMP": str(folder.parent), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


# --- For users --------------------------------------------------------------------------------------------------------


def validated(folder: Path, **inputs: str) -> dict[str, subprocess.CompletedProcess[str]]:
    """What the steps of validate.yml do that run something, whatever the ones before them did."""
    declared = read("validate.yml")[True]["workflow_call"]["inputs"]
    values = {name: str(inputs.get(name.replace("-", "_"), each["default"])) for name, each in declared.items()}
    environ = {
        name: values[expression.removeprefix("${{ inputs.").removesuffix(" }}")].replace("True", "true")
        for name, expression in read("validate.yml")["jobs"]["validate"]["env"].items()
    }
    return {step["name"]: run(step["run"], folder, **environ) for step in steps("validate.yml") if "run" in step}


def test_a_repository_whose_agents_are_valid_and_compiled_passes(repository: Path) -> None:
    assert run("a2a-claude compile", repository).returncode == 0
    done = validated(repository)
    assert {name: each.returncode for name, each in done.items()} == dict.fromkeys(done, 0)
    assert '"2.1.0"' in (repository.parent / "agents.sarif").read_text()


def test_what_is_wrong_annotates_its_line_and_what_is_stale_is_shown(repository: Path) -> None:
    (repository / "agents" / "clerk" / "agent.yaml").write_text("server:\n  port: 70000\n")
    done = validated(repository, strict="True")
    assert done["Validate"].returncode == 1
    assert "::error file=agents/clerk/agent.yaml,line=2,col=9" in done["Validate"].stdout
    assert done["Write SARIF"].returncode == 0
    (repository / "agents" / "clerk" / "agent.yaml").write_text("server:\n  port: 3056\n")
    assert validated(repository)["Compare the compiled folder"].returncode == 3


def test_the_profile_and_the_folders_are_the_callers(repository: Path) -> None:
    (repository / "agents").rename(repository / "our agents")
    (repository / "our agents" / "defaults.prod.yaml").write_text("server: {prot: 1}\n")
    assert validated(repository, agents="our agents")["Validate"].returncode == 0
    done = validated(repository, agents="our agents", profile="prod")
    assert "defaults.prod.yaml" in done["Validate"].stdout


# --- Releases ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A git repository with two commits and a version."""
    folder = tmp_path / "project"
    (folder / "a2a_claude").mkdir(parents=True)
    (folder / "a2a_claude" / "__init__.py").write_text('"""a"""\n\n__version__ = "1.2.3"\n')
    git(folder, "init", "--quiet")
    for _ in range(2):
        commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = [require("git", "apt-get install git"), *identity, *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=a")


def release_version(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / ".ci" / "release-version"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a_tag_is_the_version_and_other_commits_are_canaries_of_the_next(history: Path) -> None:
    assert release_version(history) == (0, "1.2.3.dev2")
    git(history, "tag", "v1.2.3")
    git(history, "tag", "nightly")
    assert release_version(history) == (0, "1.2.3")
    commit(history)
    assert release_version(history) == (0, "1.2.4.dev3")


def test_a_version_that_does_not_fit_is_refused(history: Path) -> None:
    git(history, "tag", "v2.0.0")
    assert release_version(history) == (1, "release-version: a2a_claude/__init__.py says 1.2.3, and the tag v2.0.0")
    shallow = history.parent / "shallow"
    git(history, "clone", "--quiet", "--depth=1", f"file://{history}", str(shallow))
    code, said = release_version(shallow)
    assert (code, "fetch-depth: 0" in said) == (1, True)
    (history / "a2a_claude" / "__init__.py").write_text('__version__ = "1.2"\n')
    code, said = release_version(history)
    assert (code, "has no line" in said) == (1, True)
    assert release_version(history, "--wirte")[0] == 2


def test_the_version_is_written_where_the_package_takes_it_from(history: Path) -> None:
    assert release_version(history, "--write") == (0, "1.2.3.dev2")
    assert (history / "a2a_claude" / "__init__.py").read_text() == '"""a"""\n\n__version__ = "1.2.3.dev2"\n'


def clone(folder: Path) -> Path:
    """This checkout as a release has it: what is committed, with all of its history."""
    if not (ROOT / ".git").exists():
        absent("a git checkout", "releases are made from one")
    git(folder, "clone", "--quiet", f"file://{ROOT}", str(folder / "project"))
    return folder / "project"


def metadata(sdist: Path, wheel: Path) -> list[Message]:
    with tarfile.open(sdist) as archive:
        [name] = [each for each in archive.getnames() if re.fullmatch("[^/]+/PKG-INFO", each)]
        texts = [(archive.extractfile(name) or io.BytesIO()).read()]
    with zipfile.ZipFile(wheel) as opened:
        [name] = [each for each in opened.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each)]
        texts.append(opened.read(name))
    return [Parser().parsestr(text.decode()) for text in texts]


def test_every_merge_is_released_as_a_canary_and_every_tag_of_a_version_as_stable() -> None:
    assert read("release.yml")[True] == {"push": {"branches": ["main"], "tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}
    jobs = read("release.yml")["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "ci": None,
        "build": "ci",
        "pypi": "build",
        "image": "build",
    }
    assert [name for name, job in jobs.items() if "if" in job] == []  # one way for both
    assert jobs["ci"]["uses"] == "./.github/workflows/ci.yml"


def using(job: str, action: str) -> dict[str, Any]:
    """The one step of a job of release.yml that uses an action."""
    every: list[dict[str, Any]] = read("release.yml")["jobs"][job]["steps"]
    [found] = [each for each in every if each.get("uses", "").rpartition("@")[0] == action]
    return found


def test_what_is_released_is_attested() -> None:
    jobs = read("release.yml")["jobs"]
    # Attestations are made by default, but only with trusted publishing, and that only where there is no password.
    assert "with" not in using("pypi", "pypa/gh-action-pypi-publish")
    assert jobs["pypi"]["environment"] == "pypi"
    pushed = using("image", "docker/build-push-action")
    assert pushed["with"].items() >= {"push": True, "provenance": "mode=max", "sbom": True}.items()
    attested = using("image", "actions/attest-build-provenance")
    assert attested["with"] == {
        "subject-name": "${{ steps.names.outputs.image }}",
        "subject-digest": f"${{{{ steps.{pushed['id']}.outputs.digest }}}}",
        "push-to-registry": True,
    }
    assert jobs["image"]["steps"].index(pushed) < jobs["image"]["steps"].index(attested)
    # What is published is what was built and tried, by one name.
    names = {using(job, "actions/download-artifact")["with"]["name"] for job in ("pypi", "image")}
    assert names == {using("build", "actions/upload-artifact")["with"]["name"]}


def test_a_tag_changes_no_file(tmp_path: Path) -> None:
    project = clone(tmp_path)
    for tag in subprocess.check_output(["git", "tag", "--points-at", "HEAD"], cwd=project, text=True).split():
        git(project, "tag", "--delete", tag)
    git(project, "tag", f"v{__version__}")
    assert release_version(project, "--write") == (0, __version__)
    git(project, "diff", "--exit-code")


def test_a_canary_is_built_and_its_image_has_that_wheel(repository: Path, tmp_path: Path) -> None:
    project = clone(tmp_path)
    code, version = release_version(project, "--write")
    assert code == 0, version
    built = run("python -m build --installer uv", project)
    assert built.returncode == 0, built.stdout + built.stderr
    sdist, wheel = sorted((project / "dist").iterdir(), key=lambda each: each.suffix)
    assert sdist.name == f"a2a_claude-{version}.tar.gz"
    assert wheel.name == f"a2a_claude-{version}-py3-none-any.whl"
    assert Version(version).is_devrelease  # pip takes it only with --pre
    assert Version(version).release >= Version(__version__).release
    assert [each["Version"] for each in metadata(sdist, wheel)] == [version, version]
    checked = run("python -m twine check --strict dist/*", project)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    [files] = [
        each["run"] for each in steps("release.yml") if each.get("name", "").startswith("The files of the image")
    ]
    done = run(files, project, PYTHONPATH=str(project))
    assert done.returncode == 0, done.stderr
    assert (project / "deploy" / "example" / wheel.name).is_file()
    assert wheel.name in (project / "deploy" / "example" / "Dockerfile").read_text()
