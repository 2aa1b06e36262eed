# An agent as an image without a Dockerfile: `nix build .#image-reviewer && ./result | docker load`. The script streams
# the layers, so the Nix store holds no archive; user, folders and command are those of the compiled Dockerfile.
{
  lib,
  pkgs,
  name,
  # The folder with <name>/agent.json.
  compiled,
}:
let
  user = "10001:10001";
  state = "/var/lib/a2a-claude";
  workspace = "/workspace";
  config = "/etc/a2a-claude/${name}/agent.json";
  program = lib.getExe pkgs.a2a-claude;

  # A copy: the folder's name is the agent's.
  settings = pkgs.runCommand "a2a-claude-${name}-settings" { } ''
    mkdir -p $out/etc/a2a-claude
    cp -r ${compiled}/${name} $out/etc/a2a-claude/
  '';

  # Programs look their user up.
  accounts = pkgs.dockerTools.fakeNss.override {
    extraPasswdLines = [ "a2a-claude:x:${user}::${state}:/bin/false" ];
    extraGroupLines = [ "a2a-claude:x:10001:" ];
  };
in
pkgs.dockerTools.streamLayeredImage {
  name = "a2a-claude/${name}";

  contents = [
    accounts
    settings
    pkgs.bashInteractive
    pkgs.cacert
    pkgs.coreutils
    pkgs.dockerTools.binSh
    pkgs.dockerTools.usrBinEnv
    pkgs.findutils
    pkgs.gitMinimal
    pkgs.gnugrep
    pkgs.gnused
  ];

  fakeRootCommands = ''
    mkdir -p .${state} .${workspace} ./tmp
    chown ${user} .${state} .${workspace}
    chmod 0700 .${state} .${workspace}
    chmod 1777 ./tmp
  '';

  config = {
    Entrypoint = [
      (lib.getExe pkgs.tini)
      "--"
    ];
    # A container's loopback is reachable by nobody. Like any server that others reach, it does not start without
    # server.auth, unless the config has server.auth.allowUnauthenticated.
    Cmd = [
      program
      "serve"
      config
      "--hostname"
      "0.0.0.0"
    ];
    Healthcheck = {
      Test = [
        "CMD"
        program
        "healthcheck"
        config
        "--hostname"
        "0.0.0.0"
      ];
      # Nanoseconds.
      Interval = 30000000000;
      Timeout = 5000000000;
      StartPeriod = 30000000000;
      Retries = 3;
    };
    User = user;
    WorkingDir = workspace;
    Volumes.${state} = { };
    StopSignal = "SIGTERM";
    Env = [
      "CLAUDE_CONFIG_DIR=${state}/.claude"
      "HOME=${state}"
      "LANG=C.UTF-8"
      "PATH=/bin"
      "SSL_CERT_FILE=/etc/ssl/certs/ca-bundle.crt"
      "STATE_DIRECTORY=${state}"
      "WORKSPACE_DIR=${workspace}"
    ];
  };
}
