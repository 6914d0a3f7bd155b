//! Aged file systems: one is aged in a guest before anything is measured, and each run finds a copy
//! of it on its disk, whichever kernel it is made in. The disk is kept as it was, not how it came to be.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use guests::machine::{Came, Machine};
use records::{Aged, FileSystem};

use super::Disk;
use super::boot::last_act;
use super::patience::Patience;
use super::words::{Ask, ToAge, Word, line};
use crate::signals;

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
    (machine, disk): (&mut Machine, &Disk),
    wanted: ToAge,
    geometry: BTreeMap<String, String>,
    patience: Patience,
    directory: &Path,
) -> Result<Pristine> {
    let made = wanted.made.clone();
    let ageing = || format!("ageing {made} in a guest");
    machine.say(&line(&Ask::Age(Box::new(wanted)))).with_context(ageing)?;
    let aged = answer(machine, patience).with_context(ageing)?;
    if let Some(complaint) = disk.complaint(&made) {
        bail!("{}: {complaint}", ageing());
    }
    let (image, free_extents) = disk.keep(&made, directory).with_context(ageing)?;
    Ok(Pristine { made, image, geometry, aged: Aged { free_extents, ..aged } })
}

fn answer(machine: &mut Machine, mut patience: Patience) -> Result<Aged> {
    loop {
        ensure!(signals::received().is_none(), "interrupted");
        match machine.next(Duration::from_secs(1)) {
            Came::Line(text) => match serde_json::from_str(&text) {
                Ok(Word::Aged(aged)) => return aged.map_err(|why| anyhow!(why)),
                _ => patience.heard(),
            },
            Came::Printed => patience.heard(),
            Came::Off => bail!("the guest {}", last_act(machine)),
            Came::Nothing => (),
        }
        if let Some(why) = patience.tried(machine) {
            bail!("the guest {why}");
        }
    }
}
