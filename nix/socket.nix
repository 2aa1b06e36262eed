# The socket of an agent that is started by its first request.
{ lib }:
name: agent:
let
  systemd = import ./systemd.nix { inherit lib; };
  setting = import ./settings.nix agent.settings;

  hostname = setting "server" "hostname";
  host =
    if hostname == "localhost" then
      "127.0.0.1"
    else if lib.hasInfix ":" hostname then
      "[${hostname}]"
    else
      hostname;
in
{
  description = systemd.line "A2A agent “${setting "agentCard" "name"}” (${name})";
  wantedBy = [ "sockets.target" ];
  listenStreams = [ "${host}:${toString agent.settings.server.port}" ];
  socketConfig = {
    NoDelay = "yes";
    # The address may come up later than the socket.
    FreeBind = "yes";
  };
}
