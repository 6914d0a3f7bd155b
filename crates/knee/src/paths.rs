//! Where knee keeps what it keeps: the XDG folders of the user.

use std::env;
use std::path::PathBuf;

/// Where records lie unless told otherwise: `$KNEE_RECORDS`, else the user's data folder.
pub fn records() -> PathBuf {
    env::var_os("KNEE_RECORDS")
        .map(PathBuf::from)
        .unwrap_or_else(|| xdg("XDG_DATA_HOME", ".local/share").join("records"))
}

/// Where what can be computed again lies.
pub fn cache() -> PathBuf {
    xdg("XDG_CACHE_HOME", ".cache")
}

/// Where the journals of running knees lie.
pub fn state() -> PathBuf {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// A folder of knee's own in the user's folder of that kind; without a home, in the
/// temporary directory.
fn xdg(variable: &str, in_home: &str) -> PathBuf {
    let given = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(in_home));
    given.or_else(home).unwrap_or_else(env::temp_dir).join("knee")
}
