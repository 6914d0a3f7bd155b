//! Boots: the initramfs is put together once for each kernel. Then QEMU is started, and knee waits until
//! the guest's init is ready.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use guests::architecture::Architecture;
use guests::initramfs::{Archive, compressed};
use guests::kernel::Kernel;
use guests::modules::{ModuleTree, NeededModules};
use guests::qemu::{Accelerator, GuestOutput, Qemu, QemuOptions, cpu_model};
use guests::tracer::Tracer;
use host::terminal::talk;
use host::{Topology, memfd, paths, signals};
use own_loads::Linkage;
use plan::guest_config;
use records::{
    AcceleratorChoice, Aged, Boot, FileSystem, Guest, Hypervisor, INSTRUCTIONS, OwnLoad, Policy,
    Record, Storage,
};
use setup::file_systems::kinds;
use setup::file_systems::sparse_copy::copy_onto;

use super::ageing::{self, AgedDisk};
use super::disk::Disk;
use super::protocol::{GuestAge, MODULES, Ready, Reply, Request, line};
use super::watchdog::Watchdog;
use super::{commands, console, hypervisor, program};

/// Boots guests.
pub struct Booter {
    prepared: Vec<Prepared>,
    storage: Storage,
    /// The file systems that runs in a guest want, each with the guest.
    file_systems: Vec<(Guest, FileSystem)>,
    /// Aged file systems, of which runs get copies. Each is aged at the first boot that needs it.
    aged_disks: Vec<AgedDisk>,
    /// The seed for ageing.
    seed: u64,
    /// How long a program that makes or checks a file system may take.
    time: Duration,
    /// The directory for disks that are only tried out.
    dir: PathBuf,
    /// Whether the kernel will change its own code under load, as it does for probes.
    has_probes: bool,
    /// What executes guests and why KVM does not, once a boot has shown it.
    accelerator: Option<(Accelerator, Option<String>)>,
    /// Whether the guests get programs of this host: the user's own loads, or commands.
    has_host_programs: bool,
    /// The kernel modules that commands load, each with the option that builds it.
    modules: BTreeMap<String, String>,
    /// The text of /etc/passwd, if servers run as users.
    users: Option<String>,
    /// Whether instructions decide, so that guests count them unless they were asked for otherwise.
    counts_instructions: bool,
    /// What watches the guests' accesses to memory, if anything does.
    tracer: Option<Rc<Tracer>>,
    /// Whether something will watch them, which only sees what x86-64 kernels do.
    is_watched: bool,
    /// More files of the host for the guest, by their paths in the guest.
    pub added: Vec<(String, PathBuf)>,
}

/// A guest that is up.
pub struct BootedGuest {
    pub qemu: Qemu,
    /// The guest's disk, if it has one.
    pub disk: Option<Disk>,
    /// The boot as a record keeps it.
    pub boot: Boot,
}

/// What is on a guest's disk.
#[derive(Clone, Default)]
pub struct FormattedDisk {
    /// The geometry that the file system's programs report.
    pub geometry: BTreeMap<String, String>,
    /// How it was aged, if it was.
    pub aged: Option<Aged>,
}

/// A kernel with its initramfs.
struct Prepared {
    /// The kernel's file, and the directory to find its modules in.
    paths: (PathBuf, Option<PathBuf>),
    kernel: Kernel,
    initramfs: fs::File,
    bytes: u64,
    /// Modules that were not found, a sentence each.
    missing: Vec<String>,
    /// The types of its modules that have any, by module.
    module_types: BTreeMap<String, Vec<u8>>,
}

/// Modules that every guest needs: the bus, the stream.
const NEEDED_MODULES: [&str; 2] = ["virtio_pci", "virtio_console"];

/// The longest boot: 255 emulated CPUs on two of the host's take some minutes.
const BOOT_TIMEOUT: Duration = Duration::from_secs(1200);

/// A KVM guest that is silent for longer hangs: a broken KVM can do that. Even emulation takes only
/// some seconds.
const KVM_SILENCE: Duration = Duration::from_secs(20);

/// What the warnings of knee begin with, among the lines that a boot keeps.
pub const WARNING_PREFIX: &str = "knee: ";

/// How long a guest may take to switch itself off.
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(10);

/// The path of the program of a user's own load in a guest, without the first slash.
pub fn program_in_guest(load: &str) -> String {
    format!("loads/{load}.static")
}

/// The programs of the loads that the user wrote, by their paths in the guest.
fn own_programs(record: &Record) -> Result<Vec<(String, PathBuf)>> {
    let own = record.experiment.own_loads();
    let program = |own: &OwnLoad| {
        Ok((program_in_guest(&own.name()), own_loads::program(own, Linkage::Static)?))
    };
    own.map(program).collect()
}

impl Booter {
    /// Boots the guests of a record.
    pub fn new(record: &Record) -> Result<Booter> {
        let mut file_systems = Vec::new();
        for point in &record.points {
            let made = record.file_system(point);
            if let (Some(guest), Some(made)) = (record.guest(&point.variant), made) {
                let wanted = (guest, made.clone());
                file_systems.extend((!file_systems.contains(&wanted)).then_some(wanted));
            }
        }
        let first = record.points.first().context("a record has a point")?;
        let mut added = own_programs(record)?;
        added.extend(commands::files(record)?);
        Ok(Booter {
            storage: record.experiment.storage.clone(),
            file_systems,
            seed: record.seed,
            time: Duration::from_secs_f64(record.experiment.timeout_s),
            dir: first.dir.clone(),
            has_probes: record.experiment.explain.is_some()
                || record.experiment.counts_allocations(),
            has_host_programs: !added.is_empty(),
            modules: commands::modules(record)?,
            users: commands::users(record)?,
            counts_instructions: record.experiment.is_judged_by(INSTRUCTIONS),
            added,
            ..Booter::without_file_systems()
        })
    }

    /// Boots guests without file systems.
    pub fn without_file_systems() -> Booter {
        Booter {
            prepared: Vec::new(),
            storage: Storage::default(),
            file_systems: Vec::new(),
            aged_disks: Vec::new(),
            seed: 0,
            time: Duration::from_secs(600),
            dir: paths::temporary(),
            has_probes: false,
            accelerator: None,
            has_host_programs: false,
            modules: BTreeMap::new(),
            users: None,
            counts_instructions: false,
            tracer: None,
            is_watched: false,
            added: Vec::new(),
        }
    }

    /// Boots one guest whose accesses to memory are watched, with files in its root directory.
    pub fn traced(
        guest: &Guest,
        made: Option<&FileSystem>,
        memory_bytes: u64,
        added: Vec<(String, PathBuf)>,
    ) -> Result<Booter> {
        let mut booter = Booter {
            added,
            file_systems: made.map(|made| (guest.clone(), made.clone())).into_iter().collect(),
            is_watched: true,
            ..Booter::without_file_systems()
        };
        let architecture = booter.architecture(guest)?;
        let version = guests::qemu::version(architecture)?;
        booter.accelerator = Some((guests::qemu::watched_accelerator(&version)?, None));
        booter.tracer = Some(Rc::new(Tracer::new(&version, memory_bytes)?));
        Ok(booter)
    }

    /// What watches the guests of [`Booter::traced`].
    pub fn tracer(&self) -> Result<&Tracer> {
        self.tracer.as_deref().context("the guest is not watched")
    }

    /// The types of the modules that guests with the first kernel load.
    pub fn module_types(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let types = self.prepared.first().into_iter().flat_map(|kernel| &kernel.module_types);
        types.map(|(module, types)| (module.as_str(), types.as_slice()))
    }

    /// Boots a guest to see whether it comes up and has what its runs need. The first such boot shows
    /// what executes guests. `random` is as for [`Booter::boot`].
    pub fn try_out(&mut self, guest: &Guest, random: u64) -> Result<(Hypervisor, BootedGuest)> {
        let dir = self.dir.clone();
        let architecture = self.architecture(guest)?;
        let (accelerator, why_not_kvm) = match &self.accelerator {
            Some(known) => known.clone(),
            None => self.find_accelerator(guest, &dir, architecture)?,
        };
        self.accelerator = Some((accelerator, why_not_kvm.clone()));
        let mut booted = self.boot(guest, &dir, random)?;
        let file_systems = self.file_systems.clone().into_iter();
        for (_, file_system) in file_systems.filter(|(other, _)| other == guest) {
            self.rehearse(&mut booted, file_system)?;
        }
        Ok((hypervisor::describe(architecture, accelerator, why_not_kvm)?, booted))
    }

    /// Makes a file system in a guest to see whether that works, and ages it if runs get copies of an
    /// aged one.
    fn rehearse(&mut self, booted: &mut BootedGuest, made: FileSystem) -> Result<()> {
        let Some(disk) = &booted.disk else { return Ok(()) };
        let geometry = self.format_disk(disk, &made)?.geometry;
        let is_aged = self.aged_disks.iter().any(|aged| aged.made == made);
        if self.storage.policy == Policy::Aged && !is_aged {
            let request = GuestAge { made, age: self.storage.age.clone(), seed: self.seed };
            let limit = guest_config::watchdog_time(&booted.boot.guest)?;
            let watchdog = Watchdog::new(limit, self.time, self.time);
            let qemu = &mut booted.qemu;
            self.aged_disks.push(ageing::age(qemu, disk, request, geometry, watchdog, &self.dir)?);
        }
        Ok(())
    }

    /// Puts a file system on a disk: a new one, or a copy of the aged one.
    pub fn format_disk(&self, disk: &Disk, made: &FileSystem) -> Result<FormattedDisk> {
        match self.aged_disks.iter().find(|aged| aged.made == *made) {
            Some(AgedDisk { image, geometry, aged, .. }) => {
                copy_onto(image, &disk.file)?;
                Ok(FormattedDisk { geometry: geometry.clone(), aged: Some(aged.clone()) })
            }
            None => Ok(FormattedDisk { geometry: disk.format(made)?, aged: None }),
        }
    }

    /// Finds what executes guests: KVM if a boot with it succeeds, else emulation and why not KVM.
    fn find_accelerator(
        &mut self,
        guest: &Guest,
        dir: &Path,
        architecture: Architecture,
    ) -> Result<(Accelerator, Option<String>)> {
        let emulation = if self.has_probes { Accelerator::TcgOneThread } else { Accelerator::Tcg };
        let choice = guest.accelerator_choice()?;
        let counts = choice == AcceleratorChoice::Any && self.counts_instructions;
        if counts || choice == AcceleratorChoice::Icount {
            ensure!(
                guest.shape()?.cpus() == 1,
                "instructions are counted on one CPU: the virtual machine has {}",
                guest.shape()?.cpus()
            );
            return Ok((Accelerator::TcgCounted, Some("instructions are counted".to_string())));
        }
        if choice == AcceleratorChoice::Tcg {
            return Ok((emulation, Some("emulation was requested".to_string())));
        }
        let why_not = match hypervisor::no_kvm(architecture) {
            Some(why) => why,
            None => match self.boot_with(guest, dir, 0, Accelerator::Kvm) {
                Ok(booted) => {
                    power_off(booted.qemu);
                    return Ok((Accelerator::Kvm, None));
                }
                Err(why) => format!("a boot with KVM failed: {why:#}"),
            },
        };
        ensure!(
            choice == AcceleratorChoice::Any,
            "KVM was requested but does not work here: {why_not}"
        );
        talk(format_args!(
            "guests are emulated: their times say nothing about real processors ({why_not})"
        ));
        Ok((emulation, Some(why_not)))
    }

    /// Boots a guest. `random` decides the kernel's address; 0 leaves it where it was linked.
    pub fn boot(&mut self, guest: &Guest, dir: &Path, random: u64) -> Result<BootedGuest> {
        let accelerator = self.accelerator.as_ref().map_or(Accelerator::Tcg, |(known, _)| *known);
        self.boot_with(guest, dir, random, accelerator)
    }

    fn boot_with(
        &mut self,
        guest: &Guest,
        dir: &Path,
        random: u64,
        accelerator: Accelerator,
    ) -> Result<BootedGuest> {
        let kinds = self.kinds(guest)?;
        let has_disk = kinds.iter().any(|kind| *kind != "tmpfs");
        let disk = has_disk.then(|| Disk::new(&self.storage, dir, self.time)).transpose()?;
        let tracer = self.tracer.clone();
        let prepared = self.prepare(guest, &kinds, has_disk)?;
        let shape = guest.shape()?;
        let cmdline = guest.cmdline.as_deref().unwrap_or_default();
        let nokaslr = random == 0 || cmdline.split_whitespace().any(|word| word == "nokaslr");
        let image = prepared.kernel.image(random, shape.memory, nokaslr)?;
        let unpacked = image.bytes.map(|bytes| memfd::in_memory("kernel", &bytes)).transpose()?;
        let architecture = prepared.kernel.architecture;
        let console = architecture.console();
        let emulated = accelerator != Accelerator::Kvm;
        let spared = if emulated { architecture.words_for_emulation() } else { "" };
        let attempt = BootAttempt {
            guest,
            accelerator,
            command_line: format!(
                "console={console} panic=-1 rdinit=/knee {spared}{cmdline} -- init"
            ),
            initramfs_bytes: prepared.bytes,
            started: jiff::Timestamp::now(),
            since: Instant::now(),
        };
        let mut qemu = Qemu::start(&QemuOptions {
            architecture,
            kernel: &unpacked.as_ref().map_or(prepared.kernel.path.clone(), memfd::path),
            initramfs: &prepared.initramfs,
            command_line: &attempt.command_line,
            shape: &shape,
            accelerator,
            cpu: guest.cpu.as_deref().unwrap_or(cpu_model(architecture, &shape, accelerator)),
            disk: disk.as_ref().map(|disk| &disk.file),
            host_cpus: &guest_config::host_cpus(guest, &super::allowed_cpus()?)?,
            tracer: tracer.as_deref(),
        })?;
        let silence = attempt.silence()?;
        let (ready, kernel_lines) =
            wait_for_init(&mut qemu, silence, prepared).with_context(|| {
                format!("booting {} ({})", prepared.kernel.path.display(), prepared.kernel.release)
            })?;
        let mut boot = attempt.into_boot(ready, kernel_lines);
        check_cpus(&boot, shape.cpus())?;
        boot.said.extend(topology_warning(&boot, &shape.topology()));
        Ok(BootedGuest { qemu, disk, boot })
    }

    /// The architecture of a guest's kernel: that of all kernels of a record.
    fn architecture(&mut self, guest: &Guest) -> Result<Architecture> {
        let kinds = self.kinds(guest)?;
        let has_disk = kinds.iter().any(|kind| *kind != "tmpfs");
        Ok(self.prepare(guest, &kinds, has_disk)?.kernel.architecture)
    }

    /// The kinds of file systems that runs in this guest need.
    fn kinds(&self, guest: &Guest) -> Result<Vec<&'static str>> {
        let wanted = self.file_systems.iter().filter(|(other, _)| other == guest);
        wanted.map(|(_, made)| Ok(kinds::kind(&made.kind)?.name)).collect()
    }

    /// The kernel with its initramfs, which is put together at the first call.
    fn prepare(&mut self, guest: &Guest, kinds: &[&str], disk: bool) -> Result<&Prepared> {
        let path = guest.kernel.clone().context("a guest has a kernel")?;
        let paths = (path, guest.modules.clone());
        if let Some(index) = self.prepared.iter().position(|prepared| prepared.paths == paths) {
            return Ok(&self.prepared[index]);
        }
        let kernel = Kernel::open(&paths.0)?;
        self.check_architecture(&kernel)?;
        let tree = ModuleTree::find(&paths.0, &kernel.release, paths.1.as_deref())?;
        let mut wanted = NEEDED_MODULES.to_vec();
        wanted.extend(disk.then_some("virtio_blk"));
        // The module ext4 also serves ext2 and ext3, unless they are modules of their own.
        wanted.extend(kinds.iter().filter(|kind| **kind != "tmpfs").map(|kind| match *kind {
            "ext2" | "ext3" => "ext4",
            other => other,
        }));
        let needed = match &tree {
            Some(tree) => tree.needed(&wanted)?,
            None => NeededModules::default(),
        };
        let missing = match &tree {
            None => vec![format!(
                "no modules of {} were found beside the kernel or in /lib/modules: what it needs \
                 must be built in (--modules DIR says where they are)",
                kernel.release
            )],
            Some(tree) if !needed.missing.is_empty() => vec![format!(
                "{} has no module {}, so it must be built in",
                tree.root.display(),
                needed.missing.join(", ")
            )],
            Some(_) => Vec::new(),
        };
        let loadable = commands::module_files(&self.modules, &kernel, tree.as_ref())?;
        let mut archive = self.archive(kernel.architecture, &needed, loadable)?;
        if kernel.takes_zstd() {
            archive = compressed(&archive)?;
        }
        let initramfs = memfd::in_memory("initramfs", &archive)?;
        let bytes = archive.len() as u64;
        let types =
            needed.modules.iter().map(|module| Some((module.name.clone(), module.types()?)));
        let module_types = types.flatten().collect();
        self.prepared.push(Prepared { paths, kernel, initramfs, bytes, missing, module_types });
        Ok(self.prepared.last().expect("it was pushed"))
    }

    /// Refuses a kernel whose guests could not do what the record asks for.
    fn check_architecture(&self, kernel: &Kernel) -> Result<()> {
        let (architecture, path) = (kernel.architecture, kernel.path.display());
        ensure!(
            !self.is_watched || architecture == Architecture::X86_64,
            "{path} is for {}: only kernels for x86-64 can be watched",
            architecture.name()
        );
        guests::qemu::version(architecture)?;
        let other = self.prepared.first().filter(|o| o.kernel.architecture != architecture);
        if let Some(Prepared { kernel: other, .. }) = other {
            let (other_path, other) = (other.path.display(), other.architecture.name());
            bail!(
                "{path} is for {}, and {other_path} for {other}: measure one architecture at a time",
                architecture.name()
            );
        }
        ensure!(
            architecture == Architecture::HOST || !self.has_host_programs,
            "{path} is for {}, and commands and loads of your own are programs for this host: measure knee's workloads \
             there (knee list workloads), or name a kernel for {}",
            architecture.name(),
            Architecture::HOST.name()
        );
        Ok(())
    }

    /// The files of a guest. `loadable` are modules that are not loaded at once.
    fn archive(
        &self,
        architecture: Architecture,
        needed: &NeededModules,
        loadable: Vec<(String, Vec<u8>)>,
    ) -> Result<Vec<u8>> {
        let mut archive = Archive::default();
        archive.directory("dev");
        // Without it, messages of init from before it has mounted /dev are lost.
        archive.device("dev/console", 5, 1);
        archive.file("knee", &program::for_guest(architecture)?);
        let folder = MODULES.trim_start_matches('/');
        archive.directory(folder);
        for (number, module) in needed.modules.iter().enumerate() {
            archive.file(&format!("{folder}/{number:03}-{}.ko", module.name), &module.bytes);
        }
        for (name, path) in &self.added {
            let content =
                fs::read(path).with_context(|| format!("reading {} (--add)", path.display()))?;
            archive.file_with_parents(name, &content);
        }
        if let Some(users) = &self.users {
            archive.file_with_parents("etc/passwd", users.as_bytes());
        }
        for (name, content) in &loadable {
            archive.file_with_parents(name, content);
        }
        Ok(archive.finish())
    }
}

/// A boot that is under way.
struct BootAttempt<'a> {
    guest: &'a Guest,
    accelerator: Accelerator,
    command_line: String,
    initramfs_bytes: u64,
    started: jiff::Timestamp,
    since: Instant,
}

impl BootAttempt<'_> {
    /// How long the guest may print nothing.
    fn silence(&self) -> Result<Duration> {
        let limit = guest_config::watchdog_time(self.guest)?;
        Ok(match self.accelerator {
            Accelerator::Kvm => limit.min(KVM_SILENCE),
            Accelerator::Tcg | Accelerator::TcgOneThread | Accelerator::TcgCounted => limit,
        })
    }

    /// The boot as a record keeps it, once init is ready.
    fn into_boot(self, ready: Ready, kernel_lines: Vec<String>) -> Boot {
        let host = ready.host;
        Boot {
            boot: 0,
            block: 0,
            started: self.started,
            guest: self.guest.clone(),
            release: host.kernel_release.unwrap_or_default(),
            version: host.kernel_version.unwrap_or_default(),
            build_id: None,
            command_line: host.kernel_command_line.unwrap_or(self.command_line),
            boot_id: host.boot_id.unwrap_or_default(),
            accelerator: match self.accelerator {
                Accelerator::TcgOneThread => "tcg, one thread".to_string(),
                other => hypervisor::name(other).to_string(),
            },
            text: ready.text,
            up_s: self.since.elapsed().as_secs_f64(),
            topology: ready.topology,
            modules: ready.modules,
            initramfs_bytes: self.initramfs_bytes,
            said: [kernel_lines, ready.problems].concat(),
            end: None,
            seconds: None,
        }
    }
}

/// Waits until init is ready. Returns its message, and the lines of the kernel log before it.
fn wait_for_init(
    qemu: &mut Qemu,
    silence: Duration,
    Prepared { kernel, missing, .. }: &Prepared,
) -> Result<(Ready, Vec<String>)> {
    let since = Instant::now();
    let mut last_output = since;
    let mut kernel_lines = Vec::new();
    loop {
        ensure!(signals::received().is_none(), "interrupted");
        let output = qemu.next(Duration::from_millis(500));
        if output != GuestOutput::Nothing {
            last_output = Instant::now();
        }
        match output {
            GuestOutput::Line(text) => match Reply::read(&text) {
                Ok(Reply::Kernel(text)) => kernel_lines.push(text),
                Ok(Reply::Ready(ready)) => return Ok((*ready, kernel_lines)),
                _ => (),
            },
            GuestOutput::Off => bail!("the guest {}{}", console::exit_reason(qemu), hints(missing)),
            GuestOutput::Printed | GuestOutput::Nothing => (),
        }
        let (why, time) = if last_output.elapsed() > silence {
            ("printed nothing for", last_output.elapsed())
        } else if since.elapsed() > BOOT_TIMEOUT {
            ("was not ready after", since.elapsed())
        } else {
            continue;
        };
        let console = qemu.console();
        let last = if console.trim().is_empty() {
            format!(
                "it has printed nothing at all: does the kernel have a serial console ({})?",
                kernel.architecture.console_option()
            )
        } else {
            format!("on its console last: {}", console::last_line(&console))
        };
        bail!("the guest {why} {:.0} s ({last}){}", time.as_secs_f64(), hints(missing));
    }
}

fn hints(missing: &[String]) -> String {
    missing.iter().map(|text| format!("; {text}")).collect()
}

/// A warning if the guest sees another topology than was requested: placements would be wrong then.
fn topology_warning(boot: &Boot, wanted: &Topology) -> Option<String> {
    let groups = |topology: &Topology| -> Vec<(u32, u32, u32)> {
        topology.cpus.iter().map(|cpu| (cpu.core, cpu.node, cpu.package)).collect()
    };
    (groups(&boot.topology) != groups(wanted)).then(|| {
        format!(
            "{WARNING_PREFIX}the guest sees other cores, nodes or packages than requested, so placements \
             are not what their names say: choose another --guest-cpu"
        )
    })
}

/// Refuses a kernel that does not bring all CPUs online.
fn check_cpus(boot: &Boot, wanted: u32) -> Result<()> {
    let has = boot.topology.cpus.len();
    ensure!(
        has == wanted as usize,
        "Linux {} has {has} of the guest's {wanted} CPUs online: was it built with CONFIG_SMP and a \
         CONFIG_NR_CPUS of at least {wanted}?",
        boot.release
    );
    Ok(())
}

/// Asks a guest to switch itself off. Returns whether it did.
pub fn power_off(mut qemu: Qemu) -> bool {
    qemu.send(&line(&Request::PowerOff)).is_ok() && qemu.wait(POWER_OFF_TIMEOUT)
}
