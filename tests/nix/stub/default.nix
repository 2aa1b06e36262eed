# `import nixpkgs { system, … }`: a package set whose programs are run by the Python that `python.json` names, and whose
# Claude Code is another program of that file.
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

  settings = builtins.fromJSON (builtins.readFile ./python.json);

  self = {
    inherit lib;
    stdenv.hostPlatform = { inherit system; };

    bash = program "bash" "exec /bin/bash \"$@\"";
    git = program "git" "exec /usr/bin/git \"$@\"";
    claude-code = program "claude" "exec ${settings.claude} \"$@\"" // {
      meta = {
        mainProgram = "claude";
        available = config.allowUnfreePredicate or (_: false) { pname = "claude-code"; };
      };
    };
    tini = program "tini" "shift; exec \"$@\"";
    bashInteractive = self.bash;
    gitMinimal = self.git;
    cacert = program "cacert" "exit 0";
    coreutils = program "coreutils" "exit 0";
    findutils = program "findutils" "exit 0";
    gnugrep = program "gnugrep" "exit 0";
    gnused = program "gnused" "exit 0";
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
    # What an image is made from, printed as JSON where nixpkgs' script streams the image.
    dockerTools = {
      binSh = self.bash;
      usrBinEnv = self.coreutils;
      fakeNss.override = accounts: self.writeText "accounts" (builtins.toJSON accounts);
      streamLayeredImage =
        image:
        shell "stream-${baseNameOf image.name}" { } ''
          { echo '#!/bin/sh'; echo 'cat ${self.writeText "image" (builtins.toJSON image)}'; } > $out
          chmod +x $out
        '';
    };

    # The machine that a test asks for, evaluated; nothing boots.
    testers.runNixOSTest =
      test:
      let
        machine = (lib.nixosSystem {
          inherit system;
          modules = [ test.nodes.machine ];
        }).config;
        failed = builtins.filter (each: !each.assertion) machine.assertions;
      in
      if failed != [ ] then
        throw (builtins.head failed).message
      else
        self.writeText test.name (
          builtins.toJSON {
            inherit (test) testScript;
            units = builtins.mapAttrs (_: unit: unit.text) machine.systemd.units;
          }
        );
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
        PYTHONPATH=${src} exec ${settings.python} -m a2a_claude "$@"
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
