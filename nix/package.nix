# a2a-claude with its runtime. Claude Code comes from nixpkgs: the one in the SDK's wheel does not start on NixOS.
{
  lib,
  callPackage,
  python3Packages,
  git,
  # null when `claude.executablePathOverride` names another one.
  claude-code,
}:
let
  locked = callPackage ./locked.nix { };

  cli =
    if claude-code == null then
      [ ]
    else if claude-code.meta.available or true then
      [ claude-code ]
    else
      throw ''
        a2a-claude runs Claude Code, which is unfree (or not built for this system). Allow it:

          nixpkgs.config.allowUnfreePredicate = pkg: lib.getName pkg == "claude-code";

        or bring your own: a2a-claude.override { claude-code = null; }, with claude.executablePathOverride in the
        agent's config.
      '';
in
python3Packages.buildPythonApplication {
  pname = "a2a-claude";
  version = lib.head (
    builtins.match ''.*__version__ = "([^"]+)".*'' (builtins.readFile ../a2a_claude/__init__.py)
  );
  pyproject = true;

  src = lib.fileset.toSource {
    root = ../.;
    fileset = lib.fileset.unions [
      ../LICENSE
      ../README.md
      ../a2a_claude
      ../pyproject.toml
      ../schema
      ../templates
    ];
  };

  build-system = [ python3Packages.hatchling ];

  dependencies = [
    locked.a2a-sdk
    locked.claude-agent-sdk
    locked.falcon
    locked.granian
    python3Packages.click
    python3Packages.cryptography
    python3Packages.httpcore
    python3Packages.httpx
    python3Packages.jinja2
    python3Packages.jsonschema
    python3Packages.mcp
    python3Packages.orjson
    python3Packages.psutil
    python3Packages.pyjwt
    python3Packages.pyyaml
    python3Packages.rfc8785
    python3Packages.uvloop
  ];

  makeWrapperArgs = [
    "--suffix"
    "PATH"
    ":"
    (lib.makeBinPath ([ git ] ++ cli))
  ];

  pythonImportsCheck = [ "a2a_claude.cli" ];

  meta = {
    description = "Compile a declarative agent config into a hardened Claude agent that other agents call over A2A";
    license = lib.licenses.asl20;
    mainProgram = "a2a-claude";
    platforms = lib.platforms.linux;
  };
}
