# Options that an agent and services.a2a-claude.defaults share.
#
# For an agent, a scalar or a list comes from the agent's own option, else from `deploy` (its
# `settings.deploy.systemd` and `settings.deploy.workspaceAccess`, so that a compiled agent.json needs nothing else),
# else from `defaults`; mappings are merged with the default's, as in the layers of a config. `defaults` is null for the
# defaults themselves.
{
  lib,
  pkgs,
  defaults ? null,
  deploy ? { },
}:
let
  inherit (lib) types;

  schema = import ./schema.nix;

  isAgent = defaults != null;

  inherited =
    key: option:
    lib.mkOption (
      option
      // lib.optionalAttrs isAgent {
        default = if deploy.${key} or null != null then deploy.${key} else defaults.${key};
        defaultText = lib.literalExpression "config.services.a2a-claude.defaults.${key}";
      }
    );

  merged =
    key: option:
    lib.mkOption (option // lib.optionalAttrs isAgent { apply = own: defaults.${key} // own; });

  # An option that is also a key of the config, in `section` of its schema.
  deployedIn =
    section: key: type:
    inherited key {
      inherit type;
      inherit (schema section key) default example description;
    };

  deployed = deployedIn "deploySystemd";

  oneOf = section: key: types.enum (lib.filter (each: each != null) (schema section key).enum);

  between = key: types.ints.between (schema "deploySystemd" key).minimum (schema "deploySystemd" key).maximum;

  absolute = types.strMatching "/.*";
in
{
  user = deployed "user" (types.nullOr (types.strMatching "[a-z_][a-z0-9_-]{0,30}"));
  profile = deployed "profile" (oneOf "deploySystemd" "profile");
  workspaceAccess = deployedIn "deploy" "workspaceAccess" (oneOf "deploy" "workspaceAccess");
  memoryMax = deployed "memoryMax" (types.strMatching "[1-9][0-9]{0,14}(Ki|Mi|Gi)?");
  tasksMax = deployed "tasksMax" (between "tasksMax");
  cpuQuota = deployed "cpuQuota" (types.nullOr (between "cpuQuota"));
  environmentFiles = deployed "environmentFiles" (types.listOf absolute);
  readOnlyPaths = deployed "readOnlyPaths" (types.listOf absolute);
  readWritePaths = deployed "readWritePaths" (types.listOf absolute);
  after = deployed "after" (types.listOf types.str);
  socketActivation = deployed "socketActivation" types.bool;

  path = inherited "path" {
    type = types.listOf types.package;
    default = [
      pkgs.bash
      pkgs.git
    ];
    defaultText = lib.literalExpression "[ pkgs.bash pkgs.git ]";
    example = lib.literalExpression "[ pkgs.bash pkgs.git pkgs.ripgrep ]";
    description = "Packages whose programs the agent's shell finds.";
  };

  environment = merged "environment" {
    type = types.attrsOf types.str;
    default = { };
    example.CLAUDE_MODEL = "claude-sonnet-5";
    description = "Variables of the service, taken literally. They are world-readable: no secrets here.";
  };

  serviceConfig = merged "serviceConfig" {
    type = types.attrsOf types.raw;
    default = { };
    example.Nice = 5;
    description = ''
      Directives of the service that win over the module's own. They are written as they are given: double a
      literal `%`.
    '';
  };
}
