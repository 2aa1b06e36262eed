# The runtime's Python packages: nixpkgs' own where it is at least as new as uv.lock, else the release that uv.lock
# pins, by the hash that stands there.
{
  lib,
  autoPatchelfHook,
  fetchurl,
  python3Packages,
  stdenv,
}:
let
  pins = lib.listToAttrs (
    map (each: lib.nameValuePair each.name each) (lib.importTOML ../uv.lock).package
  );

  fetch =
    file:
    fetchurl {
      inherit (file) url;
      sha256 = lib.removePrefix "sha256:" file.hash;
    };

  source = name: fetch pins.${name}.sdist;

  python = "cp${lib.replaceStrings [ "." ] [ "" ] python3Packages.python.pythonVersion}";
  cpu = stdenv.hostPlatform.parsed.cpu.name;

  # A wheel for any Python, else the one for this Python and processor.
  wheel =
    name:
    let
      fits =
        file:
        lib.hasSuffix "-py3-none-any.whl" file.url
        || builtins.match ".*-${python}-${python}-manylinux[^/]*_${cpu}[.]whl" file.url != null;
    in
    fetch (
      lib.findFirst fits (throw "uv.lock has no wheel of ${name} for ${python} on ${cpu}") pins.${name}.wheels
    );

  atLeast =
    name: build:
    let
      ours = python3Packages.${name};
    in
    if lib.versionAtLeast ours.version pins.${name}.version then
      ours
    else
      python3Packages.buildPythonPackage (
        {
          pname = name;
          inherit (pins.${name}) version;
          inherit (ours) meta;
        }
        // build
      );

  fromWheel =
    name: build:
    atLeast name (
      {
        format = "wheel";
        src = wheel name;
      }
      // build
    );
in
{
  a2a-sdk = fromWheel "a2a-sdk" {
    dependencies = with python3Packages; [
      google-api-core
      googleapis-common-protos
      httpx
      json-rpc
      packaging
      protobuf
      pydantic
    ];
  };

  # The sdist: the wheels carry a CLI of 400 MB that does not start on NixOS.
  claude-agent-sdk = atLeast "claude-agent-sdk" {
    pyproject = true;
    src = source "claude-agent-sdk";
    build-system = [ python3Packages.hatchling ];
    dependencies = with python3Packages; [
      anyio
      jsonschema
      mcp
      sniffio
    ];
  };

  falcon = fromWheel "falcon" { };

  granian = fromWheel "granian" {
    nativeBuildInputs = [ autoPatchelfHook ];
    buildInputs = [ (lib.getLib stdenv.cc.cc) ];
    dependencies = [ python3Packages.click ];
  };
}
