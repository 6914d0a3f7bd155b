//! Programs that run beside a test, and end with it.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running program in a process group of its own.
pub struct Daemon(Child);

impl Daemon {
    /// Starts a program that stays in the foreground; its messages go to a file.
    pub fn start(command: &mut Command, log: &Path) -> Daemon {
        use std::os::unix::process::CommandExt;
        let log = File::options().create(true).append(true).open(log).expect("opening a log");
        let out = log.try_clone().expect("opening a log twice");
        command.stdin(Stdio::null()).stdout(out).stderr(log).process_group(0);
        Daemon(command.spawn().expect("starting a daemon"))
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child that has not been waited for, so the id is still its.
        unsafe { libc::kill(self.pid(), signal) };
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
        // SAFETY: its group, which has its id.
        unsafe { libc::kill(-self.pid(), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// A port that nothing listens on just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binding a port");
    listener.local_addr().expect("asking for the port").port()
}

/// A program of the system's, if it is installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    folders.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.exists())
}
