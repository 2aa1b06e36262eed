# The options of NixOS that the module sets, and the units that NixOS makes of them (nixos/lib/systemd-lib.nix).
{ lib, config, ... }:
let
  inherit (lib) mkOption types;

  of =
    type: default:
    mkOption {
      inherit type default;
    };
  list = of (types.listOf types.raw) [ ];
  set = of (types.attrsOf types.raw) { };
  text = of types.str "";

  common = {
    description = text;
    documentation = list;
    wants = list;
    after = list;
    requires = list;
    wantedBy = list;
    unitConfig = set;
  };

  service.options = common // {
    path = list;
    environment = set;
    restartTriggers = list;
    serviceConfig = set;
  };

  socket.options = common // {
    listenStreams = list;
    socketConfig = set;
  };

  lines =
    name: value: map (each: "${name}=${toString each}\n") (if builtins.isList value then value else [ value ]);
  section = values: lib.concatStrings (lib.concatLists (lib.mapAttrsToList lines values));

  joined = name: values: lib.optionalAttrs (values != [ ]) { ${name} = toString values; };

  unit =
    each: own:
    ''
      [Unit]
      ${section (
        each.unitConfig
        // joined "Wants" each.wants
        // joined "After" each.after
        // joined "Requires" each.requires
        // joined "Documentation" each.documentation
        // { Description = each.description; }
      )}
    ''
    + own
    + lib.optionalString (each.wantedBy != [ ]) ''

      [Install]
      WantedBy=${toString each.wantedBy}
    '';

  serviceUnit =
    name: each:
    lib.nameValuePair "${name}.service" {
      text = unit each (
        "[Service]\n"
        + section { Environment = lib.mapAttrsToList (key: value: builtins.toJSON "${key}=${value}") each.environment; }
        + section each.serviceConfig
      );
    };

  socketUnit =
    name: each:
    lib.nameValuePair "${name}.socket" {
      text = unit each ("[Socket]\n" + section each.socketConfig + section { ListenStream = each.listenStreams; });
    };
in
{
  options = {
    assertions = list;
    warnings = list;
    environment.etc = set;
    environment.systemPackages = list;
    networking.firewall.allowedTCPPorts = list;
    systemd.services = of (types.attrsOf (types.submodule service)) { };
    systemd.sockets = of (types.attrsOf (types.submodule socket)) { };
    systemd.units = set;
    systemd.tmpfiles.rules = list;
    nixpkgs.config = set;
    system.stateVersion = text;
  };

  config = {
    # NixOS has assertions like this one.
    assertions = [
      {
        assertion = true;
        message = throw "the message of an assertion that holds has no value";
      }
    ];

    systemd.units =
      lib.mapAttrs' serviceUnit config.systemd.services // lib.mapAttrs' socketUnit config.systemd.sockets;
  };
}
