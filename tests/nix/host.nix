# What a host that imports the module becomes, as plain data for the tests.
{
  # nixpkgs' lib, or the small one of ./stub.
  lib ? import ./stub/lib.nix,
  modules,
}:
let
  pkgs = import ./stub {
    inherit lib;
    system = builtins.currentSystem;
  };

  # A package whose program is on every machine, so that systemd reads the units.
  package = {
    type = "derivation";
    name = "a2a-claude";
    outPath = "/usr";
    meta.mainProgram = "true";
  };

  host =
    (lib.evalModules {
      modules = modules ++ [
        ../../nix/module.nix
        ./stub/nixos.nix
        { services.a2a-claude.package = lib.mkDefault package; }
      ];
      specialArgs = {
        inherit pkgs;
        utils = import ./stub/utils.nix { inherit lib; };
      };
    }).config;
in
{
  config = host;

  shown = {
    units = builtins.mapAttrs (_: unit: unit.text) host.systemd.units;
    refused = map (each: each.message) (builtins.filter (each: !each.assertion) host.assertions);
    inherit (host) warnings;
    ports = host.networking.firewall.allowedTCPPorts;
    files = builtins.attrNames host.environment.etc;
    settings = builtins.mapAttrs (_: agent: agent.settings) host.services.a2a-claude.agents;
    secrets = builtins.mapAttrs (
      _: agent: builtins.mapAttrs (_: secret: secret.file) agent.secrets
    ) host.services.a2a-claude.agents;
  };
}
