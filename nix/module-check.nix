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
        system.stateVersion = lib.trivial.release;
        services.a2a-claude = {
          package = pkgs.a2a-claude;
          agents.checked.settings.server.port = 3030;
        };
      }
    ];
  };

  # In this order: the message of an assertion that holds need not have a value.
  failed = map (each: each.message) (lib.filter (each: !each.assertion) host.config.assertions);
  # A host without file systems or a boot loader fails others.
  broken = lib.filter (lib.hasPrefix "services.a2a-claude") failed;
in
if broken != [ ] then
  throw (lib.concatStringsSep "\n" broken)
else
  pkgs.writeText "a2a-claude-checked.service" host.config.systemd.units."a2a-claude-checked.service".text
