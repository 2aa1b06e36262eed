# A module system in small: options, priorities, conditions, submodules and freeform settings. It has the semantics and
# the messages of nixpkgs' lib/modules.nix as far as the tests look at them, and leaves the rest out.
{ lib }:
let
  inherit (builtins)
    all
    attrNames
    concatLists
    concatMap
    concatStringsSep
    elem
    filter
    foldl'
    hasAttr
    head
    isAttrs
    isFunction
    isList
    listToAttrs
    mapAttrs
    ;

  isType = type: value: isAttrs value && value._type or null == type;
  show = path: "`${concatStringsSep "." path}'";

  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  mkMerge = contents: {
    _type = "merge";
    inherit contents;
  };
  mkOverride = priority: content: {
    _type = "override";
    inherit priority content;
  };

  # Properties of a set are properties of its members: { a, b } under a condition is a and b each under it.
  pushDown =
    value:
    if isType "merge" value then
      concatMap pushDown value.contents
    else if isType "if" value then
      map (mapAttrs (_: mkIf value.condition)) (pushDown value.content)
    else if isType "override" value then
      map (mapAttrs (_: mkOverride value.priority)) (pushDown value.content)
    else
      [ value ];

  # -> [ { priority, value } ]
  discharge =
    value:
    if isType "merge" value then
      concatMap discharge value.contents
    else if isType "if" value then
      if value.condition then discharge value.content else [ ]
    else if isType "override" value then
      map (each: each // { inherit (value) priority; }) (discharge value.content)
    else
      [
        {
          priority = 100;
          inherit value;
        }
      ];

  # The definitions that no other outranks.
  strongest =
    definitions:
    let
      found = concatMap discharge definitions;
      top = foldl' (best: each: if each.priority < best then each.priority else best) 9999 found;
    in
    map (each: each.value) (filter (each: each.priority == top) found);

  merge =
    path: type: definitions:
    let
      values = strongest definitions;
      wrong = filter (value: !type.check value) values;
    in
    if wrong != [ ] then
      throw "A definition for option ${show path} is not of type `${type.description}'. Definition: ${
        builtins.toJSON (if isFunction (head wrong) then "<function>" else head wrong)
      }"
    else
      type.merge path values;

  # Values by name, of sets that may be under properties; a name whose definitions all fall away is left out.
  collect =
    sets:
    let
      parts = concatMap pushDown sets;
      names = attrNames (foldl' (found: part: found // part) { } parts);
      of = name: map (part: part.${name}) (filter (hasAttr name) parts);
    in
    listToAttrs (
      map (name: {
        inherit name;
        value = of name;
      }) names
    );

  equal =
    path: values:
    # A single value is not compared: parts of it may have no value.
    if all (value: value == head values) (builtins.tail values) then
      head values
    else
      throw "The option ${show path} has conflicting definition values.";

  simple = description: check: {
    inherit description check;
    merge = equal;
  };

  types = rec {
    str = simple "string" builtins.isString;
    bool = simple "boolean" builtins.isBool;
    int = simple "signed integer" builtins.isInt;
    float = simple "floating point number" builtins.isFloat;
    path = simple "absolute path" (
      value: builtins.isPath value || (builtins.isString value && lib.hasPrefix "/" value) || package.check value
    );
    package = simple "package" (value: value.type or null == "derivation");
    raw = simple "raw value" (_: true);
    port = ints.between 0 65535 // {
      description = "16 bit unsigned integer; between 0 and 65535 (both inclusive)";
    };
    ints.between =
      low: high:
      simple "integer between ${toString low} and ${toString high} (both inclusive)" (
        value: builtins.isInt value && value >= low && value <= high
      );
    strMatching =
      pattern:
      simple "string matching the pattern ${pattern}" (
        value: builtins.isString value && builtins.match pattern value != null
      );
    enum =
      values:
      simple "one of ${concatStringsSep ", " (map builtins.toJSON values)}" (value: elem value values);
    nullOr = type: {
      description = "null or ${type.description}";
      check = value: value == null || type.check value;
      merge = path: values: if head values == null then equal path values else type.merge path values;
    };
    listOf = type: {
      description = "list of ${type.description}";
      check = isList;
      merge = path: values: map (each: merge path type [ each ]) (concatLists values);
    };
    attrsOf = type: {
      description = "attribute set of ${type.description}";
      check = isAttrs;
      merge =
        path: values:
        mapAttrs (name: merge (path ++ [ name ]) type) (
          lib.filterAttrs (_: definitions: concatMap discharge definitions != [ ]) (collect values)
        );
    };
    oneOf = options: {
      description = concatStringsSep " or " (map (type: type.description) options);
      check = value: lib.any (type: type.check value) options;
      merge =
        path: values:
        let
          fits = type: all type.check values;
        in
        (lib.findFirst fits (throw "The option ${show path} has conflicting definition values.") options).merge path values;
    };
    submodule = module: {
      description = "submodule";
      check = isAttrs;
      merge =
        path: values:
        (evaluate path {
          modules = [ module ] ++ map (config: { inherit config; }) values;
          specialArgs.name = lib.elemAt path (lib.length path - 1);
        }).config;
    };
  };

  # A module written short is all config.
  full =
    module:
    {
      options = module.options or { };
      config =
        if module ? options || module ? config then
          module.config or { }
        else
          removeAttrs module [
            "imports"
            "freeformType"
          ];
    }
    // lib.optionalAttrs (module ? freeformType) { inherit (module) freeformType; };

  # A file, a function or a plain set -> [ { options, config } ], with what it imports.
  load =
    args: module:
    if builtins.isPath module || builtins.isString module then
      load args (import module)
    else if isFunction module then
      load args (module args)
    else
      concatMap (load args) (module.imports or [ ]) ++ [ (full module) ];

  # The values of a tree of options, and those of `definitions` that no option takes.
  values =
    path: freeform: options: definitions:
    let
      defined = collect definitions;
      value =
        name: option:
        let
          here = path ++ [ name ];
          given = defined.${name} or [ ];
          final =
            if concatMap discharge given != [ ] then
              given
            else if option ? default then
              [ option.default ]
            else
              throw "The option ${show here} was accessed but has no value defined. Try setting the option.";
        in
        if isType "option" option then
          (option.apply or lib.id) (merge here option.type final)
        else
          values here freeform option given;
      free = removeAttrs defined (attrNames options);
    in
    mapAttrs value options
    // (
      if freeform != null then
        mapAttrs (name: merge (path ++ [ name ]) freeform) (
          lib.filterAttrs (_: each: concatMap discharge each != [ ]) free
        )
      else if free != { } then
        throw "The option ${show (path ++ [ (head (attrNames free)) ])} does not exist."
      else
        { }
    );

  evaluate =
    path:
    {
      modules,
      specialArgs ? { },
    }:
    let
      args = specialArgs // {
        inherit lib config;
      };
      loaded = concatMap (load args) modules;
      options = foldl' (all: each: lib.recursiveUpdate all each.options) { } loaded;
      freeform = foldl' (found: each: each.freeformType or found) null loaded;
      config = values path freeform options (map (each: each.config) loaded);
    in
    {
      inherit config options;
    };
in
{
  inherit mkIf mkMerge types;
  mkDefault = mkOverride 1000;
  mkForce = mkOverride 50;
  mkOption = option: option // { _type = "option"; };
  mkEnableOption =
    what:
    {
      _type = "option";
      type = types.bool;
      default = false;
      description = "Whether to enable ${what}.";
    };
  mkPackageOption = pkgs: name: _: {
    _type = "option";
    type = types.package;
    default = pkgs.${name};
    description = "The ${name} package to use.";
  };
  literalExpression = text: {
    _type = "literalExpression";
    inherit text;
  };
  evalModules = evaluate [ ];
}
