# Rendered by a2a-claude: change the agent's config and compile again. A host imports this file beside
# nixosModules.default of the flake of a2a-claude, and may set the same options.
{
  services.a2a-claude.agents.{{ name }} = {
    settings = builtins.fromJSON (builtins.readFile ./agent.json);
{% if secrets %}
    secrets = {
{% for each in secrets %}
      {{ each }} = { };
{% endfor %}
    };
{% endif %}
{% if files %}
    files = {
{% for each in files %}
      {{ each.name }} = ./. + {{ each.path }};
{% endfor %}
    };
{% endif %}
  };
}
