//! Finding the record that a user names: `last`, a label, an id, the start of an id, or a directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use host::{paths, unknown};
use records::Opened;
use setup::foreign::Foreign;
use setup::own_file;
use store::{Filter, Index, Listed, Store};
use text::prose::counted;

/// Names of this many records, the newest, are suggested for a misspelt one.
const SUGGESTED_FROM: usize = 1000;

/// The folder of the record that `which` names.
pub fn find(which: &str, store: &Store) -> Result<PathBuf> {
    if which.contains('/') || which == "." {
        return Ok(PathBuf::from(which));
    }
    if which.ends_with(".data") && !Path::new(which).exists() {
        bail!("there is no file {which} in the current directory");
    }
    let index = Index::open(store, &paths::cache()?)?;
    let found = match which {
        "last" => index.newest(1),
        name => match labelled(name, &index) {
            Some(newest) => vec![newest],
            None => index.with_prefix(name),
        },
    };
    match &found[..] {
        [one] => Ok(one.folder.clone()),
        [] if Path::new(which).is_dir() => Ok(PathBuf::from(which)),
        [] => unlisted(which, &index, store),
        several => bail!("'{which}' is ambiguous; it may be any of\n{}", candidates(several)),
    }
}

/// The folder of the record that has this path, label or whole id; `None` if no record has it.
pub fn find_exactly(which: &str, store: &Store) -> Result<Option<PathBuf>> {
    let is_path = which.contains('/') || store::read_record(Path::new(which)).is_ok();
    if which == "last" || is_path {
        return find(which, store).map(Some);
    }
    let index = Index::open(store, &paths::cache()?)?;
    if let Some(labelled) = labelled(which, &index) {
        return Ok(Some(labelled.folder));
    }
    let found = index.with_prefix(which);
    Ok(found.into_iter().find(|listed| listed.id == which).map(|listed| listed.folder))
}

/// The newest record with a label.
fn labelled(label: &str, index: &Index) -> Option<Listed> {
    let filter = Filter { label: Some(label.to_string()), ..Filter::default() };
    index.matching(&filter, 1).pop()
}

/// The record in a folder, to be measured again: what it decides may be another's.
pub fn open_foreign(folder: &Path, store: &Store) -> Result<Foreign<Opened>> {
    let opening = || format!("opening {}", folder.display());
    // What is judged is what is read, whatever a link says later.
    let real = folder.canonicalize().with_context(opening)?;
    let why = own_file::why_kept_by_others(&real, store::DECISIVE_FILES, store.root())?;
    let opened = store::open(&real)?;
    let noted = opened.record.why_of_others();
    let noted = noted.map(|why| format!("was collected where others may write: {why}"));
    Ok(Foreign::typed(opened).decided_by(&folder.to_string_lossy(), why.or(noted)))
}

/// The one folder without a finished record that `which` names. Opening it says why it is none,
/// or shows the runs so far.
fn unlisted(which: &str, index: &Index, store: &Store) -> Result<PathBuf> {
    let root = store.root().display();
    let others = index.others()?;
    let is_named = |other: &&Listed| other.id.starts_with(which) || other.label == which;
    let named: Vec<&Listed> = others.iter().filter(is_named).collect();
    match named[..] {
        [one] => Ok(one.folder.clone()),
        _ if which != "last" && index.count(&Filter::default()) + others.len() > 0 => {
            let newest = index.newest(SUGGESTED_FROM);
            let names = newest.iter().chain(&others).flat_map(|one| [&one.id, &one.label]);
            let names = names.map(String::as_str).filter(|name| !name.is_empty());
            bail!("{}", unknown(&format!("record in {root}"), which, names, "knee list"))
        }
        _ if !others.is_empty() => bail!(
            "no finished record in {root}; `knee list` says why for {}",
            counted(others.len(), "folder")
        ),
        _ => bail!("no records in {root} yet: make one with `knee run first-look`"),
    }
}

/// The folders of all records, oldest first.
pub fn all(store: &Store) -> Result<Vec<PathBuf>> {
    let index = Index::open(store, &paths::cache()?)?;
    let newest = index.newest(usize::MAX);
    Ok(newest.into_iter().rev().map(|listed| listed.folder).collect())
}

fn candidates(several: &[Listed]) -> String {
    const SHOWN: usize = 10;
    // Copies of one record have the same id: only their folders differ.
    let same_id = several.iter().all(|listed| listed.id == several[0].id);
    let line = |listed: &Listed| {
        if same_id {
            format!("  {}", listed.folder.display())
        } else {
            format!("  {}  {}  {}", listed.id, listed.name, listed.host)
        }
    };
    let mut lines: Vec<String> = several.iter().take(SHOWN).map(line).collect();
    if several.len() > SHOWN {
        lines.push(format!("  and {} more", several.len() - SHOWN));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: &str, folder: &str) -> Listed {
        let text = |text: &str| text.to_string();
        let (id, folder) = (text(id), PathBuf::from(folder));
        let (name, host) = (text("first-look"), text("lab1"));
        Listed { id, folder, name, host, ..Listed::default() }
    }

    #[test]
    fn candidates_are_told_apart_by_id_or_else_by_folder() {
        let [a, b] = ["20261120-115530-7f3a9c", "20261120-115531-000001"];
        let two = [listed(a, "/r/7f/a"), listed(b, "/r/00/b")];
        assert_eq!(candidates(&two).lines().next(), Some(&*format!("  {a}  first-look  lab1")));
        let copies = [listed(a, "/r/7f/a"), listed(a, "/r/a")];
        assert_eq!(candidates(&copies), "  /r/7f/a\n  /r/a");
        let many: Vec<Listed> = (0..12).map(|i| listed(if i > 0 { a } else { b }, "")).collect();
        assert!(candidates(&many).ends_with("and 2 more"));
    }

    #[test]
    fn a_path_is_a_folder_and_an_empty_store_says_how_to_fill_it() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::at(root.path().join("none"));
        assert_eq!(find("./x", &store).unwrap(), PathBuf::from("./x"));
    }
}
