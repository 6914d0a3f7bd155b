//! `knee run --on metal` on a host that is a virtual machine: there knee boots kernels by kexec. A reset ends QEMU,
//! and QEMU's next start is the firmware that boots the host's own kernel.
//!
//! knee never runs with --on metal on the machine that tests: only process 1 of the virtual machine starts it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::PoisonError;

use guests::initramfs::{Archive, compressed, stripped};
use guests::kernel::Kernel;
use guests::modules::ModuleTree;
use records::{Opened, Outcome, Run};
use store::Store;
use tempfile::TempDir;

use crate::guests::{ALONE, kernel};
use crate::skip::skip;

/// A host that is a virtual machine, with a disk.
struct Host {
    folder: TempDir,
    /// All that its console printed.
    console: String,
}

/// The host's own command line.
const OWN: &str = "console=ttyS0 quiet panic=1 lpj=10000000 tsc=reliable cryptomgr.notests";

/// More starts of QEMU than any trial needs.
const STARTS_MAX: usize = 8;

impl Host {
    /// A host whose disk has knee, a kernel with its initramfs, and a command to start at the first boot.
    fn new(kernel: &Path, command: &[&str]) -> Host {
        let host =
            Host { folder: tempfile::tempdir().expect("making a folder"), console: String::new() };
        let opened = Kernel::open(kernel).expect("reading the kernel");
        let image = opened.image(0, 1 << 30, true).expect("unpacking it").bytes;
        fs::write(host.path("own"), image.expect("QEMU can start it unpacked")).unwrap();
        let tree = ModuleTree::find(kernel, &opened.release, None).unwrap().expect("modules");
        let modules = tree.needed(&["virtio_pci", "virtio_blk", "ext4"]).unwrap().modules;
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.device("dev/console", 5, 1);
        archive.file("init", &fs::read(host.compile_init()).unwrap());
        archive.directory("modules");
        for (number, module) in modules.iter().enumerate() {
            archive.file(&format!("modules/{number:03}-{}.ko", module.name), &module.bytes);
        }
        let initramfs = compressed(&archive.finish()).unwrap();
        fs::write(host.path("initramfs"), &initramfs).unwrap();
        let disk = host.path("root");
        for folder in ["boot", "state", "home", "records"] {
            fs::create_dir_all(disk.join(folder)).unwrap();
        }
        let knee = fs::read(env!("CARGO_BIN_EXE_knee")).unwrap();
        fs::write(disk.join("knee"), stripped(&knee).unwrap()).unwrap();
        assert!(run("chmod", &["755", disk.join("knee").to_str().unwrap()]));
        fs::copy(kernel, disk.join("boot/vmlinuz-trial")).unwrap();
        fs::write(disk.join("boot/initrd.img-trial"), &initramfs).unwrap();
        fs::write(disk.join("command"), command.join("\n")).unwrap();
        let image = host.path("disk");
        let made = ["-q", "-d", disk.to_str().unwrap(), image.to_str().unwrap(), "512M"];
        assert!(run("mkfs.ext4", &made));
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile_init(&self) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/robust/guests/metal_init.c");
        let init = self.path("init");
        let words =
            ["-static", "-O1", "-w", "-o", init.to_str().unwrap(), source.to_str().unwrap()];
        assert!(run("cc", &words), "compiling {}", source.display());
        init
    }

    /// Powers the host on until knee is done there.
    fn live(&mut self) {
        for _ in 0..STARTS_MAX {
            let said = self.power_on();
            print!("{said}");
            self.console += &said;
            if said.contains("rebooting into the host's own kernel") || said.contains("TRIAL: knee")
            {
                return;
            }
        }
        panic!("knee was not done after {STARTS_MAX} starts:\n{}", self.console);
    }

    /// One life of the host, from its firmware to a reset. Returns what its console printed.
    fn power_on(&self) -> String {
        let mut qemu = Command::new("timeout");
        qemu.args(["300", "qemu-system-x86_64"]);
        qemu.args("-nodefaults -no-user-config -display none -no-reboot -M q35".split(' '));
        qemu.args("-cpu max,-erms -accel tcg -m 1G -serial stdio -append".split(' ')).arg(OWN);
        qemu.arg("-kernel").arg(self.path("own")).arg("-initrd").arg(self.path("initramfs"));
        let drive = format!("file={},if=none,id=disk,format=raw", self.path("disk").display());
        qemu.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"]);
        let mut qemu =
            qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("starting QEMU");
        let console = BufReader::new(qemu.stdout.take().expect("it is piped"));
        let mut said = String::new();
        for line in console.split(b'\n').map_while(Result::ok) {
            said += &format!("{}\n", String::from_utf8_lossy(&line).trim_end());
        }
        qemu.wait().expect("QEMU ends");
        said
    }

    /// The host's folder of that name, copied from its disk.
    fn copied(&self, name: &str) -> PathBuf {
        let image = self.path("disk");
        // The host was reset, so the journal of its file system is replayed first.
        run("e2fsck", &["-fy", image.to_str().unwrap()]);
        let dump = format!("rdump /{name} {}", self.folder.path().display());
        assert!(run("debugfs", &["-R", &dump, image.to_str().unwrap()]));
        self.path(name)
    }

    fn record(&self) -> Opened {
        let store = Store::at(self.copied("records"));
        let folders = crate::home::entries(store.root());
        let folders: Vec<PathBuf> =
            folders.into_iter().flat_map(|shard| crate::home::entries(&shard)).collect();
        let [folder] = folders.as_slice() else { panic!("records {folders:?}:\n{}", self.console) };
        store::open(folder).unwrap()
    }
}

/// Whether a program succeeds.
fn run(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.unwrap_or_else(|why| panic!("{program}: {why}")).status.success()
}

/// Measures the host's own kernel with these words on its command line, each a variant.
fn trial(words: &[&str]) -> Option<(Host, Opened)> {
    const TEST: &str = "kernels that a host boots itself";
    let kernel = kernel(TEST)?;
    if Command::new("debugfs").arg("-V").output().is_err() {
        skip(TEST, "no debugfs (e2fsprogs)");
        return None;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let fixed = "run getppid --cpus 1 --seconds 0.1 --blocks 1 --seed 3 --on metal --boot-script --yes --kernel \
                 /disk/boot/vmlinuz-trial";
    let mut command: Vec<&str> = fixed.split(' ').collect();
    for word in words {
        command.extend(["--cmdline", word]);
    }
    let mut host = Host::new(&kernel, &command);
    host.live();
    let record = host.record();
    Some((host, record))
}

fn runs_of<'a>(record: &'a Opened, variant: &str) -> Vec<&'a Run> {
    let point = |run: &Run| &record.record.points[run.point as usize];
    let runs: Vec<&Run> = record.runs.iter().filter(|run| point(run).variant == variant).collect();
    assert!(!runs.is_empty(), "no run of {variant}");
    runs
}

#[test]
fn a_host_boots_kernels_and_returns_from_one_that_panics() {
    let Some((host, record)) = trial(&["plain=trial.plain", "panics=rdinit=/missing"]) else {
        return;
    };
    let boots = store::boots(&record).unwrap();
    for run in runs_of(&record, "plain") {
        assert!(run.finished(), "{run:?}");
        let boot = boots.iter().find(|boot| Some(boot.boot) == run.boot).expect("it has a boot");
        assert_eq!(boot.accelerator, "metal");
        assert!(boot.command_line.contains("trial.plain"), "{}", boot.command_line);
        assert!(boot.build_id.is_some(), "{boot:?}");
    }
    for (number, run) in runs_of(&record, "panics").into_iter().enumerate() {
        let Outcome::Failed { reason } = &run.outcome else { panic!("{run:?}") };
        // A run that failed has another block measured.
        let expected = if number == 0 {
            "lost 2 boots in a row"
        } else {
            "not booted again, since it never came up"
        };
        assert!(reason.contains(expected), "{reason}");
    }
    let left = crate::home::entries(&host.copied("state"));
    assert!(left.is_empty(), "{left:?} would act after a boot");
}
