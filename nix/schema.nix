# What the published schema says of a key, so that defaults, examples and descriptions have one source:
# `schema "deploySystemd" "tasksMax"` is `{ default, example, description, … }`.
let
  definitions = (builtins.fromJSON (builtins.readFile ../schema/agent.schema.json))."$defs";
in
section: key:
let
  property = definitions.${section}.properties.${key};
in
property
// {
  default = property.default or null;
  example = builtins.head property.examples;
}
