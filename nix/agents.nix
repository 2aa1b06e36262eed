# Every agent of `${source}/agents`: `{ <name> = { compiled, app, image }; }`.
#
# `compiled` holds `<name>/agent.json`, so an invalid config fails the build with the compiler's diagnostics; `app` is
# what `nix run` starts, and passes its arguments on; `image` makes a container image.
{
  lib,
  pkgs,
  source,
}:
let
  folder = source + "/agents";

  configs = [
    "agent.yaml"
    "agent.yml"
    "agent.json"
    "config.json"
  ];

  isAgent =
    name: _:
    builtins.match "[a-z][a-z0-9-]*" name != null
    && lib.any (config: builtins.pathExists (folder + "/${name}/${config}")) configs;

  agent =
    name: _:
    let
      compiled = pkgs.runCommand "a2a-claude-agent-${name}" { } ''
        cd ${source}
        ${lib.getExe pkgs.a2a-claude} compile agents --agent ${name} --target config --output $out
      '';

      serve = pkgs.writeShellApplication {
        name = "a2a-claude-${name}";
        text = ''
          exec ${lib.getExe pkgs.a2a-claude} serve ${compiled}/${name}/agent.json "$@"
        '';
      };
    in
    {
      inherit compiled;
      image = import ./image.nix {
        inherit
          lib
          pkgs
          name
          compiled
          ;
      };
      app = {
        type = "app";
        program = lib.getExe serve;
        meta.description = "Serve the agent ${name} over A2A";
      };
    };
in
lib.mapAttrs agent (lib.filterAttrs isAgent (builtins.readDir folder))
