"""The flake, run for real by Nix 2.8 and 2.26 with the small stub of nixpkgs: no network, no binary cache."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.nix.flake import Flake
from tests.nix.installation import HERE, PROJECT, Nix, nix_of

SYSTEMS = ["aarch64-linux", "x86_64-linux"]


@pytest.fixture(scope="module", params=["machine", "trixie"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Nix:
    return nix_of(request.param, tmp_path_factory.mktemp("nix"))


@pytest.fixture
def flake(installed: Nix, tmp_path: Path) -> Flake:
    return Flake(installed, tmp_path)


def test_the_lock_pins_what_the_flake_asks_for(installed: Nix, flake: Flake) -> None:
    done = installed.run("nix", "flake", "metadata", "--json", "--no-update-lock-file", cwd=flake.project)
    assert done.returncode == 0, done.stderr
    pinned = json.loads(done.stdout)["locks"]["nodes"]["nixpkgs"]
    assert pinned["original"]["ref"] in (flake.project / "flake.nix").read_text()
    assert re.fullmatch("[0-9a-f]{40}", pinned["locked"]["rev"])
    algorithm, _, digest = pinned["locked"]["narHash"].partition("-")
    assert (algorithm, len(base64.b64decode(digest, validate=True))) == ("sha256", 32)


def test_every_output_is_there_for_both_systems(flake: Flake) -> None:
    done = flake.run("flake", "show", "--json", "--all-systems")
    if "unrecognised flag" in done.stderr:
        done = flake.run("flake", "show", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    agents = sorted(each.parent.name for each in (PROJECT / "agents").glob("*/agent.yaml"))
    for system in SYSTEMS:
        assert sorted(shown["apps"][system]) == agents
        assert sorted(shown["packages"][system]) == ["a2a-claude", "default", *(f"image-{each}" for each in agents)]
        named = [*(f"agent-{each}" for each in agents), "module", "package", "vm"]
        assert sorted(shown["checks"][system]) == named
        assert list(shown["devShells"][system]) == ["default"]
        assert shown["formatter"][system]["type"] == "derivation"
    assert shown["nixosModules"]["default"]["type"] == "nixos-module"
    assert shown["overlays"]["default"]["type"] == "nixpkgs-overlay"


def test_the_checks_pass(flake: Flake) -> None:
    done = flake.run("flake", "check")
    assert done.returncode == 0, done.stderr


def test_an_app_compiles_its_agent_and_serves_it(flake: Flake) -> None:
    flake.run("run", ".#reviewer", passed=("--help", "two words"))
    *_, compiled, served = (each.split("|")[:-1] for each in flake.calls.read_text().splitlines())
    assert compiled[:-2] == ["-m", "a2a_claude", "compile", "agents", "--agent", "reviewer", "--target", "config"]
    assert served[:3] == ["-m", "a2a_claude", "serve"]
    file, *arguments = served[3:]
    assert arguments == ["--help", "two words"]
    assert file.startswith(str(flake.nix.folder / "store"))
    assert file.endswith("/reviewer/agent.json")
    assert json.loads(Path(file).read_text())["server"]["port"] == 3031


def test_the_package_runs(flake: Flake) -> None:
    done = flake.run("run", ".", passed=("validate", str(PROJECT / "agents")))
    assert done.returncode == 0, done.stderr


def test_a_folder_is_an_agent_when_it_holds_a_config_that_git_knows(flake: Flake) -> None:
    for name in ["second", "_layer", ".hidden", "Up", "third", "legacy"]:
        (flake.project / "agents" / name).mkdir()
    for path in [
        "second/agent.yml",
        "_layer/agent.yaml",
        ".hidden/agent.yaml",
        "Up/agent.yaml",
        "legacy/config.json",
    ]:
        (flake.project / "agents" / path).write_text('{"server": {"port": 4000}}')
    (flake.project / "agents/third/notes.md").write_text("no config")
    assert flake.apps() == ["example", "reviewer"]
    flake.track()
    assert flake.apps() == ["example", "legacy", "reviewer", "second"]


def test_an_invalid_agent_fails_with_its_diagnostics(flake: Flake) -> None:
    (flake.project / "agents/reviewer/agent.yaml").write_text("server:\n  prot: 3031\n")
    done = flake.run("run", ".#reviewer")
    assert done.returncode != 0
    assert "agents/reviewer/agent.yaml:2:3" in done.stderr
    assert "serve" not in flake.calls.read_text()


def test_claude_code_is_the_one_unfree_package_let_in(flake: Flake) -> None:
    expression = f"""
        let
          stub = import {flake.stub};
          package = config: (stub {{
            system = "x86_64-linux";
            overlays = [ (final: _: {{ a2a-claude = final.callPackage {PROJECT}/nix/package.nix {{ }}; }}) ];
            inherit config;
          }}).a2a-claude.drvPath;
        in
    """
    allowed = '{ allowUnfreePredicate = each: each.pname == "claude-code"; }'
    assert flake.nix.evaluate(f"{expression} package {allowed}").endswith("-a2a-claude.drv")
    said = flake.nix.refusal(f"{expression} package {{ }}")
    assert "allowUnfreePredicate" in said
    assert "claude.executablePathOverride" in said


PYTHON = """
    let
      lib = import LIB;
      old = { version = "0.1"; meta = { }; };
      locked = import NIX/locked.nix {
        inherit lib;
        autoPatchelfHook = null;
        fetchurl = file: file;
        stdenv = { hostPlatform.parsed.cpu.name = "CPU"; cc.cc = null; };
        python3Packages = lib.genAttrs [
          "anyio" "click" "google-api-core" "googleapis-common-protos" "hatchling" "httpx" "json-rpc" "jsonschema"
          "mcp" "packaging" "protobuf" "pydantic" "sniffio"
        ] (_: null) // {
          a2a-sdk = old;
          claude-agent-sdk = old;
          falcon = { version = "99.0"; name = "nixpkgs' own"; };
          granian = old;
          python.pythonVersion = "3.13";
          buildPythonPackage = each: each;
        };
      };
    in
    { own = locked.falcon.name; }
    // lib.genAttrs [ "a2a-sdk" "claude-agent-sdk" "granian" ] (
      name: locked.${name}.src // { inherit (locked.${name}) version; }
    )
"""


@pytest.mark.parametrize("cpu", ["x86_64", "aarch64"])
def test_packages_that_nixpkgs_has_too_old_come_from_uv_lock(installed: Nix, cpu: str) -> None:
    expression = PYTHON.replace("LIB", f"{HERE}/stub/lib.nix").replace("NIX", f"{PROJECT}/nix").replace("CPU", cpu)
    found = installed.evaluate(expression)
    assert found.pop("own") == "nixpkgs' own"
    lock = (PROJECT / "uv.lock").read_text()
    for name, source in found.items():
        assert f'name = "{name}"\nversion = "{source["version"]}"' in lock
        assert f'url = "{source["url"]}", hash = "sha256:{source["sha256"]}"' in lock
    assert found["a2a-sdk"]["url"].endswith("-py3-none-any.whl")
    assert found["claude-agent-sdk"]["url"].endswith(".tar.gz")
    assert re.search(rf"-cp313-cp313-manylinux[^/]*_{cpu}\.whl$", found["granian"]["url"])


def test_every_file_parses(installed: Nix) -> None:
    files = [PROJECT / "flake.nix", *PROJECT.glob("nix/**/*.nix"), *HERE.rglob("*.nix")]
    done = installed.run("nix-instantiate", "--parse", *map(str, files))
    assert done.returncode == 0, done.stderr


def test_the_package_depends_on_what_the_project_depends_on() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["runtime"]]
    names = {name for each in wanted for name in _nixpkgs(re.split(r"[<>=]", each)[0])}
    package = (PROJECT / "nix" / "package.nix").read_text("utf-8")
    listed = package.split("dependencies = [")[1].split("];")[0]
    assert {each.rpartition(".")[2] for each in listed.split()} == names


def _nixpkgs(requirement: str) -> list[str]:
    """The attributes of python3Packages that are this requirement; one of nixpkgs has no extras."""
    return {"pyjwt[crypto]": ["pyjwt", "cryptography"]}.get(requirement, [requirement])
