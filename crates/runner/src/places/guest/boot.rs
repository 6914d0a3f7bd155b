//! A boot: what it needs is put together once for each kernel, then QEMU is started and
//! waited for until its init has said that it is up.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use guests::initramfs::{Archive, compressed, stripped};
use guests::kernel::Kernel;
use guests::modules::{ModuleTree, NeededModules};
use guests::qemu::{Accelerator, GuestOutput, QemuOptions, Qemu};
use host::stderr::talk;
use host::{Topology, memfd, signals};
use plan::guest_config;
use records::{
    AcceleratorChoice, Aged, Boot, FileSystem, Guest, GuestShape, Hypervisor, Policy, Record,
    Storage,
};
use setup::file_systems::kinds;
use setup::file_systems::sparse_copy::copy_onto;

use crate::places::guest::ageing::{self, Pristine};
use crate::places::guest::disk::Disk;
use crate::places::guest::hypervisor;
use crate::places::guest::protocol::{self, GuestAge, Reply, Request, line};
use crate::places::guest::watchdog::Watchdog;

/// Boots guests.
pub struct Booter {
    prepared: Vec<Prepared>,
    storage: Storage,
    /// The file systems that runs in a guest want, each with the guest.
    file_systems: Vec<(Guest, FileSystem)>,
    /// Those of which runs get copies, aged at the first boot that wants one.
    pristine: Vec<Pristine>,
    /// Of how they are aged.
    seed: u64,
    /// How long a program that makes or checks one may take.
    time: Duration,
    /// Where a disk lies that is only tried out.
    dir: PathBuf,
    /// Whether the kernel will change its own code under load, as it does for probes.
    watched: bool,
    /// What executes guests, once a boot has shown it.
    found: Option<(Accelerator, Option<String>)>,
    /// Files of the host that the guest gets besides, by their paths there.
    pub added: Vec<(String, PathBuf)>,
}

/// A guest that is up.
pub struct Up {
    /// The running QEMU.
    pub qemu: Qemu,
    /// Its disk, if it has one.
    pub disk: Option<Disk>,
    /// What it is.
    pub boot: Boot,
}

/// What lies on a guest's disk.
#[derive(Clone, Default)]
pub struct FormattedDisk {
    /// As its programs tell it.
    pub geometry: BTreeMap<String, String>,
    /// How it was aged, if it was.
    pub aged: Option<Aged>,
}

/// A kernel with what it needs.
struct Prepared {
    /// The kernel's file, and where its modules were looked for.
    of: (PathBuf, Option<PathBuf>),
    kernel: Kernel,
    initramfs: fs::File,
    bytes: u64,
    /// What it will miss.
    missing: Vec<String>,
}

/// Modules without which nothing works: the bus, the stream.
const NEEDED: [&str; 2] = ["virtio_pci", "virtio_console"];

/// The longest boot: 255 emulated CPUs on two take some minutes.
const LONGEST: Duration = Duration::from_secs(1200);

/// How long a KVM that works needs for what takes emulation some seconds; some hang instead.
const KVM_SILENCE: Duration = Duration::from_secs(20);

/// What an emulated kernel need not find out, before the user's words: how often a loop turns in a
/// tick, which each CPU counts for some tenths of a second with all others waiting (this is 2.5 GHz
/// at 250 ticks/s, and waits by loops have no device here to wait for), and whether the CPUs' clocks
/// agree, which are all the host's. The last of each word is what the kernel takes.
const EMULATED: &str = "lpj=10000000 tsc=reliable ";

/// How long a guest may take to switch itself off.
const OFF: Duration = Duration::from_secs(10);

impl Booter {
    /// For the guests of a record.
    pub fn new(record: &Record) -> Result<Booter> {
        guests::qemu::version()?;
        let mut file_systems = Vec::new();
        for point in &record.points {
            let made = record.file_system(point);
            if let (Some(guest), Some(made)) = (record.guest(&point.variant), made) {
                let wanted = (guest, made.clone());
                file_systems.extend((!file_systems.contains(&wanted)).then_some(wanted));
            }
        }
        let first = record.points.first().context("a record has a point")?;
        Ok(Booter {
            storage: record.experiment.storage.clone(),
            file_systems,
            seed: record.seed,
            time: Duration::from_secs_f64(record.experiment.timeout_s),
            dir: first.dir.clone(),
            watched: record.experiment.explain.is_some(),
            ..Booter::alone()
        })
    }

    /// For guests without file systems.
    pub fn alone() -> Booter {
        Booter {
            prepared: Vec::new(),
            storage: Storage::default(),
            file_systems: Vec::new(),
            pristine: Vec::new(),
            seed: 0,
            time: Duration::from_secs(600),
            dir: std::env::temp_dir(),
            watched: false,
            found: None,
            added: Vec::new(),
        }
    }

    /// Boots a guest to see whether it comes up and has what its runs want. The first one shows
    /// what executes guests.
    pub fn try_out(&mut self, guest: &Guest) -> Result<(Hypervisor, Up)> {
        let dir = self.dir.clone();
        if self.found.is_none() {
            self.found = Some(self.find_accelerator(guest, &dir)?);
        }
        let mut up = self.boot(guest, &dir, 0)?;
        let wanted: Vec<FileSystem> =
            self.file_systems.iter().filter(|(of, _)| of == guest).map(|of| of.1.clone()).collect();
        for made in wanted {
            self.rehearse(&mut up, made)?;
        }
        let (accelerator, why_not) = self.found.clone().context("it was found")?;
        Ok((hypervisor::found(accelerator, why_not)?, up))
    }

    /// Makes a file system in a guest to see whether that can be, and ages it if each run is to get a
    /// copy.
    fn rehearse(&mut self, up: &mut Up, made: FileSystem) -> Result<()> {
        let Some(disk) = &up.disk else { return Ok(()) };
        let geometry = self.format_disk(disk, &made)?.geometry;
        let is_aged = self.pristine.iter().any(|known| known.made == made);
        if self.storage.policy == Policy::Aged && !is_aged {
            let wanted = GuestAge { made, age: self.storage.age.clone(), seed: self.seed };
            let watchdog =
                Watchdog::new(guest_config::watchdog_time(&up.boot.guest)?, self.time, self.time);
            let of = (&mut up.qemu, disk);
            self.pristine.push(ageing::age(of, wanted, geometry, watchdog, &self.dir)?);
        }
        Ok(())
    }

    /// Puts a file system on a disk: a new one, or a copy of the aged one.
    pub fn format_disk(&self, disk: &Disk, made: &FileSystem) -> Result<FormattedDisk> {
        match self.pristine.iter().find(|known| known.made == *made) {
            Some(Pristine { image, geometry, aged, .. }) => {
                copy_onto(image, &disk.file)?;
                Ok(FormattedDisk { geometry: geometry.clone(), aged: Some(aged.clone()) })
            }
            None => Ok(FormattedDisk { geometry: disk.format(made)?, aged: None }),
        }
    }

    /// What executes guests: KVM if a boot with it succeeds.
    fn find_accelerator(
        &mut self,
        guest: &Guest,
        dir: &Path,
    ) -> Result<(Accelerator, Option<String>)> {
        let emulation = if self.watched { Accelerator::TcgOneThread } else { Accelerator::Tcg };
        let wish = guest.accelerator_choice()?;
        if wish == AcceleratorChoice::Tcg {
            return Ok((emulation, Some("emulation was asked for".to_string())));
        }
        let why_not = match hypervisor::no_kvm() {
            Some(why) => why,
            None => match self.boot_with(guest, dir, 0, Accelerator::Kvm) {
                Ok(up) => {
                    off(up.qemu);
                    return Ok((Accelerator::Kvm, None));
                }
                Err(why) => format!("a boot with KVM failed: {why:#}"),
            },
        };
        ensure!(
            wish == AcceleratorChoice::Any,
            "KVM was asked for, and does not work here: {why_not}"
        );
        talk(format_args!(
            "guests are emulated, their times say nothing about a processor ({why_not})"
        ));
        Ok((emulation, Some(why_not)))
    }

    /// Boots a guest. `random` decides where its kernel lies; 0 leaves it where it was linked.
    pub fn boot(&mut self, guest: &Guest, dir: &Path, random: u64) -> Result<Up> {
        let accelerator = self.found.as_ref().map_or(Accelerator::Tcg, |(found, _)| *found);
        self.boot_with(guest, dir, random, accelerator)
    }

    fn boot_with(
        &mut self,
        guest: &Guest,
        dir: &Path,
        random: u64,
        accelerator: Accelerator,
    ) -> Result<Up> {
        let kinds = self.kinds(guest)?;
        let disk = match kinds.iter().any(|kind| *kind != "tmpfs") {
            true => Some(Disk::new(&self.storage, dir, self.time)?),
            false => None,
        };
        let prepared = self.prepare(guest, &kinds, disk.is_some())?;
        let shape = guest.shape()?;
        let cmdline = guest.cmdline.as_deref().unwrap_or_default();
        let nokaslr = random == 0 || cmdline.split_whitespace().any(|word| word == "nokaslr");
        let image = prepared.kernel.image(random, shape.memory, nokaslr)?;
        let unpacked = image.bytes.map(|bytes| memfd::in_memory("kernel", &bytes)).transpose()?;
        let spared = if accelerator == Accelerator::Kvm { "" } else { EMULATED };
        let command_line = format!("console=ttyS0 panic=-1 rdinit=/knee {spared}{cmdline} -- init");
        let started = jiff::Timestamp::now();
        let since = Instant::now();
        let mut qemu = Qemu::start(&QemuOptions {
            kernel: &unpacked.as_ref().map_or(prepared.kernel.path.clone(), memfd::path),
            initramfs: &prepared.initramfs,
            command_line: &command_line,
            shape: &shape,
            accelerator,
            cpu: guest.cpu.as_deref().unwrap_or(cpu_model(&shape, accelerator)),
            disk: disk.as_ref().map(|disk| &disk.file),
            host_cpus: &guest_config::host_cpus(guest, &super::allowed_cpus()?)?,
        })?;
        let watchdog = guest_config::watchdog_time(guest)?;
        let silence = match accelerator {
            Accelerator::Kvm => watchdog.min(KVM_SILENCE),
            Accelerator::Tcg | Accelerator::TcgOneThread => watchdog,
        };
        let (up, said) =
            wait_for_init(&mut qemu, silence, &prepared.missing).with_context(|| {
                format!("booting {} ({})", prepared.kernel.path.display(), prepared.kernel.release)
            })?;
        let mut boot = Boot {
            boot: 0,
            block: 0,
            started,
            guest: guest.clone(),
            release: up.host.kernel_release.unwrap_or_default(),
            version: up.host.kernel_version.unwrap_or_default(),
            command_line: up.host.kernel_command_line.unwrap_or(command_line),
            boot_id: up.host.boot_id.unwrap_or_default(),
            accelerator: match accelerator {
                Accelerator::TcgOneThread => "tcg, one thread".to_string(),
                other => hypervisor::name(other).to_string(),
            },
            text: up.text,
            up_s: since.elapsed().as_secs_f64(),
            topology: up.topology,
            modules: up.modules,
            initramfs_bytes: prepared.bytes,
            said: [said, up.troubles].concat(),
            end: None,
            seconds: None,
        };
        check_cpus(&boot, shape.cpus())?;
        if let Some(doubt) = other_shape(&boot, &shape.topology()) {
            boot.said.push(doubt);
        }
        Ok(Up { qemu, disk, boot })
    }

    /// The kinds of file systems that runs in this guest want.
    fn kinds(&self, guest: &Guest) -> Result<Vec<&'static str>> {
        let wanted = self.file_systems.iter().filter(|(of, _)| of == guest);
        wanted.map(|(_, made)| Ok(kinds::kind(&made.kind)?.name)).collect()
    }

    /// The kernel with its initramfs, put together at the first call.
    fn prepare(&mut self, guest: &Guest, kinds: &[&str], disk: bool) -> Result<&Prepared> {
        let path = guest.kernel.clone().context("a guest has a kernel")?;
        let of = (path, guest.modules.clone());
        if let Some(known) = self.prepared.iter().position(|prepared| prepared.of == of) {
            return Ok(&self.prepared[known]);
        }
        let kernel = Kernel::open(&of.0)?;
        let tree = ModuleTree::find(&of.0, &kernel.release, of.1.as_deref())?;
        let mut wanted = NEEDED.to_vec();
        wanted.extend(disk.then_some("virtio_blk"));
        // ext2 and ext3 are ext4's too, where they are not modules of their own.
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
        let mut archive = self.archive(&needed)?;
        if kernel.takes_zstd() {
            archive = compressed(&archive)?;
        }
        let initramfs = memfd::in_memory("initramfs", &archive)?;
        let bytes = archive.len() as u64;
        self.prepared.push(Prepared { of, kernel, initramfs, bytes, missing });
        Ok(self.prepared.last().expect("it was pushed"))
    }

    fn archive(&self, needed: &NeededModules) -> Result<Vec<u8>> {
        let own = fs::read("/proc/self/exe").context("reading knee's own binary")?;
        let mut archive = Archive::default();
        archive.directory("dev");
        // Without it, what init says before it has mounted anything is lost.
        archive.device("dev/console", 5, 1);
        archive.file("knee", &stripped(&own).context("making init of knee's own binary")?);
        archive.directory(crate::places::guest::init::MODULES.trim_start_matches('/'));
        for (number, module) in needed.modules.iter().enumerate() {
            archive.file(&format!("modules/{number:03}-{}.ko", module.name), &module.bytes);
        }
        for (name, path) in &self.added {
            let content =
                fs::read(path).with_context(|| format!("reading {} (--add)", path.display()))?;
            let parents: Vec<&Path> = Path::new(name).ancestors().skip(1).collect();
            for parent in parents.iter().rev().filter(|parent| !parent.as_os_str().is_empty()) {
                archive.directory(&parent.display().to_string());
            }
            archive.file(name, &content);
        }
        Ok(archive.finish())
    }
}

/// Waits for init to say that the guest is up; what the kernel said before.
fn wait_for_init(
    qemu: &mut Qemu,
    silence: Duration,
    missing: &[String],
) -> Result<(protocol::Ready, Vec<String>)> {
    let since = Instant::now();
    let mut heard = since;
    let mut said = Vec::new();
    loop {
        ensure!(signals::received().is_none(), "interrupted");
        let came = qemu.next(Duration::from_millis(500));
        if came != GuestOutput::Nothing {
            heard = Instant::now();
        }
        match came {
            GuestOutput::Line(text) => match serde_json::from_str(&text) {
                Ok(Reply::Kernel(text)) => said.push(text),
                Ok(Reply::Ready(up)) => return Ok((*up, said)),
                _ => (),
            },
            GuestOutput::Off => bail!("the guest {}{}", last_act(qemu), hints(missing)),
            GuestOutput::Printed | GuestOutput::Nothing => (),
        }
        let why = match () {
            () if heard.elapsed() > silence => "printed nothing",
            () if since.elapsed() > LONGEST => "was not up",
            () => continue,
        };
        let console = qemu.console();
        let last = match console.trim().is_empty() {
            true => "it has printed nothing at all: does the kernel have a serial console \
                     (CONFIG_SERIAL_8250_CONSOLE)?"
                .to_string(),
            false => format!("on its console last: {}", last_line(&console)),
        };
        bail!(
            "the guest {why} for {:.0} s ({last}){}",
            heard.elapsed().as_secs_f64(),
            hints(missing)
        );
    }
}

fn hints(missing: &[String]) -> String {
    missing.iter().map(|text| format!("; {text}")).collect()
}

/// How a guest that is off ended: its kernel's last words, else QEMU's.
pub fn last_act(qemu: &mut Qemu) -> String {
    let console = qemu.console();
    let panic = console.lines().rev().find_map(|line| {
        line.split_once("Kernel panic - not syncing: ").map(|(_, why)| why.trim().to_string())
    });
    // What init said goes before the panic that its end is.
    let init = console.lines().rev().find_map(|line| line.strip_prefix("knee: "));
    match (panic, init) {
        (Some(_), Some(said)) => format!("could not be set up: {said}"),
        (Some(why), None) => format!("panicked: {}", described(&why, &console)),
        (None, _) => match qemu.last_words() {
            words if !words.is_empty() => format!("was ended by QEMU: {words}"),
            _ => format!("ended without a word (on its console last: {})", last_line(&console)),
        },
    }
}

/// A panic with what is known of it.
fn described(why: &str, console: &str) -> String {
    let advice = if why.contains("No working init")
        || why.contains("unable to mount root fs")
        || why.contains("Unable to mount root fs")
    {
        " (the kernel did not take the initramfs: it needs CONFIG_BLK_DEV_INITRD)"
    } else if why.contains("out of memory")
        || why.contains("Out of memory")
        || console.contains("Initramfs unpacking failed")
    {
        " (give the guest more memory: --guest-memory 2G)"
    } else {
        ""
    };
    format!("{why}{advice}")
}

/// The last line of a console that says something.
pub fn last_line(console: &str) -> String {
    let last = console.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("nothing").trim().to_string()
}

/// The CPU that a guest has unless another is asked for. Emulated, only an Intel one tells which threads
/// share a core.
fn cpu_model(shape: &GuestShape, accelerator: Accelerator) -> &'static str {
    match shape.threads > 1 && accelerator != Accelerator::Kvm {
        true => "max,vendor=GenuineIntel",
        false => "max",
    }
}

/// What the guest makes of its CPUs otherwise than they were to be; placements would be wrong then.
fn other_shape(boot: &Boot, wanted: &Topology) -> Option<String> {
    let groups = |topology: &Topology| -> Vec<(u32, u32, u32)> {
        topology.cpus.iter().map(|cpu| (cpu.core, cpu.node, cpu.package)).collect()
    };
    (groups(&boot.topology) != groups(wanted)).then(|| {
        "knee: the guest sees other cores, nodes or packages than were asked for, so placements are \
         not what they are called: give another --guest-cpu"
            .to_string()
    })
}

/// Refuses a kernel that has not all CPUs.
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

/// Lets a guest switch itself off. Returns whether it did.
pub fn off(mut qemu: Qemu) -> bool {
    qemu.send(&line(&Request::PowerOff)).is_ok() && qemu.wait(OFF)
}
