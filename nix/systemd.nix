# How text is written in a unit so that systemd reads it back unchanged, as a2a_claude/targets/systemd_syntax.py does:
# NixOS writes `serviceConfig` as it is given, and doubles no `%` in `environment` either.
{ lib }:
let
  checked =
    text:
    if builtins.match ".*[[:cntrl:]].*" text != null then
      throw "systemd cannot read the control character in ${builtins.toJSON text}"
    else
      text;

  # A colon separates the parts of BindPaths=, but not in quotes.
  isPlain = text: builtins.match "[A-Za-z0-9_./@,+=-]+" text != null;

  escape = lib.replaceStrings [ "\\" "\"" ] [ "\\\\" "\\\"" ];
in
rec {
  # Specifiers (`%H`) mean nothing in it.
  literal = lib.replaceStrings [ "%" ] [ "%%" ];

  # A value that is read up to the end of its line.
  line = text: literal (checked text);

  # One word of a list: a path of BindPaths=, for instance.
  word = text: if isPlain text then text else "\"${literal (escape (checked text))}\"";
}
