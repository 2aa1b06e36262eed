{
  description = "As much of nixpkgs as the flake of a2a-claude needs, for tests without a network";

  outputs = _: { lib = import ./lib.nix; };
}
