//! Why a workload failed: what was tried, and the kernel's error.

use std::borrow::Cow;
use std::{fmt, io};

/// A failed step of a workload.
#[derive(Debug)]
pub struct Failure {
    what: Cow<'static, str>,
    error: Option<io::Error>,
}

impl Failure {
    /// A failure that no system call reported: a missing effect, an impossible parameter.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Failure {
        Failure { what: what.into(), error: None }
    }

    /// A failed call: `what` was tried, on which object, and the error.
    pub fn from_error(what: impl Into<Cow<'static, str>>, error: io::Error) -> Failure {
        Failure { what: what.into(), error: Some(error) }
    }

    /// The failure of the libc call that has just returned.
    #[cold]
    pub fn last_os_error(what: &'static str) -> Failure {
        Failure::from_error(what, io::Error::last_os_error())
    }

    /// Whether a signal cut a waiting call short.
    pub fn interrupted(&self) -> bool {
        self.error.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::Interrupted)
    }

    /// The error number, if a system call failed.
    pub fn errno(&self) -> Option<i32> {
        self.error.as_ref().and_then(io::Error::raw_os_error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.error {
            Some(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                let advice =
                    "run shorter, or choose a directory with more free space and inodes (--dir)";
                write!(f, "{}: {error}: {advice}", self.what)
            }
            Some(error) => write!(f, "{}: {error}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The result of a libc call that returns a negative number on failure.
#[inline(always)]
pub fn sys<T: Copy + PartialOrd + Default>(what: &'static str, result: T) -> Result<T, Failure> {
    if result < T::default() {
        return Err(Failure::last_os_error(what));
    }
    Ok(result)
}

/// Repeats a call until no signal interrupts it.
#[inline(always)]
pub(crate) fn until_done(
    what: &'static str,
    mut call: impl FnMut() -> i32,
) -> Result<i32, Failure> {
    loop {
        match sys(what, call()) {
            Err(failure) if failure.interrupted() => continue,
            result => return result,
        }
    }
}
