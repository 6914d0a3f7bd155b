//! The unit of systemd that starts knee after a boot: a file and a link to it, both removed when the boots are
//! over.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use host::durable::{remove_if_there, sync_folder, write_durably};
use host::{children, signals};

const UNITS: &str = "/etc/systemd/system";
const NAME: &str = "knee-metal.service";
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

/// The first line of the unit, by which knee knows it again.
const MARK: &str = "# Written by `knee run --on metal`, which removes it when it is done.";

/// Refuses hosts on which the unit would not be started.
pub fn check() -> Result<()> {
    ensure!(
        Path::new("/run/systemd/system").is_dir(),
        "process 1 is not systemd, which starts knee again after a boot: have a boot script of yours call \
         `knee metal`, and add --boot-script"
    );
    let path = Path::new(UNITS).join(NAME);
    ensure!(!path.exists() || is_ours(&path), "{} is not knee's: move it away", path.display());
    text().map(|_| ())
}

/// What to do so that a kernel that hangs is reset; `None` if a watchdog of systemd sees to that.
pub fn advice_on_watchdogs() -> Option<String> {
    let words = ["show", "--property=RuntimeWatchdogUSec", "--property=KExecWatchdogUSec"];
    let told = children::output(Command::new("systemctl").args(words)).ok()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let is_off = |line: &str| line.ends_with("=0") || line.ends_with("=infinity");
    if told.lines().any(is_off) {
        return Some(
            "a kernel that hangs stays so until somebody resets the host: if it has a watchdog, set KExecWatchdogSec= and \
             RuntimeWatchdogSec= in systemd's system.conf"
                .to_string(),
        );
    }
    // Most drivers stop their watchdog when the kernel shuts down, unless this is 0.
    let stops = fs::read_to_string("/sys/module/watchdog/parameters/stop_on_reboot").ok()?;
    (stops.trim() != "0").then(|| {
        "a kernel that hangs may stay so until somebody resets the host: most drivers stop the watchdog when this kernel \
         ends, unless it was booted with watchdog.stop_on_reboot=0"
            .to_string()
    })
}

/// The file of knee, which the unit starts.
pub fn binary() -> Result<PathBuf> {
    fs::read_link("/proc/self/exe").context("looking for knee's own file")
}

fn text() -> Result<String> {
    let binary = binary()?;
    let path = binary.to_str().context("the path of knee is not UTF-8")?;
    // systemd gives other characters meanings of its own (systemd.service(5)).
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    ensure!(
        path.chars().all(is_plain),
        "{path} cannot stand in a unit of systemd: move knee to a path of letters, digits and /._+-"
    );
    Ok(format!(
        "{MARK}\n[Unit]\nDescription=knee measures kernels on this host\nAfter=multi-user.target\n\n\
         [Service]\nType=exec\nKillMode=mixed\nTimeoutStopSec=120\nExecStart={path} metal\n\
         ExecStopPost={path} metal --clean\n"
    ))
}

/// Installs the unit for the next boots.
pub fn install() -> Result<()> {
    let text = text()?;
    let unit = Path::new(UNITS).join(NAME);
    write_durably(&unit, |mut file| {
        file.set_permissions(Permissions::from_mode(0o644))?;
        Ok(file.write_all(text.as_bytes())?)
    })?;
    let link = Path::new(WANTS).join(NAME);
    fs::create_dir_all(WANTS).with_context(|| format!("creating {WANTS}"))?;
    match symlink(&unit, &link) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => (),
        linked => linked.with_context(|| format!("creating {}", link.display()))?,
    }
    sync_folder(Path::new(WANTS))
}

/// Removes the unit, if it is knee's.
pub fn remove() -> Result<()> {
    let unit = Path::new(UNITS).join(NAME);
    let link = Path::new(WANTS).join(NAME);
    if fs::read_link(&link).is_ok_and(|to| to == unit) {
        remove_if_there(&link).with_context(|| format!("removing {}", link.display()))?;
        sync_folder(Path::new(WANTS))?;
    }
    if is_ours(&unit) {
        remove_if_there(&unit).with_context(|| format!("removing {}", unit.display()))?;
        sync_folder(Path::new(UNITS))?;
    }
    Ok(())
}

fn is_ours(unit: &Path) -> bool {
    fs::read_to_string(unit).is_ok_and(|text| text.starts_with(MARK))
}

/// Has systemd stop all services and reboot: `kexec` into the loaded kernel, `reboot` by the firmware. Returns
/// when it ends this process, or with an error.
pub fn shut_down(verb: &str, patience: Duration) -> Result<()> {
    let output = children::output(Command::new("systemctl").args(["--no-block", verb]))
        .with_context(|| format!("starting systemctl {verb}"))?;
    ensure!(
        output.status.success(),
        "systemctl {verb}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let since = Instant::now();
    while since.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(100));
        if signals::received().is_some() {
            // Sent by systemd, on its way down. What is needed after the boot must stay.
            std::process::exit(0);
        }
    }
    bail!("the host has not rebooted within {} s of systemctl {verb}", patience.as_secs())
}
