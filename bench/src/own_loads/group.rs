//! A control group whose processes stop and go on together, unseen by themselves: unlike SIGSTOP, the freezer of
//! cgroup2 tells no parent that its child has stopped.

use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io, ptr};

use anyhow::{Context, Result, ensure};

/// A control group of our own. Dropping it kills what is left in it.
pub struct Group {
    path: PathBuf,
    /// What its processes see as /tmp.
    temporary: CString,
}

/// What the names of groups begin with; the process that made them follows.
const PREFIX: &str = "knee-bench-";

/// How long processes may take to stop or to die: one of them may be in a long system call.
const PATIENCE: Duration = Duration::from_secs(10);

impl Group {
    /// A group whose processes see this folder as /tmp: what a test leaves there goes with the folder.
    pub fn new(name: &str, temporary: &Path) -> Result<Group> {
        fs::create_dir_all(temporary)?;
        let temporary = CString::new(temporary.as_os_str().as_encoded_bytes())?;
        let mounts = fs::read_to_string("/proc/self/mounts").context("reading the mounts")?;
        let mut mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = mount.rfind(|fields| fields.get(2) == Some(&"cgroup2"));
        let root = mount
            .context("no cgroup2 is mounted, which stops one program while the other runs")?[1];
        remove_abandoned(Path::new(root));
        let path = Path::new(root).join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("making {} (as root)", path.display()))?;
        Ok(Group { path, temporary })
    }

    /// A command that runs this one in the group, with the same process id, and dies with us.
    pub fn command(&self, wanted: &Command) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ > "$0" && exec "$@""#]).arg(self.path.join("cgroup.procs"));
        command.arg(wanted.get_program()).args(wanted.get_args());
        for (name, value) in wanted.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let temporary = self.temporary.clone();
        // SAFETY: only system calls, on memory that was made before the fork.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let (none, private) = (ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
                let mounted = libc::unshare(libc::CLONE_NEWNS) == 0
                    && libc::mount(none, c"/".as_ptr(), none, private, ptr::null()) == 0
                    && libc::mount(
                        temporary.as_ptr(),
                        c"/tmp".as_ptr(),
                        none,
                        libc::MS_BIND,
                        ptr::null(),
                    ) == 0;
                if mounted { Ok(()) } else { Err(io::Error::last_os_error()) }
            });
        }
        command
    }

    /// Stops all processes, wherever they are.
    pub fn freeze(&self) -> Result<()> {
        self.write("cgroup.freeze", "1")?;
        self.wait_for("cgroup.events", "frozen 1")
    }

    pub fn thaw(&self) -> Result<()> {
        self.write("cgroup.freeze", "0")
    }

    pub fn processes(&self) -> Result<Vec<u32>> {
        let text = self.read("cgroup.procs")?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = self.path.join(file);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, text).with_context(|| format!("writing {text} to {}", path.display()))
    }

    fn wait_for(&self, file: &str, wanted: &str) -> Result<()> {
        let since = Instant::now();
        while !self.read(file)?.contains(wanted) {
            ensure!(since.elapsed() < PATIENCE, "no '{wanted}' in {file} after {PATIENCE:?}");
            sleep(Duration::from_micros(100));
        }
        Ok(())
    }
}

/// Removes the groups of benchmarks that were killed. Their processes died with them.
fn remove_abandoned(root: &Path) {
    for group in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = group.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            // What is not empty stays.
            let _ = fs::remove_dir(group.path());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let emptied = self.write("cgroup.kill", "1");
        let emptied = emptied.and_then(|()| self.wait_for("cgroup.events", "populated 0"));
        let removed = emptied.and_then(|()| Ok(fs::remove_dir(&self.path)?));
        if let Err(why) = removed {
            eprintln!("{} is left: {why:#}", self.path.display());
        }
    }
}
