# Nix: `nix-build packaging/nix` builds knee, `nix-env -if packaging/nix` installs it. Pages have no scripts, since a build
# of Nix reaches no network for npm.
{ pkgs ? import <nixpkgs> { } }:
let
  workspace = (pkgs.lib.importTOML ../../Cargo.toml).workspace.package;
in
pkgs.rustPlatform.buildRustPackage {
  pname = "knee";
  version = workspace.version;
  src = pkgs.lib.cleanSourceWith {
    src = pkgs.lib.cleanSource ../..;
    filter = path: type: !(type == "directory" && builtins.elem (baseNameOf path) [ "target" "node_modules" "dist" ]);
  };
  cargoLock.lockFile = ../../Cargo.lock;

  nativeBuildInputs = [ pkgs.clang ];
  # One static binary: it runs in guests that have nothing else.
  buildInputs = [ pkgs.glibc.static (pkgs.zlib.override { static = true; shared = false; }) ];

  # Tests mount, boot and strike hosts: `make test` in a checkout runs them.
  doCheck = false;
  dontStrip = true;
  buildPhase = ''
    runHook preBuild
    sh .ci/build
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    patchShebangs packaging
    packaging/stage target/*/release/knee $out
    rm $out/install.sh
    runHook postInstall
  '';

  meta = {
    description = "Find where Linux code stops scaling with CPUs";
    license = with pkgs.lib.licenses; [ mit asl20 ];
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "knee";
  };
}
