//! A terminal of its own for a program under test: both ends, and what the program writes.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

/// Both ends of a pseudo-terminal.
pub struct Pty {
    /// The end at which a person types and reads.
    pub person: File,
    /// The end of the program.
    pub terminal: File,
}

impl Pty {
    /// A new pseudo-terminal of this many columns and rows.
    pub fn open((columns, rows): (u16, u16)) -> Pty {
        let (mut person, mut terminal) = (0, 0);
        let null = std::ptr::null_mut();
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: two live integers and a size; no name or settings.
        let opened = unsafe {
            libc::openpty(&raw mut person, &raw mut terminal, null, null.cast(), &raw const size)
        };
        assert_eq!(opened, 0, "opening a pseudo-terminal");
        // SAFETY: new descriptors that nothing else owns.
        let (person, terminal) =
            unsafe { (File::from_raw_fd(person), File::from_raw_fd(terminal)) };
        Pty { person, terminal }
    }

    /// Gives the terminal to a command, which leads a session on it, with signals that end and stop it as in a shell.
    pub fn give_to(&self, command: &mut Command) {
        let copy = || self.terminal.try_clone().expect("duplicating a descriptor");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        // SAFETY: system calls only.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
    }

    /// What is written to the terminal, from now on.
    pub fn output(&self) -> Receiver<Vec<u8>> {
        let mut reader = self.person.try_clone().expect("duplicating a descriptor");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut chunk) {
                if sender.send(chunk[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        output
    }
}
