//! Keeping records: giving one a label or a note, and removing one. Only records of this user, and only
//! while no other knee writes to them.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use host::HeldFolder;
use serde_json::Value;

use crate::folder::{Writer, id_in_name, is_hidden, read_record, writer};
use crate::record_files::{RECORD, RECORD_LIMIT, is_our_folder, lock_record, remove_record};

/// Sets the label and the note of a finished record; what is `None` stays, and an empty text removes.
/// Everything else in `record.json` stays, also what a newer knee wrote.
pub fn annotate(folder: &Path, label: Option<&str>, note: Option<&str>) -> Result<()> {
    let (shard, held) = own_folder(folder)?;
    ensure!(
        !is_hidden(folder),
        "{} is not finished: the next `knee run` finishes what a dead knee left",
        folder.display()
    );
    let _lock = lock_record(&held)?;
    read_record(folder)?;
    let changing = || format!("changing {}/{RECORD}", folder.display());
    let text = held.read_text(RECORD, RECORD_LIMIT)?.with_context(changing)?;
    let mut record: Value = serde_json::from_str(&text).with_context(changing)?;
    let fields = record.as_object_mut().with_context(changing)?;
    for (name, value) in [("label", label), ("note", note)] {
        match value {
            Some("") => drop(fields.remove(name)),
            Some(value) => drop(fields.insert(name.to_string(), value.into())),
            None => (),
        }
    }
    let text = serde_json::to_string_pretty(&record)?;
    held.replace_by(RECORD, "record.tmp", |mut file| Ok(file.write_all(text.as_bytes())?))?;
    // The index looks at a record again when the folder around it has changed.
    shard.touch()
}

/// Removes a record. A folder that holds other files stays with them. Returns whether it is gone.
pub fn remove(folder: &Path) -> Result<bool> {
    let (shard, held) = own_folder(folder)?;
    ensure!(id_in_name(folder).is_some(), "{} is not the folder of a record", folder.display());
    let removing = || format!("removing {}", folder.display());
    let is_growing = is_hidden(folder) && matches!(writer(&held), Ok(Writer::Alive));
    ensure!(!is_growing, "{} is not removed: a knee is writing it", folder.display());
    let has_record = held.look(RECORD)?.is_some();
    let _lock = if has_record { Some(lock_record(&held)?) } else { None };
    let is_gone = remove_record(&shard, &held).with_context(removing)?;
    shard.sync()?;
    Ok(is_gone)
}

/// Holds a folder of this user and the shard above it, neither of which is a link.
fn own_folder(folder: &Path) -> Result<(HeldFolder, HeldFolder)> {
    let (mut shard, name) = HeldFolder::above(folder)?;
    if let Some(parent) = folder.parent().filter(|parent| parent.file_name().is_some()) {
        let (root, name) = HeldFolder::above(parent)?;
        let none = || format!("{} is not there", parent.display());
        shard = root.folder(name)?.with_context(none)?;
    }
    let held = shard.folder(name)?.filter(is_our_folder).with_context(|| {
        format!("{} is not a folder of this user: knee leaves it alone", folder.display())
    })?;
    Ok((shard, held))
}
