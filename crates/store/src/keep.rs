//! Keeping records: giving one a label or a note, and removing one. Only records of this user, and only
//! while no other knee writes to them.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use host::durable::{sync_folder, write_durably};
use serde_json::Value;

use crate::folder::{
    RECORD, Writer, id_in_name, is_hidden, is_our_folder, lock_record, read_record, remove_record,
    writer,
};

/// Sets the label and the note of a finished record; what is `None` stays, and an empty text removes.
/// Everything else in `record.json` stays, also what a newer knee wrote.
pub fn annotate(folder: &Path, label: Option<&str>, note: Option<&str>) -> Result<()> {
    check_own(folder)?;
    ensure!(
        !is_hidden(folder),
        "{} is not finished: the next `knee run` finishes what a dead knee left",
        folder.display()
    );
    let _lock = lock_record(folder)?;
    read_record(folder)?;
    let path = folder.join(RECORD);
    let changing = || format!("changing {}", path.display());
    let text = fs::read_to_string(&path).with_context(changing)?;
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
    write_durably(&path, |mut file| Ok(file.write_all(text.as_bytes())?))?;
    // The index looks at a record again when the folder around it has changed.
    let shard = folder.canonicalize()?.parent().map(File::open).transpose()?;
    shard.map_or(Ok(()), |shard| shard.set_modified(SystemTime::now())).with_context(changing)
}

/// Removes a record. A folder that holds other files stays with them. Returns whether it is gone.
pub fn remove(folder: &Path) -> Result<bool> {
    check_own(folder)?;
    ensure!(id_in_name(folder).is_some(), "{} is not the folder of a record", folder.display());
    let removing = || format!("removing {}", folder.display());
    let is_growing = is_hidden(folder) && matches!(writer(folder), Ok(Writer::Alive));
    ensure!(!is_growing, "{} is not removed: a knee is writing it", folder.display());
    let _lock = if folder.join(RECORD).exists() { Some(lock_record(folder)?) } else { None };
    let is_gone = remove_record(folder).with_context(removing)?;
    sync_folder(folder.parent().unwrap_or(Path::new("/")))?;
    Ok(is_gone)
}

fn check_own(folder: &Path) -> Result<()> {
    if !is_our_folder(folder) {
        bail!("{} is not a folder of this user: knee leaves it alone", folder.display());
    }
    Ok(())
}
