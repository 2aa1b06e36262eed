"""The compiler works from a wheel, an editable installation and a plain checkout, and brings nothing of the runtime."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tests.tools import absent, require

ROOT = Path(__file__).parent.parent
SAMPLE = {
    "agents/defaults.yaml": "claude:\n  workingDirectory: ${WORKSPACE_DIR}\n",
    "agents/base.yaml": "agentCard:\n  description: Looks things up.\n",
    "agents/clerk/agent.yaml": (
        "extends: [../base.yaml]\n"
        "agentCard:\n  name: Clerk\n"
        "server:\n  port: 3055\n"
        'claude:\n  systemPromptAppend: "100 % of $HOME, \\"quoted\\""\n'
    ),
}
RUNTIME = {"a2a-sdk", "claude-agent-sdk", "falcon", "granian"}
MEGABYTE = 1024 * 1024


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """The standard output of a command that must succeed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env={**{key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def data_files() -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for folder in ("schema", "templates")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this checkout and the wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


def new_venv(folder: Path, *install: str | Path) -> Path:
    """An empty environment with `install` in it; its bin folder."""
    uv = require("uv", "pip install uv")
    run(uv, "venv", "--python", sys.executable, folder)
    run(uv, "pip", "install", "--python", folder / "bin" / "python", *install)
    return folder / "bin"


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_venv(tmp_path_factory.mktemp("wheel") / "venv", wheel)


@pytest.fixture(scope="session")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_venv(tmp_path_factory.mktemp("editable") / "venv", "--editable", ROOT)


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_the_package_its_schema_and_its_templates(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "a2a_claude").rglob("*.py")}
    assert modules | {"a2a_claude/py.typed"} <= names
    assert {f"a2a_claude/{name}" for name in data_files()} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names} == {"a2a_claude", wheel.name.split("-py3")[0] + ".dist-info"}


def test_the_sdist_holds_what_a_packager_builds_and_tests_with(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}
    tests = {str(test.relative_to(ROOT)) for test in (ROOT / "tests").glob("*.py")}
    assert data_files() | tests | {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"} <= names


def test_only_the_extra_asks_for_the_runtime(wheel: Path) -> None:
    asked: dict[bool, set[str]] = {False: set(), True: set()}
    for requirement in metadata(wheel).get_all("Requires-Dist", []):
        asked["extra ==" in requirement].add(re.split(r"[^a-z0-9-]", requirement)[0])
    assert asked[False] >= {"click", "jinja2", "jsonschema", "pyyaml"}
    assert asked[False].isdisjoint(RUNTIME)
    assert asked[True] >= RUNTIME


def test_an_installation_is_a_few_megabytes_and_has_no_runtime(installed: Path) -> None:
    site = run(installed / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    size = sum(path.stat().st_size for path in Path(site).rglob("*") if path.is_file())
    packages = {path.name.split("-")[0].replace("_", "-") for path in Path(site).glob("*.dist-info")}
    assert "a2a-claude" in packages
    assert packages.isdisjoint(RUNTIME)
    assert size < 16 * MEGABYTE


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    for name, text in SAMPLE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_wheel_editable_and_checkout_compile_to_the_same_bytes(sample: Path, installed: Path, editable: Path) -> None:
    ways: dict[str, tuple[list[str | Path], dict[str, str]]] = {
        "wheel": ([installed / "a2a-claude"], {}),
        "editable": ([editable / "a2a-claude"], {}),
        "editable module": ([editable / "python", "-m", "a2a_claude"], {}),
        "checkout": ([sys.executable, "-m", "a2a_claude"], {"PYTHONPATH": str(ROOT)}),
    }
    for name, (command, environment) in ways.items():
        run(*command, "compile", "agents/", "-o", sample / name, cwd=sample, **environment)
    wanted = tree(sample / "wheel")
    assert {"manifest.json", "clerk/agent.json", "clerk/Dockerfile", "clerk/module.nix"} <= wanted.keys()
    for name in ways:
        assert tree(sample / name) == wanted, name


def test_an_installed_schema_is_the_checkouts(installed: Path, tmp_path: Path) -> None:
    for arguments, file in (
        (["schema"], "agent.schema.json"),
        (["schema", "--draft", "7"], "agent.draft-07.schema.json"),
    ):
        printed = run(installed / "a2a-claude", *arguments, cwd=tmp_path)
        assert printed.rstrip("\n") == (ROOT / "schema" / file).read_text(encoding="utf-8").rstrip("\n")


# --- ./dev ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what git tracks here, changes included."""
    git = require("git", "apt-get install git")
    if not (ROOT / ".git").exists():
        absent("a git checkout", "./dev is for checkouts")
    folder = tmp_path / "checkout"
    for name in run(git, "ls-files", "-z").rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def programs(folder: Path, *names: str) -> str:
    """A PATH with the system's own programs and, of the others, only those named."""
    folder.mkdir()
    (folder / "python3").symlink_to(sys._base_executable)  # type: ignore[attr-defined]
    for name in names:
        (folder / name).symlink_to(require(name, f"pip install {name}"))
    return f"{folder}:/usr/bin:/bin"


def require_ensurepip() -> None:
    if subprocess.run([sys._base_executable, "-c", "import ensurepip"], check=False).returncode:  # type: ignore[attr-defined]
        absent("ensurepip", "apt-get install python3-venv")


@pytest.mark.parametrize("present", [("uv",), ()], ids=["with uv", "with Python alone"])
def test_dev_sets_up_a_checkout_and_compiles(checkout: Path, tmp_path: Path, present: tuple[str, ...]) -> None:
    if not present:
        require_ensurepip()
    path = programs(tmp_path / "bin", *present)
    run("./dev", "a2a-claude", "compile", "agents/", "-o", tmp_path / "first", cwd=checkout, PATH=path)
    stamp = (checkout / ".venv" / ".synced-compiler").stat()
    run(checkout / "dev", "a2a-claude", "compile", checkout / "agents", "-o", "second", cwd=tmp_path, PATH=path)
    assert "example/agent.json" in tree(tmp_path / "first")
    assert tree(tmp_path / "first").keys() == tree(tmp_path / "second").keys()
    assert (checkout / ".venv" / ".synced-compiler").stat().st_mtime_ns == stamp.st_mtime_ns
    assert not list(checkout.glob(".venv/lib/*/site-packages/granian"))


def refused(checkout: Path, **environment: str) -> str:
    """What ./dev says when it cannot set up the checkout."""
    command = [str(checkout / "dev"), "a2a-claude", "validate"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_dev_names_a_python_that_is_too_old(checkout: Path, tmp_path: Path) -> None:
    path = programs(tmp_path / "bin")
    (tmp_path / "bin" / "python3").unlink()
    # It runs what it is given, and says that it is 3.10.
    (tmp_path / "bin" / "python3").write_text(
        f"""#!/bin/sh
if [ "$1" = --version ]; then echo Python 3.10.12; exit; fi
exec {sys.executable} -c "import sys; sys.version_info = (3, 10, 12); exec(sys.argv[1])" "$2"
"""
    )
    for minor in range(11, 15):
        (tmp_path / "bin" / f"python3.{minor}").write_text("#!/bin/sh\nexit 1\n")
    for each in (tmp_path / "bin").iterdir():
        each.chmod(0o755)
    assert "dev: Python 3.10.12 is older than 3.11. Install a newer Python" in refused(checkout, PATH=path)


def test_dev_without_a_package_index_says_how_one_is_reached(checkout: Path, tmp_path: Path) -> None:
    require_ensurepip()
    nowhere = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    told = refused(checkout, PATH=programs(tmp_path / "bin"), **nowhere)
    assert "dev: uv could not be installed: is the package index reached? A proxy: HTTPS_PROXY" in told
