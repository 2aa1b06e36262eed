{
  description = "Compile a declarative agent config into a hardened Claude agent that other agents call over A2A";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;

      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];

      # Claude Code is unfree. To run this flake is to want it; nothing else that is unfree is let in.
      pkgsFor =
        system:
        import nixpkgs {
          inherit system;
          overlays = [ self.overlays.default ];
          config.allowUnfreePredicate = pkg: lib.getName pkg == "claude-code";
        };

      forEachSystem = f: lib.genAttrs systems (system: f (pkgsFor system));

      agentsFor =
        pkgs:
        import ./nix/agents.nix {
          inherit lib pkgs;
          source = self;
        };
    in
    {
      # `nix build .#image-reviewer` makes a script that writes the image of agents/reviewer to standard output.
      packages = forEachSystem (
        pkgs:
        {
          inherit (pkgs) a2a-claude;
          default = pkgs.a2a-claude;
        }
        // lib.mapAttrs' (name: agent: lib.nameValuePair "image-${name}" agent.image) (agentsFor pkgs)
      );

      # `nix run .#reviewer` serves agents/reviewer.
      apps = forEachSystem (pkgs: lib.mapAttrs (_: agent: agent.app) (agentsFor pkgs));

      overlays.default = final: _: {
        a2a-claude = final.callPackage ./nix/package.nix { };
      };

      nixosModules.default =
        { lib, pkgs, ... }:
        {
          imports = [ ./nix/module.nix ];
          services.a2a-claude.package = lib.mkDefault (pkgs.callPackage ./nix/package.nix { });
        };

      checks = forEachSystem (
        pkgs:
        {
          package = pkgs.a2a-claude;
          module = import ./nix/module-check.nix {
            inherit lib pkgs;
            module = self.nixosModules.default;
          };
          vm = import ./nix/tests/module.nix {
            inherit pkgs;
            module = self.nixosModules.default;
          };
        }
        // lib.mapAttrs' (name: agent: lib.nameValuePair "agent-${name}" agent.compiled) (agentsFor pkgs)
      );

      devShells = forEachSystem (pkgs: {
        default = pkgs.mkShell {
          inputsFrom = [ pkgs.a2a-claude ];
          packages = [
            pkgs.nixfmt-tree
            pkgs.ruff
            pkgs.uv
          ];
        };
      });

      formatter = forEachSystem (pkgs: pkgs.nixfmt-tree);
    };
}
