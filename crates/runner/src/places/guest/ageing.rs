//! Aged file systems: one is aged in a guest before anything is measured, and each run finds a copy
//! of it on its disk, whichever kernel it is made in. The disk is kept as it was, not how it came to be.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use guests::qemu::{GuestOutput, Qemu};
use host::signals;
use records::{Aged, FileSystem};

use crate::places::guest::Disk;
use crate::places::guest::boot::last_act;
use crate::places::guest::protocol::{GuestAge, Reply, Request, line};
use crate::places::guest::watchdog::Watchdog;

/// What runs get copies of.
pub struct Pristine {
    /// What it is.
    pub made: FileSystem,
    /// The bytes of its disk.
    pub image: File,
    /// As its programs tell it.
    pub geometry: BTreeMap<String, String>,
    /// How it was aged.
    pub aged: Aged,
}

/// Ages the file system that was just made on the disk of a guest, and keeps it in a directory.
pub fn age(
    (machine, disk): (&mut Qemu, &Disk),
    wanted: GuestAge,
    geometry: BTreeMap<String, String>,
    watchdog: Watchdog,
    directory: &Path,
) -> Result<Pristine> {
    let made = wanted.made.clone();
    let ageing = || format!("ageing {made} in a guest");
    machine.send(&line(&Request::Age(Box::new(wanted)))).with_context(ageing)?;
    let aged = answer(machine, watchdog).with_context(ageing)?;
    if let Some(complaint) = disk.complaint(&made) {
        bail!("{}: {complaint}", ageing());
    }
    let (image, free_extents) = disk.keep(&made, directory).with_context(ageing)?;
    Ok(Pristine { made, image, geometry, aged: Aged { free_extents, ..aged } })
}

fn answer(machine: &mut Qemu, mut watchdog: Watchdog) -> Result<Aged> {
    loop {
        ensure!(signals::received().is_none(), "interrupted");
        match machine.next(Duration::from_secs(1)) {
            GuestOutput::Line(text) => match serde_json::from_str(&text) {
                Ok(Reply::Aged(aged)) => return aged.map_err(|why| anyhow!(why)),
                _ => watchdog.heard(),
            },
            GuestOutput::Printed => watchdog.heard(),
            GuestOutput::Off => bail!("the guest {}", last_act(machine)),
            GuestOutput::Nothing => (),
        }
        if let Some(why) = watchdog.tried(machine) {
            bail!("the guest {why}");
        }
    }
}
