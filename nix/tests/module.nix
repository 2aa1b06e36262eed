# The NixOS module on a virtual machine: `nix build .#checks.x86_64-linux.vm`, on a host with KVM.
{ pkgs, module }:
let
  echo = port: {
    settings = {
      agentCard = {
        name = "Echo";
        description = "Sends every message back.";
        version = "1.0.0";
      };
      server = { inherit port; };
    };
    secrets.ANTHROPIC_API_KEY.file = "/run/a-key";
  };

  # Without an account of Claude there is nobody else to answer.
  scripted =
    name:
    "/run/current-system/sw/bin/a2a-claude serve /etc/a2a-claude/${name}/agent.json --executor scripted";
in
pkgs.testers.runNixOSTest {
  name = "a2a-claude-module";

  nodes.machine = {
    imports = [ module ];
    environment.systemPackages = [ pkgs.a2a-claude ];
    # As agenix and sops-nix leave secrets: files of root, made when the system is activated.
    systemd.tmpfiles.rules = [ "f /run/a-key 0400 root root - a-key-of-the-test" ];
    services.a2a-claude.package = pkgs.a2a-claude;
    services.a2a-claude.agents = {
      echo = echo 3030 // {
        serviceConfig.ExecStart = scripted "echo";
      };
      reader = echo 3031 // {
        workspaceAccess = "read-only";
        serviceConfig.ExecStart = scripted "reader";
      };
      waiting = echo 3032 // {
        socketActivation = true;
        serviceConfig.ExecStart = scripted "waiting";
      };
    };
  };

  testScript = ''
    def call(port: int) -> str:
        return machine.succeed(f"a2a-claude call http://127.0.0.1:{port} hello").strip()

    def seen_by(unit: str, script: str) -> str:
        pid = machine.succeed(f"systemctl show {unit} --property=MainPID --value").strip()
        return f"nsenter --target {pid} --mount --setuid $(stat -c %u /proc/{pid}) sh -c '{script}'"

    machine.wait_for_unit("a2a-claude-echo.service")
    machine.wait_for_unit("a2a-claude-reader.service")
    assert call(3030) == "hello"

    with subtest("secrets are files of the server"):
        secret = "/run/credentials/a2a-claude-echo.service/ANTHROPIC_API_KEY"
        machine.succeed(seen_by("a2a-claude-echo", f"grep a-key-of-the-test {secret}"))
        machine.fail(seen_by("a2a-claude-echo", "cat /run/a-key"))
        machine.fail("grep --recursive a-key-of-the-test /etc/a2a-claude /etc/systemd/system")

    with subtest("a workspace is written by whoever may"):
        machine.succeed(seen_by("a2a-claude-echo", "touch /var/lib/a2a-claude/echo/workspace/x"))
        machine.fail(seen_by("a2a-claude-reader", "touch /var/lib/a2a-claude/reader/workspace/x"))

    with subtest("the first request starts an agent with a socket"):
        machine.fail("systemctl is-active a2a-claude-waiting.service")
        assert call(3032) == "hello"
        machine.succeed("systemctl is-active a2a-claude-waiting.service")

    with subtest("a killed server comes back"):
        machine.succeed("systemctl kill --kill-whom=main --signal=KILL a2a-claude-echo")
        machine.wait_until_succeeds("a2a-claude call http://127.0.0.1:3030 hello")

    with subtest("the unit is as confined as it is meant to be"):
        print(machine.succeed("systemd-analyze security a2a-claude-echo --threshold=15 --no-pager"))
  '';
}
