//! What installations put beside the binary and what their removal leaves: by `make`, and from packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::{Home, entries};
use crate::skip::{is_root, skip};

/// The verbs that `knee --help` shows, which leaves out the internal ones.
fn verbs(home: &Home) -> Vec<String> {
    let help = home.run("--help").stdout;
    let listed = help.lines().take_while(|line| !line.starts_with("Options"));
    // The description of a verb goes on in lines that are indented further.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_string()).collect()
}

#[test]
fn completions_name_every_verb() {
    let home = Home::new();
    let verbs = verbs(&home);
    assert!(verbs.iter().any(|verb| verb == "run") && verbs.len() > 10, "{verbs:?}");
    let mut complete = home.knee("complete");
    let offered = home.start(complete.arg("--line=knee ")).end().stdout;
    for verb in &verbs {
        assert!(offered.lines().any(|line| line == verb), "no '{verb}' in:\n{offered}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let ended = home.run(&format!("completions {shell}"));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains("complete -"), "{shell}: {}", ended.stdout);
    }
    let ended = home.run("completions csh");
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("[possible values: bash"), "{}", ended.stderr);
}

#[test]
fn every_verb_has_a_manual_page() {
    let home = Home::new();
    let ended = home.run(&format!("man-pages {}", home.path("measured").display()));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for verb in verbs(&home) {
        if verb == "help" {
            continue;
        }
        let page = home.path("measured").join(format!("knee-{verb}.1"));
        let text = fs::read_to_string(&page).unwrap_or_else(|why| panic!("{verb}: {why}"));
        assert!(text.contains(".TH") && text.contains("SYNOPSIS"), "{text}");
    }
    assert!(home.path("measured").join("knee.1").exists());
    assert!(!home.path("measured").join("knee-worker.1").exists(), "it is internal");
    let ended = home.run("man-pages nowhere");
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("nowhere"), "{}", ended.stderr);
}

#[test]
fn the_licences_of_all_that_is_linked_are_listed_with_their_texts() {
    let home = Home::new();
    let ended = home.run("--licenses");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, home.run("help licenses").stdout);
    let (list, texts) = ended.stdout.split_once("-----").expect("texts follow the list");
    let lines: Vec<&str> = list.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(lines.len() > 80, "{list}");
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_crate = words[1].starts_with(|first: char| first.is_ascii_digit());
        let name = words[..2].join(" ");
        assert!(words.len() > 1 && (!is_crate || texts.contains(&name)), "{line}");
    }
    // What every program here is linked with, and what only tests are.
    assert!(list.contains("  clap ") && list.contains("  Rust standard library "), "{list}");
    for name in ["expect-test", "schemars", "clap_derive"] {
        assert!(!list.contains(&format!("  {name} ")), "{list}");
    }
    assert!(texts.contains("Permission is hereby granted, free of charge"), "{texts}");
}

/// The folder of the sources.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn make_installs_and_removes_the_binary_completions_manual_pages_and_docs() {
    let home = Home::new();
    let prefix = home.path("measured");
    let make = |goal: &str| {
        let mut make = Command::new("make");
        make.arg("-C").arg(root()).arg(goal).arg("DESTDIR=").env_remove("MAKEFLAGS");
        make.arg(format!("KNEE={}", env!("CARGO_BIN_EXE_knee")));
        make.arg(format!("PREFIX={}", prefix.display())).output()
    };
    let Ok(made) = make("install") else { return skip("make install", "there is no make") };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for file in [
        "bin/knee",
        "share/bash-completion/completions/knee",
        "share/zsh/site-functions/_knee",
        "share/fish/vendor_completions.d/knee.fish",
        "share/man/man1/knee.1.gz",
        "share/man/man1/knee-run.1.gz",
        "share/doc/knee/docs/guide/bisect.md",
        "share/doc/knee/LICENSE-MIT",
    ] {
        let found = fs::metadata(prefix.join(file));
        assert!(found.is_ok_and(|found| found.len() > 0), "{file}");
    }
    assert!(entries(&prefix).len() == 2, "bin and share");
    // What somebody else has there stays.
    fs::write(prefix.join("share/man/man1/other.1"), "other").unwrap();
    let removed = make("uninstall").unwrap();
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert_eq!(entries(&prefix.join("share")).len(), 1);
    assert_eq!(entries(&prefix.join("share/man/man1")).len(), 1);
    assert!(!prefix.join("bin").exists());
    let again = make("uninstall").unwrap();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("nothing to remove"), "{said}");
}

/// What makepkg does with the recipe for Arch, from the moment that the binary is built.
const ARCH_PACKAGE: &str = r#"
set -eu
startdir=$1/packaging/arch
pkgdir=$2/package
export CARGO_TARGET_DIR=$2/target
. "$startdir/PKGBUILD"
release=$CARGO_TARGET_DIR/$(rustc -vV | sed -n 's/^host: //p')/release
mkdir -p "$release"
ln -s "$3" "$release/knee"
ln -s "$1" "$2/$pkgname"
cd "$2"
package
echo "knee $pkgver"
"#;

#[test]
fn the_recipe_for_arch_packs_what_others_pack() {
    let home = Home::new();
    let folder = home.path("arch");
    fs::create_dir(&folder).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", ARCH_PACKAGE, "bash"]).arg(root().canonicalize().unwrap()).arg(&folder);
    let ended = bash.arg(env!("CARGO_BIN_EXE_knee")).output().unwrap();
    let (out, said) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{said}");
    assert_eq!(out.lines().last(), Some(concat!("knee ", env!("CARGO_PKG_VERSION"))), "{out}");
    let usr = folder.join("package/usr");
    let names = |path: &str| -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries(&usr.join(path)).iter().map(name).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["bin", "share"]);
    assert_eq!(names("bin"), ["knee"]);
    assert_eq!(names("share/licenses/knee"), ["LICENSE-APACHE", "LICENSE-MIT"]);
    assert!(names("share/man/man1").contains(&"knee-run.1.gz".to_string()));
    assert!(names("share/doc/knee").contains(&"docs".to_string()));
}

#[test]
fn the_recipe_for_nix_is_well_formed() {
    let mut nix = Command::new("nix-instantiate");
    nix.arg("--parse").arg(root().join("packaging/nix/default.nix"));
    let Ok(parsed) = nix.output() else { return skip("nix", "there is no nix-instantiate") };
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
}

/// A program in a root of its own: an overlay of this host's, so that what it leaves is in a folder.
const IN_FRESH_ROOT: &str = r#"
set -eu
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" || exit 77
mkdir -p "$1/root/mnt"
mount --bind "$2" "$1/root/mnt"
mount -t proc proc "$1/root/proc"
mount --bind /dev "$1/root/dev"
mount --bind /sys "$1/root/sys"
chroot "$1/root" sh -euc "$3"
(cd "$1/upper" && find . -type f | sort)
"#;

/// Installs by a script in a root of its own, uses knee, removes it, and says which files are left there; nothing where this
/// host mounts no overlay over its root.
fn left_after(home: &Home, dist: &Path, install: &str, remove: &str) -> Option<Vec<String>> {
    let folder = home.path("fresh");
    fs::create_dir_all(&folder).unwrap();
    let inside = format!(
        "cd /mnt; export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin KNEE_RECORDS=/tmp/knee-records
        {{ {install}; }} > /dev/null
        test \"$(command -v knee)\" = /usr/bin/knee
        knee run first-look --seconds 0.1 --blocks 1 > /tmp/knee-curve 2> /tmp/knee-said
        grep -q operations /tmp/knee-curve
        knee doctor > /dev/null 2>&1 || test $? = 1
        test -s /usr/share/man/man1/knee-run.1.gz
        test -s /usr/share/bash-completion/completions/knee
        rm -rf /tmp/knee-*
        {{ {remove}; }} > /dev/null"
    );
    let mut isolated = Command::new("unshare");
    isolated.args(["--mount", "--propagation", "private", "sh", "-c", IN_FRESH_ROOT, "sh"]);
    let ended = isolated.arg(&folder).arg(dist).arg(inside).output().unwrap();
    let (out, said) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    if ended.status.code() == Some(77) {
        skip("packages", said.trim());
        return None;
    }
    assert!(ended.status.success(), "{install}: {said}{out}");
    Some(out.lines().map(str::to_string).collect())
}

#[test]
fn packages_install_and_leave_nothing() {
    const TEST: &str = "packages";
    if !is_root() {
        return skip(TEST, "they are installed in a root of their own, which needs root");
    }
    let home = Home::new();
    let dist = home.path("dist");
    let small = home.path("knee");
    fs::copy(env!("CARGO_BIN_EXE_knee"), &small).unwrap();
    let stripped = Command::new("strip").arg(&small).status();
    if !stripped.is_ok_and(|status| status.success()) {
        return skip(TEST, "there is no strip");
    }
    let mut pack = Command::new(root().join("packaging/pack"));
    pack.arg(&small).arg(&dist).env("KNEE_PACK_LEVEL", "0");
    let packed = pack.output().unwrap();
    let said = String::from_utf8_lossy(&packed.stderr).into_owned();
    assert!(packed.status.success(), "{said}");
    let names: Vec<String> = entries(&dist)
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let has = |ending: &str| names.iter().any(|name| name.ends_with(ending));
    assert!(has("linux.tar.xz") && has(".oci.tar") && has("SHA256SUMS"), "{names:?}");
    let check = |install: &str, remove: &str, allowed: &[&str]| {
        let Some(left) = left_after(&home, &dist, install, remove) else { return };
        let left: Vec<&String> = left
            .iter()
            .filter(|path| !allowed.iter().any(|known| path.starts_with(known)))
            .collect();
        assert!(left.is_empty(), "{install} leaves {left:?}");
    };
    check(
        "sha256sum -c SHA256SUMS; tar -C /tmp -xf knee-*.tar.xz; mv /tmp/knee-*-linux /tmp/knee-unpacked; /tmp/knee-unpacked/install.sh --prefix /usr",
        "tar -C /tmp -xf knee-*.tar.xz; /tmp/knee-*/install.sh --prefix /usr --uninstall; rm -rf /tmp/knee-*",
        &[],
    );
    if has(".deb") {
        // dpkg's own books.
        check(
            "dpkg -i knee_*.deb",
            "dpkg -r knee",
            &["./var/lib/dpkg", "./var/log/dpkg", "./var/cache/man"],
        );
    } else {
        skip(TEST, "no .deb: there is no dpkg-deb");
    }
    if has(".rpm") {
        check("rpm -i --nodeps knee-*.rpm", "rpm -e knee", &["./var/lib/rpm", "./root/.rpmdb"]);
    } else {
        skip(TEST, "no .rpm: there is no rpmbuild");
    }
}
