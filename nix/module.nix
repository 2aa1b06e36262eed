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

  # The folder above agent.json is the agent's name.
  checked =
    name: file:
    pkgs.runCommand "a2a-claude-${name}.json" { } ''
      mkdir ${name}
      cp ${file} ${name}/agent.json
      ${lib.getExe cfg.package} validate ${name}/agent.json
      cp ${file} $out
    '';

  configFile =
    name: agent:
    let
      file = (pkgs.formats.json { }).generate "agent.json" agent.settings;
    in
    if cfg.checkConfig then checked name file else file;

  filesOf =
    name: agent:
    lib.mapAttrs' (path: source: lib.nameValuePair "a2a-claude/${name}/${path}" { inherit source; }) (
      agent.files // { "agent.json" = configFile name agent; }
    );

  service =
    name: agent:
    lib.nameValuePair "a2a-claude-${name}" (
      unit name agent
      // {
        restartTriggers = [ (configFile name agent) ] ++ lib.attrValues agent.files;
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
