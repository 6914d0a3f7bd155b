//! Where knee keeps its files: the XDG folders of the user. knee may run as root, so it never
//! uses a folder that another user could have created or may write to.

use std::env;
use std::fs::{self, DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The default folder of records: `$KNEE_RECORDS`, if that is not empty, else below the user's data folder.
pub fn records() -> Result<PathBuf> {
    match env::var_os("KNEE_RECORDS") {
        Some(given) if !given.is_empty() => records_at(Path::new(&given)),
        _ => Ok(xdg("XDG_DATA_HOME", ".local/share")?.join("records")),
    }
}

/// The folder of records that the user names, as an absolute path: compilers and other processes use it from directories
/// of their own.
pub fn records_at(given: &Path) -> Result<PathBuf> {
    std::path::absolute(given)
        .with_context(|| format!("looking for the folder of records {}", given.display()))
}

/// The folder of data that knee can compute again.
pub fn cache() -> Result<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache")
}

/// The folder of the journals of running knees.
pub fn state() -> Result<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// The folder of the user's settings.
pub fn config() -> Result<PathBuf> {
    xdg("XDG_CONFIG_HOME", ".config")
}

/// The directory for temporary files: `$TMPDIR`, if that is not empty, else /tmp.
pub fn temporary() -> PathBuf {
    Some(env::temp_dir()).filter(|path| !path.as_os_str().is_empty()).unwrap_or("/tmp".into())
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
    ensure!([user(), 0].contains(&owner), "{path} belongs to user {owner}, not to user {}", user());
    ensure!(found.mode() & 0o022 == 0, "others may write to {path}: run chmod go-w {path}");
    Ok(())
}

/// knee's folder in one of the user's XDG folders: that of the environment variable, else `in_home`.
fn xdg(variable: &str, in_home: &str) -> Result<PathBuf> {
    let given = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match given {
        Some(given) => given,
        None => home()?.join(in_home),
    };
    Ok(folder.join("knee"))
}

/// The home folder of a user in /etc/passwd, if it belongs to the user.
pub fn home_of(user: u32) -> Option<PathBuf> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let home = home_in(&text, user)?;
    fs::metadata(&home).is_ok_and(|m| m.is_dir() && m.uid() == user).then_some(home)
}

/// The ids of a user and of the user's group in /etc/passwd.
pub fn user_named(name: &str) -> Option<(u32, u32)> {
    ids_in(&fs::read_to_string("/etc/passwd").ok()?, name)
}

fn ids_in(passwd: &str, name: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [known, _, user, group, ..] = fields[..] else { return None };
        (known == name).then(|| Some((user.parse().ok()?, group.parse().ok()?)))?
    })
}

/// The home folder that the environment names.
pub fn home_given() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The user's home folder. Services and cron jobs may have no HOME; then /etc/passwd decides, if the
/// folder that it names is the user's own (`/nonexistent` is not).
fn home() -> Result<PathBuf> {
    match home_given().or_else(|| home_of(user())) {
        Some(home) => Ok(home),
        None => temporary_home(),
    }
}

/// The home folder of a user in the text of /etc/passwd, as getpwuid(3) would return it. A static
/// binary cannot call that function.
fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    let home = passwd.lines().find_map(|line| {
        // name:password:user:group:comment:home:shell
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(user)).then(|| fields.get(5).copied())?
    })?;
    Some(PathBuf::from(home)).filter(|home| home.is_absolute())
}

/// A substitute for a home folder, in a directory that every user may write to: used only if it
/// belongs to this user.
fn temporary_home() -> Result<PathBuf> {
    let path = temporary().join(format!("knee-{}", user()));
    let made = match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e).context("creating it"),
        _ => fs::symlink_metadata(&path).context("looking at it"),
    };
    made.and_then(|found| check_private(&path, &found)).with_context(|| {
        format!(
            "there is no home folder, and {} cannot replace it (set HOME; or --records, \
             XDG_STATE_HOME and XDG_CACHE_HOME)",
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
    fn the_home_of_a_user_stands_in_the_first_line_with_the_user_id() {
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
