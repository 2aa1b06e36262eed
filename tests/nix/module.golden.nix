# Rendered by a2a-claude: change the agent's config and compile again. A host imports this file beside
# nixosModules.default of the flake of a2a-claude, and may set the same options.
{
  services.a2a-claude.agents."reviewer" = {
    settings = builtins.fromJSON (builtins.readFile ./agent.json);
    secrets = {
      "ANTHROPIC_API_KEY" = { };
      "LINEAR" = { };
    };
    files = {
      "memory/CLAUDE.md" = ./. + "/memory/CLAUDE.md";
      "memory/skills/a b/SKILL.md" = ./. + "/memory/skills/a b/SKILL.md";
    };
  };
}
