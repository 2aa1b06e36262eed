# `import nixpkgs { system, … }`: a package set whose programs are run by the Python that `python.json` names.
{
  system,
  overlays ? [ ],
  config ? { },
  lib ? import ./lib.nix,
}:
let

  # A derivation that /bin/sh makes; `preferLocalBuild` keeps Nix from looking for build hooks.
  shell =
    name: environment: script:
    let
      drv = derivation (
        environment
        // {
          inherit name system;
          builder = "/bin/sh";
          args = [
            "-ec"
            "export PATH=/usr/local/bin:/usr/bin:/bin; ${script}"
          ];
          preferLocalBuild = true;
        }
      );
    in
    drv // { meta = { }; };

  program =
    name: text:
    shell name
      {
        inherit text;
        passAsFile = [ "text" ];
      }
      ''
        mkdir -p $out/bin
        { echo '#!/bin/sh'; cat $textPath; } > $out/bin/${name}
        chmod +x $out/bin/${name}
      ''
    // {
      meta.mainProgram = name;
    };

  self = {
    inherit lib;
    stdenv.hostPlatform = { inherit system; };

    bash = program "bash" "exec /bin/bash \"$@\"";
    git = program "git" "exec /usr/bin/git \"$@\"";
    claude-code = program "claude" "echo stub" // {
      meta = {
        mainProgram = "claude";
        available = config.allowUnfreePredicate or (_: false) { pname = "claude-code"; };
      };
    };
    nixfmt-tree = program "treefmt" "exit 0";
    ruff = program "ruff" "exit 0";
    uv = program "uv" "exit 0";

    runCommand = shell;
    writeShellApplication =
      {
        name,
        text,
        runtimeInputs ? [ ],
      }:
      program name "set -eu\n${text}";
    writeText =
      name: text:
      shell name {
        inherit text;
        passAsFile = [ "text" ];
      } "cp $textPath $out";
    mkShell = _: program "shell" "exit 0";

    python3Packages.buildPythonApplication =
      {
        pname,
        src,
        makeWrapperArgs,
        ...
      }:
      program pname ''
        PATH=$PATH:${lib.elemAt makeWrapperArgs 3}
        PYTHONPATH=${src} exec ${(builtins.fromJSON (builtins.readFile ./python.json)).python} -m a2a_claude "$@"
      '';
    python3Packages.hatchling = null;

    formats.json = _: {
      type =
        let
          json = lib.types.nullOr (
            lib.types.oneOf [
              lib.types.bool
              lib.types.int
              lib.types.float
              lib.types.str
              lib.types.path
              (lib.types.attrsOf json)
              (lib.types.listOf json)
            ]
          ) // { description = "JSON value"; };
        in
        json;
      generate = name: value: self.writeText name (builtins.toJSON value);
    };

    callPackage =
      file: overrides:
      let
        f = import file;
      in
      f (builtins.intersectAttrs (builtins.functionArgs f) final // overrides);
  };

  final = lib.foldl' (set: overlay: set // overlay final set) self overlays;
in
final
