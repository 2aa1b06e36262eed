# `${VAR}` and its kin in the strings of a config, read as a2a_claude/config/references.py reads them.
{ lib }:
let
  name = "[A-Za-z_][A-Za-z0-9_]*";
  token = "[$]([$]|[{](${name})(:-([^}]*)|:[?][^}]*)?[}]|(${name}))";

  piece =
    part:
    if builtins.isString part then
      part
    else if lib.head part == "$" then
      "$"
    else
      {
        name = if lib.elemAt part 1 != null then lib.elemAt part 1 else lib.elemAt part 4;
        default = lib.elemAt part 3;
      };

  # text -> [ literal | { name, default } ]
  parse = text: lib.filter (part: part != "") (map piece (builtins.split token text));

  # The text when it is an absolute path without references, else null: what the environment decides is not known here.
  absolute =
    text:
    let
      pieces = parse text;
      path = lib.concatStrings pieces;
    in
    if lib.all builtins.isString pieces && lib.hasPrefix "/" path then path else null;
in
{
  inherit absolute parse;
}
