//! What each host said about itself before it measured: `hosts/NAME.json`. So the status names a host that cannot
//! measure, and why, although it claims nothing.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use host::Limit;
use host::mounts::Space;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claims::{Folder, name};

const HOSTS: &str = "hosts";
const CHECK_LIMIT: Limit = Limit { bytes: 1 << 20, what: "what a host says about itself" };

/// What stands in the way of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostCheck {
    /// Name of the host.
    pub host: String,
    /// Why it cannot measure, and what to do; empty if it can.
    pub problems: Vec<String>,
    /// What may mislead readers of its runs.
    pub warnings: Vec<String>,
}

/// Less space than this is a full store: a record grows, is copied once when it ends, and other hosts write too.
const SPACE_MIN_BYTES: u64 = 32 << 20;

/// Clocks farther apart than this mislead who reads times in a record.
const CLOCK_MAX: Duration = Duration::from_secs(60);

impl HostCheck {
    /// Looks whether a host can write to the directory, and adds why the plan refuses it, if it does.
    pub fn new(host: &str, folder: &Folder, refusal: Option<String>) -> HostCheck {
        let mut check = HostCheck { host: host.to_string(), ..HostCheck::default() };
        check.problems.extend(refusal);
        check.problems.extend(
            folder
                .root()
                .to_str()
                .is_none()
                .then(|| "the directory's path is not UTF-8: mount it elsewhere".to_string()),
        );
        check.problems.extend(why_full(folder.root()));
        match folder.shared_time() {
            Ok(shared) => check.warnings.extend(clock(SystemTime::now(), shared)),
            Err(why) => check.problems.push(format!("it cannot write there: {why:#}")),
        }
        check
    }
}

/// Why no records can grow in a directory, and what to do; `None` if they can.
pub fn why_full(directory: &Path) -> Option<String> {
    let why = host::mounts::space(directory).and_then(full)?;
    Some(format!("{}: {why}", directory.display()))
}

/// Whether the file system of the directory is full, or will be soon.
fn full(space: Space) -> Option<String> {
    let mebibytes = |bytes: u64| bytes / (1 << 20);
    if space.bytes_free < SPACE_MIN_BYTES {
        return Some(format!(
            "the directory has {} MiB free, and records need {} MiB: remove files there",
            mebibytes(space.bytes_free),
            mebibytes(SPACE_MIN_BYTES)
        ));
    }
    let inodes = space.inodes_free.filter(|free| *free < 100)?;
    Some(format!("the directory has room for {inodes} more files: remove some there"))
}

/// Whether this host's clock is far from that of the file system.
fn clock(local: SystemTime, shared: SystemTime) -> Option<String> {
    let (apart, direction) = match local.duration_since(shared) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    (apart > CLOCK_MAX).then(|| {
        format!(
            "its clock is {} s {direction} that of the directory: chunks are not affected, but times in \
             its records are wrong; set the clock",
            apart.as_secs()
        )
    })
}

impl Folder {
    /// The time by the clock of whoever serves the directory: that of a file made there now.
    pub fn shared_time(&self) -> Result<SystemTime> {
        let folder = self.below("beats")?;
        let name = format!(".new-{:016x}", host::random());
        let made = || -> Result<SystemTime> {
            let mut file = folder.create_new(&name)?;
            file.write_all(b"0")?;
            file.sync_all()?;
            Ok(file.metadata()?.modified()?)
        };
        let time = made().with_context(|| format!("writing into {}", folder.path().display()));
        let _ = folder.remove(&name);
        time
    }

    /// How long ago the owner of a claim last showed life, by `now` of [`Folder::shared_time`].
    pub fn silence(&self, chunk: usize, claim: u32, now: SystemTime) -> Option<Duration> {
        let modified = |folder: &str| {
            let found = self.below(folder).ok()?.look(name(chunk, claim)).ok()??;
            UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(found.st_mtime).ok()?))
        };
        now.duration_since(modified("beats").or_else(|| modified("claims"))?).ok()
    }

    /// Keeps what a host says about itself, in the place of what it said before. Processes of one host may
    /// write at the same time: the last one counts.
    pub fn keep_check(&self, check: &HostCheck) -> Result<()> {
        let text = serde_json::to_string_pretty(check)?;
        let name = format!("{}.json", file_name(&check.host));
        self.held().create_folder(HOSTS)?.put(name, text.as_bytes())
    }

    /// What hosts said about themselves, by name; without files that are damaged or not whole yet. A file that
    /// is none of knee's is named as a host that cannot measure.
    pub fn checks(&self) -> Result<Vec<HostCheck>> {
        let Some(folder) = self.held().folder(HOSTS)? else { return Ok(Vec::new()) };
        let mut checks: Vec<HostCheck> = Vec::new();
        for entry in folder.list()? {
            let name = entry.name.to_string_lossy().into_owned();
            let Some(host) = name.strip_suffix(".json") else { continue };
            match folder.read_text(&entry.name, CHECK_LIMIT) {
                Ok(text) => checks.extend(text.and_then(|text| serde_json::from_str(&text).ok())),
                Err(why) => checks.push(HostCheck {
                    host: host.to_string(),
                    problems: vec![format!("{why:#}")],
                    warnings: Vec::new(),
                }),
            }
        }
        checks.sort_by(|a, b| a.host.cmp(&b.host));
        Ok(checks)
    }
}

/// A host's name as that of a file.
fn file_name(host: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = host.chars().take(64).map(|c| if allowed(c) { c } else { '_' }).collect();
    if name.is_empty() { "unnamed".to_string() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_system_and_a_wrong_clock_are_said() {
        let space =
            |bytes_free, inodes_free| Space { bytes_total: 1 << 40, bytes_free, inodes_free };
        assert_eq!(full(space(1 << 30, None)), None);
        assert_eq!(full(space(1 << 30, Some(5000))), None);
        assert!(full(space(3 << 20, None)).unwrap().contains("3 MiB free"));
        assert!(full(space(1 << 30, Some(7))).unwrap().contains("7 more files"));
        let (now, second) = (SystemTime::now(), Duration::from_secs(1));
        assert_eq!(clock(now, now + 59 * second), None);
        assert!(clock(now, now + 3600 * second).unwrap().contains("3600 s behind"));
        assert!(clock(now, now - 3600 * second).unwrap().contains("3600 s ahead"));
    }

    #[test]
    fn names_of_hosts_stay_in_the_folder() {
        assert_eq!(file_name("node-7.lab"), "node-7_lab");
        assert_eq!(file_name("../../etc/x"), "______etc_x");
        assert_eq!(file_name(""), "unnamed");
    }
}
