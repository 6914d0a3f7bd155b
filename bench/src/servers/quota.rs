//! A control group whose processes get a share of one CPU, in either version of cgroups. Dropping it removes it; groups
//! that killed benchmarks left go with the next one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// What the names of groups begin with; the process that made them follows.
const PREFIX: &str = "knee-servers-";

/// The group, until it is dropped.
pub struct QuotaGroup {
    path: PathBuf,
    /// Where its processes go when it ends.
    parent: PathBuf,
}

impl QuotaGroup {
    /// A group with this share of one CPU in each period.
    pub fn new(share: f64, period_us: u64) -> Result<QuotaGroup> {
        let (parent, is_second) = hierarchy()?;
        remove_abandoned(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("making {} (as root)", path.display()))?;
        let group = QuotaGroup { path, parent };
        let quota_us = (share * period_us as f64) as u64;
        if is_second {
            group.write("cpu.max", &format!("{quota_us} {period_us}"))?;
        } else {
            group.write("cpu.cfs_period_us", &period_us.to_string())?;
            group.write("cpu.cfs_quota_us", &quota_us.to_string())?;
        }
        Ok(group)
    }

    /// Moves a process with all its threads into the group.
    pub fn take(&self, process: u32) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, text).with_context(|| format!("writing {text} to {}", path.display()))
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        let processes = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for process in processes.lines() {
            let _ = fs::write(self.parent.join("cgroup.procs"), process);
        }
        if let Err(why) = fs::remove_dir(&self.path) {
            eprintln!("{} is left: {why}", self.path.display());
        }
    }
}

/// Where groups with a CPU controller are made, and whether that is cgroup2.
fn hierarchy() -> Result<(PathBuf, bool)> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("reading the mounts")?;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, root, kind, options, ..] = fields[..] else { continue };
        let root = Path::new(root);
        if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
            return Ok((root.to_path_buf(), false));
        }
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if kind == "cgroup2" && controllers.split_whitespace().any(|name| name == "cpu") {
            // Where it is enabled already, this changes nothing.
            fs::write(root.join("cgroup.subtree_control"), "+cpu")
                .with_context(|| format!("enabling CPU quotas in {} (as root)", root.display()))?;
            return Ok((root.to_path_buf(), true));
        }
    }
    ensure!(false, "no control groups with a CPU controller are mounted");
    unreachable!("the line above returns")
}

/// Removes the groups of benchmarks that were killed. Their processes died with them.
fn remove_abandoned(root: &Path) {
    for group in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = group.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX);
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            // What is not empty stays.
            let _ = fs::remove_dir(group.path());
        }
    }
}
