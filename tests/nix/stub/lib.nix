# The functions of nixpkgs' lib that a2a-claude uses.
let
  lib = rec {
    inherit (builtins)
      all
      any
      attrNames
      attrValues
      concatLists
      concatMap
      concatStringsSep
      elem
      elemAt
      filter
      foldl'
      groupBy
      head
      length
      listToAttrs
      mapAttrs
      replaceStrings
      ;

    id = value: value;
    optional = condition: value: if condition then [ value ] else [ ];
    optionals = condition: values: if condition then values else [ ];
    optionalAttrs = condition: set: if condition then set else { };
    optionalString = condition: text: if condition then text else "";
    nameValuePair = name: value: { inherit name value; };
    genAttrs = names: f: builtins.listToAttrs (map (name: nameValuePair name (f name)) names);
    mapAttrsToList = f: set: map (name: f name set.${name}) (builtins.attrNames set);
    mapAttrs' = f: set: builtins.listToAttrs (mapAttrsToList f set);
    filterAttrs = keep: set: removeAttrs set (builtins.filter (name: !keep name set.${name}) (builtins.attrNames set));
    subtractLists = removed: builtins.filter (each: !builtins.elem each removed);
    findFirst =
      matches: default: values:
      let
        found = builtins.filter matches values;
      in
      if found == [ ] then default else builtins.head found;
    recursiveUpdate =
      left: right:
      left
      // builtins.mapAttrs (
        name: value:
        if builtins.isAttrs value && builtins.isAttrs (left.${name} or null) then
          recursiveUpdate left.${name} value
        else
          value
      ) right;

    concatStrings = builtins.concatStringsSep "";
    hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
    hasSuffix =
      suffix: text:
      let
        rest = builtins.stringLength text - builtins.stringLength suffix;
      in
      rest >= 0 && builtins.substring rest (-1) text == suffix;
    hasInfix = infix: text: builtins.replaceStrings [ infix ] [ "" ] text != text;
    removeSuffix =
      suffix: text:
      if hasSuffix suffix text then
        builtins.substring 0 (builtins.stringLength text - builtins.stringLength suffix) text
      else
        text;

    removePrefix =
      prefix: text:
      if hasPrefix prefix text then
        builtins.substring (builtins.stringLength prefix) (-1) text
      else
        text;

    escapeShellArg = text: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] (toString text)}'";
    importTOML = path: builtins.fromTOML (builtins.readFile path);
    versionAtLeast = ours: theirs: builtins.compareVersions ours theirs >= 0;
    getLib = id;
    trivial.release = "25.11";
    getName = package: package.pname;
    getExe = package: "${package}/bin/${package.meta.mainProgram}";
    makeBinPath = packages: builtins.concatStringsSep ":" (map (each: "${each}/bin") packages);
    licenses.asl20 = { };
    platforms.linux = [ ];
    fileset = {
      unions = id;
      toSource = { root, ... }: root;
    };

    inherit (import ./modules.nix { inherit lib; })
      evalModules
      literalExpression
      mkDefault
      mkEnableOption
      mkForce
      mkIf
      mkMerge
      mkOption
      mkPackageOption
      types
      ;

    nixosSystem =
      { system, modules }:
      let
        host = evalModules {
          modules = modules ++ [ ./nixos.nix ];
          specialArgs = {
            pkgs = import ./. {
              inherit system;
              inherit (host.config.nixpkgs) config;
            };
            utils = import ./utils.nix { inherit lib; };
          };
        };
      in
      host;
  };
in
lib
