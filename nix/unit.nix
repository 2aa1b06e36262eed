# The systemd service of an agent, directive by directive the unit that a2a_claude/targets/systemd.py renders.
{
  lib,
  utils,
  package,
}:
name: agent:
let
  systemd = import ./systemd.nix { inherit lib; };
  references = import ./references.nix { inherit lib; };

  inherit (agent) settings;

  setting = import ./settings.nix settings;

  state = "a2a-claude/${name}";

  # Besides running turns (timeouts.shutdown), the server closes its clients and its store.
  closingSeconds = 15;
  stopSeconds = (setting "timeouts" "shutdown" + 999) / 1000 + closingSeconds;

  workingDirectory = references.parse (setting "claude" "workingDirectory");

  workspace =
    if agent.workspace != null then
      agent.workspace
    else
      let
        isDefault = map (each: each.name or null) workingDirectory == [ "WORKSPACE_DIR" ];
        default = if isDefault then (lib.head workingDirectory).default else null;
      in
      if default != null && lib.hasPrefix "/" default then
        default
      else
        references.absolute (setting "claude" "workingDirectory");

  # Not when the config takes the workspace from another variable.
  workspaceIsGiven =
    workspace != null
    || lib.all (each: builtins.isString each || each.name == "WORKSPACE_DIR") workingDirectory;

  ownWorkspace = workspace == null && workspaceIsGiven;

  writes =
    if agent.workspaceAccess != "auto" then
      agent.workspaceAccess == "read-write"
    else
      setting "claude" "permissionMode" != "plan"
      &&
        lib.subtractLists (setting "claude" "disallowedTools") [
          "Write"
          "Edit"
          "NotebookEdit"
          "Bash"
        ] != [ ];

  # What ProtectHome=tmpfs and PrivateTmp=yes replace: a path in them is only there when it is bound.
  isHidden =
    path:
    lib.any (folder: path == folder || lib.hasPrefix "${folder}/" path) [
      "/home"
      "/root"
      "/run/user"
      "/tmp"
      "/var/tmp"
    ];

  readByServer = lib.filter (path: path != null && isHidden path) (
    [
      (references.absolute (
        if settings.claude.executablePathOverride or null != null then
          settings.claude.executablePathOverride
        else
          ""
      ))
    ]
    ++ map (key: settings.server.tls.${key} or null) [
      "certificateFile"
      "keyFile"
      "clientCaFile"
    ]
  );

  worked =
    lib.optional (workspace != null) workspace
    ++ lib.filter (path: path != null) (
      map references.absolute (setting "claude" "additionalDirectories")
    );

  readable = agent.readOnlyPaths ++ lib.optionals (!writes) worked ++ readByServer;
  writable = agent.readWritePaths ++ lib.optionals writes worked;

  secrets = lib.mapAttrsToList (key: secret: secret // { name = key; }) agent.secrets;
  credentials =
    encrypted:
    map (secret: "${secret.name}:${systemd.line secret.file}") (
      lib.filter (secret: secret.encrypted == encrypted) secrets
    );

  documentationUrl = settings.agentCard.documentationUrl or null;

  hardening = (builtins.fromJSON (builtins.readFile ./hardening.json)).${agent.profile};

  # Empty lists would be empty lines, which reset a directive.
  present = lib.filterAttrs (_: value: value != [ ]);
in
{
  description = systemd.line "A2A agent “${setting "agentCard" "name"}” (${name})";
  # systemd drops a URL that is not all ASCII, and Nix cannot percent-encode it.
  documentation = lib.optional (
    documentationUrl != null && builtins.match "[!-~]+" documentationUrl != null
  ) (systemd.word documentationUrl);
  wants = [ "network-online.target" ];
  after = [
    "network-online.target"
  ]
  ++ agent.after
  ++ lib.optional agent.socketActivation "a2a-claude-${name}.socket";
  requires = lib.optional agent.socketActivation "a2a-claude-${name}.socket";
  wantedBy = lib.optional (!agent.socketActivation) "multi-user.target";

  inherit (agent) path;

  environment =
    lib.mapAttrs (_: systemd.literal) (
      agent.environment // lib.optionalAttrs (workspace != null) { WORKSPACE_DIR = workspace; }
    )
    // lib.optionalAttrs ownWorkspace { WORKSPACE_DIR = "%S/${state}/workspace"; }
    // {
      # systemd would list every state directory here; the server's is the first.
      STATE_DIRECTORY = "%S/${state}";
      HOME = "%S/${state}/home";
      CLAUDE_CONFIG_DIR = "%S/${state}/home/.claude";
    };

  unitConfig =
    present { RequiresMountsFor = map systemd.word (readable ++ writable); }
    // {
      StartLimitIntervalSec = "10min";
      StartLimitBurst = 20;
    };

  serviceConfig =
    lib.mapAttrs (_: lib.mkDefault) (
      hardening
      // {
        # A single Exec line: systemd 252 gives a dynamic user's credentials to the first one only.
        ExecStart = utils.escapeSystemdExecArgs [
          (lib.getExe package)
          "serve"
          "/etc/a2a-claude/${name}/agent.json"
        ];
        SyslogIdentifier = "a2a-claude-${name}";
        TimeoutStopSec = "${toString stopSeconds}s";

        StateDirectory = [
          state
          "${state}/home"
        ]
        ++ lib.optional ownWorkspace "${state}/workspace";
        StateDirectoryMode = "0700";

        EnvironmentFile = map systemd.line agent.environmentFiles ++ [ "-/etc/a2a-claude/${name}/env" ];

        MemoryMax = lib.removeSuffix "i" agent.memoryMax;
        TasksMax = agent.tasksMax;
      }
      // present {
        LoadCredential = credentials false;
        LoadCredentialEncrypted = credentials true;
        # Without its file, the credential is an empty line.
        SetCredential = map (secret: "${secret.name}:\\n") (lib.filter (secret: secret.optional) secrets);
        InaccessiblePaths = map (secret: systemd.word "-${secret.file}") secrets;
        BindPaths = map systemd.word writable;
        BindReadOnlyPaths = map systemd.word readable;
        ReadOnlyPaths = lib.optional (ownWorkspace && !writes) "%S/${
          lib.optionalString (agent.user == null) "private/"
        }${state}/workspace";
        CPUQuota = lib.optional (agent.cpuQuota != null) "${toString agent.cpuQuota}%";
        # Claude signs in with the host's role, which the cloud's metadata service gives.
        IPAddressAllow =
          lib.optional (setting "claude" "credentials" == [ ])
            "169.254.169.254/32 fd00:ec2::254/128 fd20:ce::254/128";
      }
      // (
        if agent.user == null then
          { DynamicUser = "yes"; }
        else
          {
            User = agent.user;
            Group = agent.user;
          }
      )
    )
    // agent.serviceConfig;
}
