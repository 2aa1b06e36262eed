# The unit of an agent as NixOS makes it, built only when the module's assertions hold.
{
  lib,
  pkgs,
  module,
}:
let
  host = lib.nixosSystem {
    inherit (pkgs.stdenv.hostPlatform) system;
    modules = [
      module
      {
        services.a2a-claude = {
          package = pkgs.a2a-claude;
          agents.checked.settings.server.port = 3030;
        };
      }
    ];
  };

  ours = lib.filter (each: lib.hasPrefix "services.a2a-claude" each.message) host.config.assertions;
  broken = map (each: each.message) (lib.filter (each: !each.assertion) ours);
in
if broken != [ ] then
  throw (lib.concatStringsSep "\n" broken)
else
  pkgs.writeText "a2a-claude-checked.service" host.config.systemd.units."a2a-claude-checked.service".text
