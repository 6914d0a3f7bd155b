//! Programs, by their paths or as a shell finds them by their names.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Whether it is a file that may be executed.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The file of a program in the first of these folders, separated by colons, that has it. Relative ones are left out.
pub fn in_path(name: &str, path: &str) -> Option<PathBuf> {
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| Path::new(folder).join(name)).find(|file| is_executable(file))
}

/// The folders, separated by colons, in which knee finds programs.
pub fn own_path() -> String {
    env::var("PATH").unwrap_or_default()
}

/// The file of a program, by its path or by `PATH`.
pub fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return std::path::absolute(program).ok().filter(|file| file.is_file());
    }
    in_path(program, &own_path())
}
