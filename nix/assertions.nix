# What is refused, and warned of, before a host is built.
{ lib }:
let
  inStore = path: lib.hasPrefix builtins.storeDir path;

  isLoopback = host: host == "localhost" || host == "::1" || lib.hasPrefix "127." host;
  isAddress = host: lib.hasInfix ":" host || builtins.match "[0-9.]+" host != null;

  about = name: "services.a2a-claude.agents.${name}";

  ofAgent =
    name: agent:
    let
      inherit (agent) settings;
      setting = import ./settings.nix settings;
      hostname = setting "server" "hostname";
      auth = key: settings.server.auth.${key} or null;
      isOpen =
        lib.all (key: auth key == null) [
          "bearer"
          "apiKey"
          "jwt"
        ]
        && auth "mtls" != true;
    in
    [
      {
        assertion = builtins.match "[a-z][a-z0-9-]{0,62}" name != null;
        message = "${about name}: the name must be lower-case letters, digits and dashes, and begin with a letter.";
      }
      {
        assertion =
          setting "claude" "permissionMode" != "bypassPermissions"
          || setting "claude" "dangerouslyAllowBypassPermissions";
        message = "${about name}.settings.claude.permissionMode: bypassPermissions needs dangerouslyAllowBypassPermissions.";
      }
      {
        assertion =
          setting "claude" "permissionMode" != "default" || setting "claude" "approvals" == "inputRequired";
        message = "${about name}.settings.claude.permissionMode: default needs approvals to be inputRequired.";
      }
      {
        assertion = isLoopback hostname || !isOpen || auth "allowUnauthenticated" == true;
        message = "${about name}.settings.server.auth: ${hostname} is no loopback address, so a scheme is needed (or allowUnauthenticated).";
      }
      {
        assertion = !agent.socketActivation || hostname == "localhost" || isAddress hostname;
        message = "${about name}.settings.server.hostname: a socket unit needs an address, and ${hostname} is a name.";
      }
      {
        assertion = agent.workspace == null || !inStore agent.workspace;
        message = "${about name}.workspace: ${toString agent.workspace} is in the Nix store; give a path of the host as a string.";
      }
    ]
    ++ lib.concatLists (lib.mapAttrsToList (ofSecret name) agent.secrets);

  ofSecret = agentName: name: secret: [
    {
      assertion = builtins.match "[A-Za-z_][A-Za-z0-9_]{0,127}" name != null;
      message = "${about agentName}.secrets.${name}: a secret is named like the variable that refers to it.";
    }
    {
      assertion = lib.hasPrefix "/" secret.file;
      message = "${about agentName}.secrets.${name}.file: ${secret.file} is no absolute path.";
    }
    {
      assertion = !inStore secret.file;
      message = "${about agentName}.secrets.${name}.file: a file in the Nix store is readable by everybody; give a path of the host as a string, of agenix or sops-nix for instance.";
    }
  ];

  onePort =
    agents:
    let
      byPort = lib.groupBy (name: toString agents.${name}.settings.server.port) (lib.attrNames agents);
    in
    lib.mapAttrsToList (port: names: {
      assertion = lib.length names == 1;
      message = "services.a2a-claude.agents: ${lib.concatStringsSep " and " names} all have port ${port}.";
    }) byPort;
in
{
  assertions = agents: lib.concatLists (lib.mapAttrsToList ofAgent agents) ++ onePort agents;

  warnings =
    agents:
    lib.concatLists (
      lib.mapAttrsToList (
        name: agent:
        let
          hostname = import ./settings.nix agent.settings "server" "hostname";
        in
        lib.optional (agent.openFirewall && isLoopback hostname)
          "${about name}.openFirewall: the agent binds ${hostname}, which no other host reaches; set settings.server.hostname."
      ) agents
    );
}
