//! Aged file systems: one is aged in a guest before anything is measured, and each run finds a copy of
//! its disk, whichever kernel it runs on.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use guests::qemu::{GuestOutput, Qemu};
use host::signals;
use records::{Aged, FileSystem};

use super::console;
use super::disk::Disk;
use super::protocol::{GuestAge, Reply, Request, line};
use super::watchdog::Watchdog;

/// An aged file system, of which runs get copies.
pub struct AgedDisk {
    /// How it was made.
    pub made: FileSystem,
    /// The bytes of its disk.
    pub image: File,
    /// The geometry that its programs report.
    pub geometry: BTreeMap<String, String>,
    /// How it was aged.
    pub aged: Aged,
}

/// Ages the file system that was just made on the disk of a guest, and keeps it in a directory.
pub fn age(
    qemu: &mut Qemu,
    disk: &Disk,
    request: GuestAge,
    geometry: BTreeMap<String, String>,
    watchdog: Watchdog,
    directory: &Path,
) -> Result<AgedDisk> {
    let made = request.made.clone();
    let ageing = || format!("ageing {made} in a guest");
    qemu.send(&line(&Request::Age(Box::new(request)))).with_context(ageing)?;
    let aged = wait_for_answer(qemu, watchdog).with_context(ageing)?;
    if let Some(complaint) = disk.complaint(&made) {
        bail!("{}: {complaint}", ageing());
    }
    let (image, free_extents) = disk.keep(&made, directory).with_context(ageing)?;
    Ok(AgedDisk { made, image, geometry, aged: Aged { free_extents, ..aged } })
}

fn wait_for_answer(qemu: &mut Qemu, mut watchdog: Watchdog) -> Result<Aged> {
    loop {
        ensure!(signals::received().is_none(), "interrupted");
        match qemu.next(Duration::from_secs(1)) {
            GuestOutput::Line(text) => match Reply::read(&text) {
                Ok(Reply::Aged(aged)) => return aged.map_err(|why| anyhow!(why)),
                _ => watchdog.heard(),
            },
            GuestOutput::Printed => watchdog.heard(),
            GuestOutput::Off => bail!("the guest {}", console::exit_reason(qemu)),
            GuestOutput::Nothing => (),
        }
        if let Some(why) = watchdog.check(qemu) {
            bail!("the guest {why}");
        }
    }
}
