//! Where knee keeps what it keeps: the XDG folders of the user. knee may run as root, so it
//! never takes a folder that anybody else could have made or may write to.

use std::env;
use std::fs::{self, DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Where records lie unless told otherwise: `$KNEE_RECORDS`, else the user's data folder.
pub fn records() -> Result<PathBuf> {
    match env::var_os("KNEE_RECORDS") {
        Some(given) => Ok(PathBuf::from(given)),
        None => Ok(xdg("XDG_DATA_HOME", ".local/share")?.join("records")),
    }
}

/// Where what can be computed again lies.
pub fn cache() -> Result<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache")
}

/// Where the journals of running knees lie.
pub fn state() -> Result<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// The effective user id of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Refuses a folder that is not the user's own (or root's), or that others may write to.
pub fn check_private(path: &Path, found: &Metadata) -> Result<()> {
    let path = path.display();
    ensure!(found.is_dir(), "{path} is not a directory");
    let owner = found.uid();
    ensure!([user(), 0].contains(&owner), "{path} belongs to user {owner}, we are {}", user());
    ensure!(found.mode() & 0o022 == 0, "others may write to {path}: chmod go-w {path}");
    Ok(())
}

/// A folder of knee's own in the user's folder of that kind.
fn xdg(variable: &str, in_home: &str) -> Result<PathBuf> {
    let given = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match given {
        Some(given) => given,
        None => home()?.join(in_home),
    };
    Ok(folder.join("knee"))
}

/// The user's home. Services and cron may have no HOME; then what the system knows counts,
/// if it is the user's own, which `/nonexistent` is not.
fn home() -> Result<PathBuf> {
    let given = env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let known = || {
        let text = fs::read_to_string("/etc/passwd").ok()?;
        let home = home_in(&text, user())?;
        fs::metadata(&home).is_ok_and(|m| m.is_dir() && m.uid() == user()).then_some(home)
    };
    match given.or_else(known) {
        Some(home) => Ok(home),
        None => temporary_home(),
    }
}

/// The home of a user in the text of /etc/passwd, as getpwuid(3) would give it, which a
/// static binary cannot call.
fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    let home = passwd.lines().find_map(|line| {
        // name:password:user:group:comment:home:shell
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(user)).then(|| fields.get(5).copied())?
    })?;
    Some(PathBuf::from(home)).filter(|home| home.is_absolute())
}

/// A home where everybody may make one: taken only if it is ours.
fn temporary_home() -> Result<PathBuf> {
    let path = env::temp_dir().join(format!("knee-{}", user()));
    let made = match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e).context("creating it"),
        _ => fs::symlink_metadata(&path).context("looking at it"),
    };
    made.and_then(|found| check_private(&path, &found)).with_context(|| {
        format!(
            "without a home, {} would serve (set HOME; or --records, XDG_STATE_HOME and \
             XDG_CACHE_HOME)",
            path.display()
        )
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[track_caller]
    fn check(passwd: &str, user: u32, expected: Option<&str>) {
        assert_eq!(home_in(passwd, user), expected.map(PathBuf::from));
    }

    #[test]
    fn the_home_of_a_user_is_the_one_of_the_first_line_with_his_number() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\n# broken\n\na:x:7:100:0:/home/a:\nb:x:7:7::/b:\n";
        check(passwd, 0, Some("/root"));
        check(passwd, 7, Some("/home/a"));
        check(passwd, 100, None);
        check("a:x:7:7:::\n", 7, None);
        check("a:x:7", 7, None);
        check("a:x:7:7::relative:\n", 7, None);
        check("", 0, None);
    }

    #[test]
    fn only_a_directory_that_others_may_not_write_to_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| {
            let found = fs::symlink_metadata(path).unwrap();
            check_private(path, &found).map_err(|why| why.to_string()).err().unwrap_or_default()
        };
        assert_eq!(said(folder.path()), "");
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o775)).unwrap();
        assert!(said(folder.path()).contains("others may write"));
        let link = folder.path().join("link");
        symlink("/", &link).unwrap();
        assert!(said(&link).contains("is not a directory"));
    }
}
