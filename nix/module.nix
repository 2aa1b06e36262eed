# NixOS module: every agent of services.a2a-claude.agents becomes the service a2a-claude-<name>.
{
  config,
  lib,
  pkgs,
  utils,
  ...
}:
let
  inherit (lib) mkOption types;

  cfg = config.services.a2a-claude;
  agents = lib.filterAttrs (_: agent: agent.enable) cfg.agents;

  checks = import ./assertions.nix { inherit lib; };
  unit = import ./unit.nix {
    inherit lib utils;
    inherit (cfg) package;
  };

  # By a name of ours: a file's own may have characters that a store path cannot have.
  stored =
    source:
    if builtins.isPath source then
      builtins.path {
        path = source;
        name = "shipped";
      }
    else
      source;

  # The agent's folder as the host will have it: what the config names must be beside it, and the folder is the name.
  checked =
    name: file: files:
    let
      add = path: source: ''
        mkdir -p "$(dirname ${name}/${lib.escapeShellArg path})"
        ln -s ${source} ${name}/${lib.escapeShellArg path}
      '';
    in
    pkgs.runCommand "a2a-claude-${name}.json" { } ''
      mkdir ${name}
      cp ${file} ${name}/agent.json
      ${lib.concatStrings (lib.mapAttrsToList add files)}
      ${lib.getExe cfg.package} validate ${name}/agent.json
      cp ${file} $out
    '';

  shipped = agent: lib.mapAttrs (_: stored) agent.files;

  configFile =
    name: agent:
    let
      file = (pkgs.formats.json { }).generate "agent.json" agent.settings;
    in
    if cfg.checkConfig then checked name file (shipped agent) else file;

  filesOf =
    name: agent:
    lib.mapAttrs' (path: source: lib.nameValuePair "a2a-claude/${name}/${path}" { inherit source; }) (
      shipped agent // { "agent.json" = configFile name agent; }
    );

  service =
    name: agent:
    lib.nameValuePair "a2a-claude-${name}" (
      unit name agent
      // {
        restartTriggers = [ (configFile name agent) ] ++ lib.attrValues (shipped agent);
      }
    );

  socket =
    name: agent:
    lib.nameValuePair "a2a-claude-${name}" (import ./socket.nix { inherit lib; } name agent);
in
{
  options.services.a2a-claude = {
    package = lib.mkPackageOption pkgs "a2a-claude" { };

    checkConfig = mkOption {
      type = types.bool;
      default = true;
      example = false;
      description = ''
        Whether the configuration of every agent is checked by {command}`a2a-claude validate` when the system is built.
      '';
    };

    defaults = mkOption {
      type = types.submodule { options = import ./shared-options.nix { inherit lib pkgs; }; };
      default = { };
      example.profile = "cli-sandbox";
      description = "What an agent takes that says nothing else. Mappings are merged, the rest is replaced.";
    };

    agents = mkOption {
      type = types.attrsOf (
        types.submodule (
          import ./agent.nix {
            inherit lib pkgs;
            inherit (cfg) defaults;
          }
        )
      );
      default = { };
      example = lib.literalExpression ''
        {
          reviewer = {
            settings = builtins.fromJSON (builtins.readFile ./reviewer/agent.json);
            secrets.ANTHROPIC_API_KEY.file = "/run/agenix/anthropic";
          };
        }
      '';
      description = "Agents of this host, by name.";
    };
  };

  config = lib.mkIf (agents != { }) {
    assertions = checks.assertions agents;
    warnings = checks.warnings agents;

    environment.etc = lib.mkMerge (lib.mapAttrsToList filesOf agents);

    systemd.services = lib.mapAttrs' service agents;
    systemd.sockets = lib.mapAttrs' socket (lib.filterAttrs (_: agent: agent.socketActivation) agents);

    networking.firewall.allowedTCPPorts = map (agent: agent.settings.server.port) (
      lib.filter (agent: agent.openFirewall) (lib.attrValues agents)
    );
  };
}
