//! Files of the kernel tree, checked as they are: which functions take and release their locks is known here, by the file. Each
//! has a contract in `c/kernel`, which includes the file and says what to call. Headers that say what a lock is are the tree's;
//! all others are knee's. No code of the kernel is here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use engines::Unsupported;

/// A file of which the functions are known.
struct Known {
    /// Where it lies in the tree.
    path: &'static str,
    /// What it defines: another file of that name does not.
    defines: &'static str,
    contract: &'static str,
    /// Other files of the tree whose code its functions call.
    calls: &'static [&'static str],
}

/// Alphabetical, by the name of the file.
const KNOWN: &[Known] = &[
    Known {
        path: "include/linux/bit_spinlock.h",
        defines: "bit_spin_trylock",
        contract: include_str!("../c/kernel/bit_spinlock.c"),
        calls: &[],
    },
    Known {
        path: "lib/llist.c",
        defines: "llist_del_first",
        contract: include_str!("../c/kernel/llist.c"),
        calls: &[],
    },
    Known {
        path: "lib/lockref.c",
        defines: "lockref_put_or_lock",
        contract: include_str!("../c/kernel/lockref.c"),
        calls: &[],
    },
    Known {
        path: "kernel/locking/mutex.c",
        defines: "__mutex_lock_common",
        contract: include_str!("../c/kernel/mutex.c"),
        calls: &[OSQ_LOCK],
    },
    Known {
        path: OSQ_LOCK,
        defines: "osq_wait_next",
        contract: include_str!("../c/kernel/osq_lock.c"),
        calls: &[],
    },
    Known {
        path: "kernel/locking/percpu-rwsem.c",
        defines: "__percpu_init_rwsem",
        contract: include_str!("../c/kernel/percpu_rwsem.c"),
        calls: &[],
    },
    Known {
        path: "kernel/locking/qrwlock.c",
        defines: "queued_write_lock_slowpath",
        contract: include_str!("../c/kernel/qrwlock.c"),
        calls: &[],
    },
    Known {
        path: "kernel/locking/qspinlock.c",
        defines: "queued_spin_lock_slowpath",
        contract: include_str!("../c/kernel/qspinlock.c"),
        calls: &[],
    },
    Known {
        path: "kernel/locking/rwsem.c",
        defines: "__init_rwsem",
        contract: include_str!("../c/kernel/rwsem.c"),
        calls: &[OSQ_LOCK],
    },
    Known {
        path: "kernel/locking/semaphore.c",
        defines: "__down_common",
        contract: include_str!("../c/kernel/semaphore.c"),
        calls: &[],
    },
    Known {
        path: "include/linux/seqlock.h",
        defines: "read_seqbegin",
        contract: include_str!("../c/kernel/seqlock.c"),
        calls: &[],
    },
];

const OSQ_LOCK: &str = "kernel/locking/osq_lock.c";

/// Files that are known to have no contract, and why.
const REFUSED: &[(&str, &str, &str)] = &[(
    "rtmutex.c",
    "rt_mutex_adjust_prio_chain",
    "priorities of tasks that the scheduler changes along a chain of locks, which no search has",
)];

/// A header that only a kernel tree has.
const MARK: &str = "linux/compiler_types.h";

/// A file of the kernel, or a changed copy of one, and the tree that has its headers.
pub struct KernelFile {
    known: &'static Known,
    file: PathBuf,
    tree: PathBuf,
}

impl KernelFile {
    /// Whether this is such a file, which does not say itself what to check.
    ///
    /// # Errors
    /// It is, and it cannot be checked: its tree is not found, or its lock needs what no search has.
    pub fn recognize(file: &Path, flags: &[String]) -> Result<Option<KernelFile>> {
        let text = fs::read(file).context("reading the file")?;
        let text = String::from_utf8_lossy(&text);
        let says_itself = ["KNEE_LOCK", "KNEE_OPERATION"].iter().any(|word| text.contains(word));
        let name = file.file_name();
        let is_known = |known: &&Known| {
            Path::new(known.path).file_name() == name && text.contains(known.defines)
        };
        let known = KNOWN.iter().find(is_known).filter(|_| !says_itself);
        let is_refused = |(refused, defines, _): &&(&str, &str, &str)| {
            name.is_some_and(|name| name == *refused) && text.contains(defines)
        };
        if let Some((_, _, why)) = REFUSED.iter().find(is_refused).filter(|_| !says_itself) {
            let way_out = "check mutex.c, rwsem.c or semaphore.c of the same tree";
            return Err(Unsupported::new(format!("its lock needs {why}"), way_out).into());
        }
        let Some(known) = known else { return Ok(None) };
        let file = file.canonicalize().context("resolving its path")?;
        let is_plain = file.to_str().is_some_and(|path| !path.contains(['"', '\\', '\n']));
        ensure!(is_plain, "its path has a character that no #include can have");
        let Some(tree) = tree(&file, flags) else {
            let why = "it is a file of the kernel, and the headers of its tree are not known";
            return Err(Unsupported::new(why, "name them: -I linux/include").into());
        };
        Ok(Some(KernelFile { known, file, tree }))
    }

    /// The user's flags, and those that the contract needs.
    pub fn flags(&self, flags: &[String]) -> Vec<String> {
        let folder = Path::new(self.known.path).parent().unwrap_or(Path::new(""));
        let own = [
            format!("-DKNEE_FILE=\"{}\"", self.file.display()),
            format!("-iquote{}", self.tree.join(folder).display()),
            format!("-I{}", self.tree.join("include").display()),
        ];
        flags.iter().cloned().chain(own).collect()
    }

    /// Other files that are compiled with it.
    pub fn files(&self) -> Vec<PathBuf> {
        self.known.calls.iter().map(|path| self.tree.join(path)).collect()
    }

    /// Writes the file that is compiled in its place; returns where.
    pub fn write_contract(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join("knee_contract.c");
        fs::write(&path, self.known.contract).context("writing the contract")?;
        Ok(path)
    }
}

/// The tree that the flags name a folder of headers of, or else that the file lies in.
fn tree(file: &Path, flags: &[String]) -> Option<PathBuf> {
    let mut named = Vec::new();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.strip_prefix("-I") {
            Some("") => named.extend(flags.next().map(PathBuf::from)),
            Some(folder) => named.push(PathBuf::from(folder)),
            None => {}
        }
    }
    let folder = named.iter().find(|folder| folder.join(MARK).is_file());
    let of_flags =
        folder.and_then(|folder| Some(folder.canonicalize().ok()?.parent()?.to_path_buf()));
    let of_file = || file.ancestors().find(|folder| folder.join("include").join(MARK).is_file());
    of_flags.or_else(|| of_file().map(Path::to_path_buf))
}
