# The options of one agent: services.a2a-claude.agents.<name>.
{
  lib,
  pkgs,
  defaults,
}:
{ name, config, ... }:
let
  inherit (lib) mkOption types;

  schema = import ./schema.nix;
  agentName = name;
  inherit (config) settings;

  # A mapping, or none where the config says null.
  mapping = value: lib.optionalAttrs (builtins.isAttrs value) value;

  # Without the annotations (`x-…`, `$comment`) that a config may hold anywhere.
  declared = lib.filterAttrs (key: _: builtins.match "[A-Za-z_][A-Za-z0-9_]*" key != null) (
    mapping (settings.secrets or null)
  );

  credentials = settings.claude.credentials or (schema "claude" "credentials").default;

  secret =
    { name, ... }:
    let
      given = mapping (declared.${name} or null);
      option =
        key: type: default:
        mkOption {
          inherit type;
          default = if given.${key} or null != null then given.${key} else default;
          defaultText = lib.literalExpression "settings.secrets.<name>.${key}";
          inherit (schema "secret" key) example description;
        };
    in
    {
      options = {
        file = option "file" types.str "/etc/a2a-claude/${agentName}/secrets/${name}";
        encrypted = option "encrypted" types.bool false;
        optional = option "optional" types.bool false;
      };
    };

  settingsModule = {
    freeformType = (pkgs.formats.json { }).type;
    options.server.port = mkOption {
      type = types.port;
      inherit (schema "server" "port") default example description;
    };
  };
in
{
  options =
    import ./shared-options.nix {
      inherit lib pkgs defaults;
      deploy = mapping (settings.deploy.systemd or null) // {
        workspaceAccess = settings.deploy.workspaceAccess or null;
      };
    }
    // {
      enable = lib.mkEnableOption "this agent" // {
        default = true;
      };

      settings = mkOption {
        type = types.submodule settingsModule;
        default = { };
        example = lib.literalExpression "builtins.fromJSON (builtins.readFile ./agent.json)";
        description = ''
          The agent's configuration, with the keys of its agent.yaml. It ends up in the world-readable Nix store:
          refer to credentials as `''${NAME}`.
        '';
      };

      files = mkOption {
        type = types.attrsOf types.path;
        default = { };
        example = lib.literalExpression ''{ "memory/CLAUDE.md" = ./CLAUDE.md; }'';
        description = "Files that go beside the agent's configuration, by their path there.";
      };

      secrets = mkOption {
        type = types.attrsOf (types.submodule secret);
        default = { };
        example.ANTHROPIC_API_KEY.file = "/run/agenix/anthropic";
        description = ''
          Credentials of the agent, by the variable that its configuration refers to. systemd reads their files as
          root, so they need to be readable by nobody else. Those of `settings.secrets` and
          `settings.claude.credentials` are here already.
        '';
      };

      workspace = mkOption {
        type = types.nullOr (types.strMatching "/.*");
        default = settings.deploy.systemd.workspace or null;
        defaultText = lib.literalExpression "settings.deploy.systemd.workspace";
        inherit (schema "deploySystemd" "workspace") example description;
      };

      openFirewall = mkOption {
        type = types.bool;
        default = settings.deploy.nix.openFirewall or (schema "deployNix" "openFirewall").default;
        defaultText = lib.literalExpression "settings.deploy.nix.openFirewall";
        inherit (schema "deployNix" "openFirewall") example description;
      };
    };

  config.secrets = lib.genAttrs (credentials ++ lib.attrNames declared) (_: { });
}
