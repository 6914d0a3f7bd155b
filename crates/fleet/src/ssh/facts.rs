//! What a host says about itself before anything is sent to it, and the shell that says it.

use anyhow::{Context, Result};

/// The line that begins so ends whatever a login shell prints.
pub const MARK: &str = "knee-host-1 ";

/// Becomes the whole command line of ssh, for whatever shell the user has there: so no line breaks, no
/// single quotes and no exclamation marks within. Tries where programs may be executed, files in memory
/// first; says what the host is; reads the length of a binary and the binary; removes the directory however
/// it ends, also when the connection does, since then its standard input ends. Removes first what an earlier one left
/// that was killed: a directory of this user whose shell, named by its number and namespace, is gone.
pub const SCRIPT: &str = concat!(
    "exec sh -c '",
    "umask 077; d=; gone() { rm -rf \"$d\"; }; ",
    "trap gone EXIT; trap \"exit 1\" HUP INT TERM PIPE; ",
    "n=$(readlink /proc/self/ns/pid); ",
    "for o in /dev/shm/knee-* ${XDG_RUNTIME_DIR:-/dev/shm}/knee-* /tmp/knee-* /var/tmp/knee-*; do ",
    "[ -O \"$o\" ] && [ \"$(cat \"$o/shell\" 2> /dev/null)\" = \"$n\" ] || continue; ",
    "p=${o##*/knee-$(id -u)-}; kill -0 \"${p%%-*}\" 2> /dev/null || rm -rf \"$o\"; done; ",
    "for t in /dev/shm ${XDG_RUNTIME_DIR:-} /tmp /var/tmp; do ",
    // Fails if somebody has made it before.
    "d=$t/knee-$(id -u)-$$-$(date +%s); mkdir -m 700 \"$d\" 2> /dev/null || { d=; continue; }; ",
    "echo \"$n\" > \"$d/shell\"; ",
    // An empty file is a script that succeeds, unless the mount forbids to execute it.
    ": > \"$d/knee\"; chmod 700 \"$d/knee\"; \"$d/knee\" 2> /dev/null && break; ",
    "rm -rf \"$d\"; d=; done; ",
    "echo \"knee-host-1 $(uname -m) $(uname -r) $(date +%s) ",
    "$(cat /proc/sys/kernel/random/boot_id) ${d:-none}\"; ",
    "[ -n \"$d\" ] || exit 1; ",
    "read -r size || exit 1; ",
    "head -c \"$size\" > \"$d/knee\" 2> /dev/null; ",
    "[ \"$(wc -c < \"$d/knee\")\" -eq \"$size\" ] || ",
    "{ free=$(df -kP \"$d\" | { read -r line; read -r a b c free e; echo \"$free\"; }); ",
    "echo \"knee was not written whole to $d: it takes $((size / 1024 + 1)) KiB, ",
    "and $free KiB are free there\" >&2; exit 1; }; ",
    "\"$d/knee\" --quiet remote \"$d\"; exit $?'",
);

/// What a host says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub architecture: String,
    pub kernel: String,
    /// Its clock, in seconds since 1970.
    pub clock_s: i64,
    pub boot_id: String,
    /// Where its knee lies; `None` if files can be executed in no directory for temporary files.
    pub directory: Option<String>,
}

impl Facts {
    /// Parses what follows [`MARK`].
    pub fn parse(line: &str) -> Result<Facts> {
        let read = || -> Option<Facts> {
            let mut words = line.trim_end().splitn(5, ' ');
            Some(Facts {
                architecture: words.next()?.to_string(),
                kernel: words.next()?.to_string(),
                clock_s: words.next()?.parse().ok()?,
                boot_id: words.next()?.to_string(),
                directory: words.next().filter(|d| *d != "none").map(str::to_string),
            })
        };
        read().with_context(|| format!("the host describes itself as {line:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_from_its_line() {
        let facts = Facts::parse("x86_64 6.1.0-9 1764000000 8d3f /dev/shm/knee-a b\n").unwrap();
        assert_eq!(facts.directory.as_deref(), Some("/dev/shm/knee-a b"));
        assert_eq!((facts.kernel.as_str(), facts.clock_s), ("6.1.0-9", 1_764_000_000));
        assert_eq!(Facts::parse("x86_64 6.1 7 b none").unwrap().directory, None);
        for wrong in ["", "x86_64 6.1", "x86_64 6.1 now b /tmp"] {
            assert!(Facts::parse(wrong).is_err(), "{wrong}");
        }
    }
}
