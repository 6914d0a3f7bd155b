//! Kernels that the host itself boots. knee loads a kernel with kexec_file_load(2), or makes it GRUB's entry for the
//! next boot, says in a file how to go on, and reboots into it; a unit of systemd starts knee again after each boot.
//!
//!     preparing ─ unit, kernel ─> rebooting ─ boot ─> measuring ─> rebooting … ─> cleared, firmware boot
//!
//! kexec changes nothing that the firmware or the boot loader reads, and GRUB forgets the entry before it starts it. So
//! whatever happens, the next reset boots the host's own kernel. There the unit finds the file, and knee notes the
//! boot that was lost.

mod grub;
mod kexec;
mod unit;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use host::durable::{remove_if_there, sync_folder, write_durably};
use host::paths::check_private;
use host::terminal::talk;
use records::Guest;
use rustix::fs::{FlockOperation, flock, statfs};
use serde::{Deserialize, Serialize};

use self::grub::Grub;
use crate::directory::open_directory;

pub use self::kexec::refusal as kexec_refusal;

/// Where the file lies: knee must find it after a boot, whatever its environment is then.
const FOLDER: &str = "/var/lib/knee";
const FILE: &str = "metal.json";

/// The word on a kernel's command line that says which boot it is.
const TOKEN: &str = "knee.boot=";

/// After this many lost attempts at a boot, its runs fail.
pub const BOOT_ATTEMPTS: usize = 2;

/// How long a shutdown may take until knee says that the host does not reboot.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(600);

/// How knee is started again after a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restart {
    /// By a unit of systemd, which knee installs and removes.
    Unit,
    /// By a boot script of the user's, which calls `knee metal`.
    Script,
}

/// What stays the same over all boots of one `knee run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trip {
    /// The arguments of knee.
    pub arguments: Vec<String>,
    /// The directory that it was started in.
    pub directory: PathBuf,
    /// The variables of its environment that decide where it finds its files.
    pub environment: BTreeMap<String, String>,
    pub restart: Restart,
    /// The command line of the host's own kernel.
    pub command_line: String,
    /// The host's own kernel, as in /proc/version.
    pub own_kernel: String,
    /// The build IDs of the kernels, by their files, as far as they are known.
    pub build_ids: BTreeMap<PathBuf, String>,
}

/// A boot that runs need. Runs with equal boots share one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelBoot {
    pub guest: Guest,
    pub block: u32,
    /// Whether it is for runs that repeat others of their block.
    pub placebo: bool,
}

/// How knee goes on after a boot.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ResumePoint {
    phase: Phase,
    /// The boot of the host in which this was written.
    boot_id: String,
    trip: Trip,
    boot: KernelBoot,
    /// The word on the command line of that boot's kernel, and when the reboot was asked for, in seconds since 1970.
    token: String,
    requested_s: f64,
    /// Why earlier attempts at this boot were lost.
    lost: Vec<String>,
    history: History,
}

impl ResumePoint {
    /// Whether knee died in this boot of the host, or before it asked for a reboot.
    fn is_stale(&self, boot_id: &str) -> bool {
        self.phase == Phase::Preparing || self.boot_id == boot_id
    }

    /// Whether the host is about to shut down for it.
    fn is_under_way(&self, boot_id: &str) -> bool {
        let since_s = (now_s() - self.requested_s).abs();
        self.phase == Phase::Rebooting
            && self.boot_id == boot_id
            && since_s < SHUTDOWN_TIMEOUT.as_secs_f64()
    }
}

/// What earlier boots showed of the kernels.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct History {
    /// Those that came up at least once.
    came_up: Vec<Guest>,
    /// Those that never did, each with why its attempts were lost.
    given_up: Vec<(Guest, String)>,
}

impl History {
    /// Notes what came of the attempts at a boot.
    fn note(&mut self, guest: &Guest, is_up: bool, lost: &[String]) {
        let is_known = self.given_up.iter().any(|(known, _)| known == guest);
        if is_up && !self.came_up.contains(guest) {
            self.came_up.push(guest.clone());
        } else if lost.len() >= BOOT_ATTEMPTS && !self.came_up.contains(guest) && !is_known {
            self.given_up.push((guest.clone(), lost.join("; ")));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// Nothing happens after a boot: knee died before it asked for the reboot.
    Preparing,
    Rebooting,
    Measuring,
}

/// The host after a reboot that knee asked for.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub boot: KernelBoot,
    /// Why attempts at this boot were lost, the last one included unless its kernel runs now.
    pub lost: Vec<String>,
    /// How long the reboot took, in seconds, if its kernel runs now.
    pub up_s: Option<f64>,
    /// The build ID of the kernel's file, if it is known.
    pub build_id: Option<String>,
    /// Kernels that never came up in earlier blocks, each with the reason.
    pub given_up: Vec<(Guest, String)>,
}

/// The reboots of one `knee run`. While this lives, no other knee may reboot the host or clear what this one
/// needs.
pub struct Reboots {
    lock: File,
    point: Option<ResumePoint>,
}

impl Reboots {
    /// Claims the host's reboots for this process.
    pub fn open() -> Result<Reboots> {
        let folder = Path::new(FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(|| {
            format!("creating {FOLDER}, which says after a boot how knee goes on")
        })?;
        let lock = open_directory(folder).with_context(|| format!("opening {FOLDER}"))?;
        check_private(folder, &lock.metadata()?)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(|| {
            format!("{FOLDER} is in use: another knee boots kernels on this host")
        })?;
        let point = read_point()?;
        Ok(Reboots { lock, point })
    }

    /// The command that the host was rebooted for.
    pub fn trip(&self) -> Option<&Trip> {
        self.point.as_ref().map(|point| &point.trip)
    }

    /// Whether knee died in this boot of the host, or before it asked for a reboot. What it left then has no
    /// further use.
    pub fn is_stale(&self) -> Result<bool> {
        let Some(point) = &self.point else { return Ok(false) };
        Ok(point.is_stale(&boot_id()?))
    }

    /// Finds out which kernel runs after a reboot, and notes that knee measures now.
    pub fn arrive(&mut self) -> Result<Arrival> {
        let mut point = self.point.clone().context("no reboot was asked for")?;
        let why_lost = match point.phase {
            Phase::Rebooting => lost_on_the_way(&point)?,
            _ => Some("the host was reset while runs were measured on it".to_string()),
        };
        point.lost.extend(why_lost.clone());
        let up_s = why_lost.is_none().then(|| now_s() - point.requested_s);
        (point.phase, point.boot_id) = (Phase::Measuring, boot_id()?);
        let guest = &point.boot.guest;
        point.history.note(guest, up_s.is_some(), &point.lost);
        let build_id = guest.kernel.as_ref().and_then(|kernel| point.trip.build_ids.get(kernel));
        let arrival = Arrival {
            boot: point.boot.clone(),
            lost: point.lost.clone(),
            up_s,
            build_id: build_id.cloned(),
            given_up: point.history.given_up.clone(),
        };
        self.write(point)?;
        Ok(arrival)
    }

    /// Reboots the host into a kernel. Returns only if the host does not reboot; nothing of it is left then.
    pub fn boot(&mut self, trip: Trip, boot: KernelBoot) -> Result<()> {
        let (mut lost, mut history) = (Vec::new(), History::default());
        if let Some(before) = self.point.take() {
            history = before.history;
            if before.boot == boot {
                lost = before.lost;
            }
        }
        let point = ResumePoint {
            phase: Phase::Preparing,
            boot_id: boot_id()?,
            token: format!("{:016x}", host::random()),
            requested_s: now_s(),
            trip,
            boot,
            lost,
            history,
        };
        let why = self.leave(point).err();
        self.clear()?;
        why.map_or(Ok(()), Err)
    }

    fn leave(&mut self, point: ResumePoint) -> Result<()> {
        self.write(point.clone())?;
        let restart = point.trip.restart;
        if restart == Restart::Unit {
            unit::install()?;
        }
        let guest = &point.boot.guest;
        let kernel = guest.kernel.as_ref().context("a boot has a kernel")?;
        let initrd = initrd(guest)?;
        let loader = load(kernel, initrd.as_deref(), &command_line(&point), restart)?;
        ensure!(host::signals::received().is_none(), "interrupted before the reboot");
        self.write(ResumePoint { phase: Phase::Rebooting, ..point })?;
        match (restart, loader) {
            (Restart::Unit, Loader::Kexec) => unit::shut_down("kexec", SHUTDOWN_TIMEOUT),
            (Restart::Unit, Loader::Grub) => unit::shut_down("reboot", SHUTDOWN_TIMEOUT),
            (Restart::Script, _) => kexec::reboot_into_loaded(),
        }
    }

    /// Removes everything that would act after a boot.
    pub fn clear(&mut self) -> Result<()> {
        kexec::unload()?;
        grub::clear()?;
        unit::remove()?;
        let file = Path::new(FOLDER).join(FILE);
        remove_if_there(&file).with_context(|| format!("removing {}", file.display()))?;
        sync_folder(Path::new(FOLDER))?;
        self.point = None;
        Ok(())
    }

    /// Reboots into the host's own kernel, by its firmware. Returns only if the host does not reboot.
    pub fn return_home(mut self, restart: Restart) -> Result<()> {
        self.clear()?;
        // The shutdown ends this process before it could.
        let _ = fs::remove_dir(FOLDER);
        match restart {
            Restart::Unit => unit::shut_down("reboot", SHUTDOWN_TIMEOUT),
            Restart::Script => kexec::reset(),
        }
    }

    fn write(&mut self, point: ResumePoint) -> Result<()> {
        let text = serde_json::to_vec_pretty(&point).context("writing JSON")?;
        write_durably(&Path::new(FOLDER).join(FILE), |mut file| Ok(file.write_all(&text)?))?;
        self.point = Some(point);
        Ok(())
    }
}

impl Drop for Reboots {
    fn drop(&mut self) {
        // The folder is knee's own; it stays if there is anything in it.
        let _ = fs::remove_dir(FOLDER);
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

/// What starts the next kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loader {
    Kexec,
    Grub,
}

/// Makes a kernel the next one: by kexec, or if this host refuses that, by GRUB.
fn load(
    kernel: &Path,
    initrd: Option<&Path>,
    command_line: &str,
    restart: Restart,
) -> Result<Loader> {
    let Err(why) = kexec::load(kernel, initrd, command_line) else { return Ok(Loader::Kexec) };
    let grub = grub_instead(restart).with_context(|| format!("{why:#}; nor by GRUB"))?;
    grub.choose(kernel, initrd, command_line)?;
    talk(format_args!("{why:#}: GRUB boots it instead, once"));
    Ok(Loader::Grub)
}

fn grub_instead(restart: Restart) -> Result<Grub> {
    ensure!(
        restart == Restart::Unit,
        "with --boot-script file systems stay mounted, and GRUB would read what they were before"
    );
    Grub::find()
}

/// Removes what a knee that died in this boot of the host left, but for a reboot that is under way. Returns a
/// sentence if there was anything.
pub fn sweep() -> Result<Option<String>> {
    remove(ResumePoint::is_stale)
}

/// Removes what would happen after a boot, but for a reboot that is under way: for a user who wants no more boots, and
/// for the unit, whose knee has ended. Returns a sentence if there was anything.
pub fn clean() -> Result<Option<String>> {
    remove(|_, _| true)
}

fn remove(is_left: impl Fn(&ResumePoint, &str) -> bool) -> Result<Option<String>> {
    if !Path::new(FOLDER).join(FILE).exists() || host::paths::user() != 0 {
        return Ok(None);
    }
    // Held by a knee that lives.
    let Ok(mut reboots) = Reboots::open() else { return Ok(None) };
    let boot_id = boot_id()?;
    let is_left = |point: &ResumePoint| is_left(point, &boot_id) && !point.is_under_way(&boot_id);
    if !reboots.point.as_ref().is_some_and(is_left) {
        return Ok(None);
    }
    reboots.clear()?;
    Ok(Some("cleared the boots that a knee that was killed had planned for this host".to_string()))
}

/// Whether knee booted the kernel that runs.
pub fn is_away() -> Result<bool> {
    Ok(words_of_command_line()?.iter().any(|word| word.starts_with(TOKEN)))
}

/// The command line of the kernel that runs, without what the boot loader or knee added.
pub fn own_command_line() -> Result<String> {
    let foreign = [TOKEN, "BOOT_IMAGE=", "initrd="];
    let words = words_of_command_line()?.into_iter();
    let own = words.filter(|word| !foreign.iter().any(|prefix| word.starts_with(prefix)));
    Ok(own.collect::<Vec<_>>().join(" "))
}

/// The kernel that runs, as in /proc/version.
pub fn running_version() -> Result<String> {
    let text = fs::read_to_string("/proc/version").context("reading /proc/version")?;
    Ok(text.trim().to_string())
}

/// Refuses files that are gone after a boot.
pub fn check_that_it_survives_a_boot(path: &Path) -> Result<()> {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    let found = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let kind = statfs(found).with_context(|| format!("looking for {}", path.display()))?.f_type;
    ensure!(
        kind != TMPFS && kind != RAMFS,
        "{} lies in memory and is gone after a boot: put it on a disk",
        path.display()
    );
    Ok(())
}

/// Refuses hosts that knee cannot reboot into another kernel and return to. Returns what the user should know before
/// the host reboots.
pub fn check_host(restart: Restart) -> Result<Vec<String>> {
    ensure!(host::paths::user() == 0, "only root may boot another kernel (--on metal)");
    if let Some(why) = kexec::taken() {
        bail!("this host cannot boot a kernel (--on metal): {why}");
    }
    let mut advice = Vec::new();
    if let Some(why) = kexec_refusal() {
        grub_instead(restart).with_context(|| {
            format!("this host cannot boot a kernel by kexec (--on metal): {why}; nor by GRUB")
        })?;
        advice.push(format!("{why}: GRUB's entry for the next boot is used instead"));
    }
    if restart == Restart::Unit {
        unit::check()?;
        advice.extend(unit::advice_on_watchdogs());
    }
    check_that_it_survives_a_boot(Path::new(FOLDER))?;
    check_that_it_survives_a_boot(&unit::binary()?)?;
    Ok(advice)
}

/// The initramfs to boot a kernel with: the one that is named, or the one beside the kernel. `none` is none.
pub fn initrd(guest: &Guest) -> Result<Option<PathBuf>> {
    if let Some(named) = &guest.initrd {
        return Ok(Some(named.clone()).filter(|path| path != Path::new("none")));
    }
    let kernel = guest.kernel.as_ref().context("a boot has a kernel")?;
    let name = kernel.file_name().unwrap_or_default().to_string_lossy();
    let release = name.strip_prefix("vmlinuz-").unwrap_or(&name);
    let beside = |name: String| kernel.with_file_name(name);
    let names = [
        format!("initrd.img-{release}"),
        format!("initramfs-{release}.img"),
        format!("initrd-{release}"),
    ];
    let found = names.clone().map(beside).into_iter().find(|path| path.exists());
    ensure!(
        found.is_some(),
        "{} has no initramfs beside it ({}): name one with --initrd FILE, or --initrd none if the kernel mounts \
         its root without",
        kernel.display(),
        names.join(", ")
    );
    Ok(found)
}

/// The whole command line of a boot.
fn command_line(point: &ResumePoint) -> String {
    let added = point.boot.guest.cmdline.as_deref().unwrap_or_default();
    let mut words = vec![point.trip.command_line.as_str(), added];
    let has_panic = words
        .iter()
        .flat_map(|text| text.split_whitespace())
        .any(|word| word.strip_prefix("panic=").is_some_and(|seconds| seconds != "0"));
    // A kernel that panics must reset the host, which then boots its own kernel.
    if !has_panic {
        words.push("panic=10");
    }
    let token = format!("{TOKEN}{}", point.token);
    words.push(&token);
    words.iter().flat_map(|text| text.split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// Why the kernel that runs is not the one that the host was rebooted into.
fn lost_on_the_way(point: &ResumePoint) -> Result<Option<String>> {
    let token = format!("{TOKEN}{}", point.token);
    if words_of_command_line()?.contains(&token) {
        return Ok(None);
    }
    let running = running_version()?;
    let which = if running == point.trip.own_kernel { "its own kernel" } else { running.as_str() };
    let kernel = point.boot.guest.kernel.as_deref().unwrap_or(Path::new("?"));
    Ok(Some(format!("{} did not come up: the host was reset into {which}", kernel.display())))
}

fn words_of_command_line() -> Result<Vec<String>> {
    let text = fs::read_to_string("/proc/cmdline").context("reading /proc/cmdline")?;
    Ok(text.split_whitespace().map(str::to_string).collect())
}

fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    Ok(text.trim().to_string())
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

fn read_point() -> Result<Option<ResumePoint>> {
    let path = Path::new(FOLDER).join(FILE);
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("reading {}", path.display()))?,
    };
    match serde_json::from_str(&text) {
        Ok(point) => Ok(Some(point)),
        Err(why) => {
            talk(format_args!("{} is not understood ({why}): remove it", path.display()));
            bail!("{} says how another knee goes on, and cannot be read", path.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(own: &str, added: &str) -> ResumePoint {
        let guest = Guest { cmdline: Some(added.to_string()), ..Guest::default() };
        ResumePoint {
            phase: Phase::Preparing,
            boot_id: String::new(),
            trip: Trip {
                arguments: Vec::new(),
                directory: PathBuf::new(),
                environment: BTreeMap::new(),
                restart: Restart::Unit,
                command_line: own.to_string(),
                own_kernel: String::new(),
                build_ids: BTreeMap::new(),
            },
            boot: KernelBoot { guest, block: 0, placebo: false },
            token: "7".to_string(),
            requested_s: 0.0,
            lost: Vec::new(),
            history: History::default(),
        }
    }

    #[test]
    fn a_reboot_that_is_under_way_is_left_alone() {
        let check = |phase, boot_id: &str, since_s, is_stale, is_under_way| {
            let boot_id = boot_id.to_string();
            let requested_s = now_s() - since_s;
            let point = ResumePoint { phase, boot_id, requested_s, ..point("", "") };
            assert_eq!(
                (point.is_stale("now"), point.is_under_way("now")),
                (is_stale, is_under_way)
            );
        };
        check(Phase::Preparing, "now", 1.0, true, false);
        check(Phase::Rebooting, "now", 1.0, true, true);
        check(Phase::Rebooting, "now", 1000.0, true, false);
        // The host has arrived, or was reset.
        check(Phase::Rebooting, "before", 1.0, false, false);
        check(Phase::Measuring, "now", 1.0, true, false);
        check(Phase::Measuring, "before", 1.0, false, false);
    }

    #[test]
    fn a_kernel_that_never_came_up_is_given_up() {
        let guest = Guest::default();
        let given_up = |came_up: bool, losses: usize| {
            let mut history = History::default();
            if came_up {
                history.note(&guest, true, &[]);
            }
            history.note(&guest, false, &vec!["reset".to_string(); losses]);
            history.note(&guest, false, &vec!["reset".to_string(); losses]);
            history.given_up.len()
        };
        assert_eq!(given_up(false, BOOT_ATTEMPTS), 1);
        assert_eq!(given_up(false, BOOT_ATTEMPTS - 1), 0, "it is tried again");
        assert_eq!(given_up(true, BOOT_ATTEMPTS), 0, "it came up in another block");
    }

    #[test]
    fn a_kernel_that_panics_resets_the_host() {
        let check = |own, added, expected| assert_eq!(command_line(&point(own, added)), expected);
        check("root=/dev/sda1 ro", "nopv", "root=/dev/sda1 ro nopv panic=10 knee.boot=7");
        check("root=/dev/sda1 panic=5", "", "root=/dev/sda1 panic=5 knee.boot=7");
        check("panic=0", "", "panic=0 panic=10 knee.boot=7");
    }

    #[test]
    fn the_initramfs_is_named_or_lies_beside_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("vmlinuz-6.1");
        let guest = Guest { kernel: Some(kernel), ..Guest::default() };
        let why = initrd(&guest).unwrap_err().to_string();
        assert!(why.contains("--initrd none"), "{why}");
        let beside = folder.path().join("initramfs-6.1.img");
        fs::write(&beside, "").unwrap();
        assert_eq!(initrd(&guest).unwrap(), Some(beside));
        let none = Guest { initrd: Some("none".into()), ..guest };
        assert_eq!(initrd(&none).unwrap(), None);
    }

    #[test]
    fn what_lies_in_memory_does_not_survive_a_boot() {
        let memory = Path::new("/dev/shm/knee");
        let why = check_that_it_survives_a_boot(memory).unwrap_err().to_string();
        assert!(why.contains("put it on a disk"), "{why}");
    }
}
