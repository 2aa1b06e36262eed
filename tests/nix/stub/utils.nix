# The module argument `utils` of NixOS.
{ lib }:
{
  escapeSystemdExecArgs =
    arguments:
    lib.concatStringsSep " " (
      map (each: lib.replaceStrings [ "%" "$" ] [ "%%" "$$" ] (builtins.toJSON each)) arguments
    );
}
