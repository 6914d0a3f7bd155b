//! Users who may change what knee uses: this user, root, and who called sudo.

use std::{env, fs};

use crate::paths::user;

/// The users whose files and links this process may use as if they were its user's own.
#[derive(Clone, Copy, Debug)]
pub struct TrustedUsers {
    pub user: u32,
    /// The user who started knee with sudo, and can do as root what root can.
    pub sudo_user: Option<u32>,
    /// What the kernel shows in a user namespace for users outside it, root among them.
    pub outside: Option<u32>,
}

impl TrustedUsers {
    pub fn current() -> TrustedUsers {
        let number = |text: String| text.trim().parse().ok();
        let is_root = user() == 0;
        let maps = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let is_namespace = maps.split_whitespace().ne(["0", "0", "4294967295"]);
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
        TrustedUsers {
            user: user(),
            sudo_user: env::var("SUDO_UID").ok().and_then(number).filter(|_| is_root),
            outside: overflow.and_then(number).filter(|_| is_namespace),
        }
    }

    pub fn contains(&self, user: u32) -> bool {
        [Some(0), Some(self.user), self.sudo_user, self.outside].contains(&Some(user))
    }
}
