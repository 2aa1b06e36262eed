# `settings -> section -> key`: the value of an agent's config, or the schema's default where it says nothing.
let
  schema = import ./schema.nix;
in
settings: section: key:
let
  value = settings.${section}.${key} or null;
in
if value != null then value else (schema section key).default
