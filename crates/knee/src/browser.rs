//! The user's browser.

use std::process::Command;

use host::children;
use host::terminal::talk;

/// Opens an address or a file in the browser, which may not be there.
pub fn open(address: &str) {
    if let Err(why) = children::spawn(Command::new("xdg-open").arg(address)) {
        talk(format_args!("no browser was opened (xdg-open: {why}); open {address}"));
    }
}

/// Whether this user has a screen on which a browser could show something.
pub fn has_screen() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some())
}
