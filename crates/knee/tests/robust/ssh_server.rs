//! A server of ssh on the loopback, for tests of other hosts.

use std::fs;
use std::process::{Command, Stdio};

use crate::beside::{Daemon, free_port, program};
use crate::home::Home;
use crate::process::wait_for;
use crate::skip::{is_root, skip};

/// An ssh server on the loopback, which knee reaches as `a`, `b` and `c`, as `client`, from 127.0.0.3, and as
/// `stranger` without a key. Nothing listens where it looks for `gone`.
pub struct Server {
    pub home: Home,
    _daemon: Daemon,
}

impl Server {
    /// `None`, and says why, where none can be started.
    pub fn start(test: &str) -> Option<Server> {
        let Some(sshd) = program("sshd").filter(|_| program("ssh").is_some()) else {
            skip(test, "no sshd (apt-get install openssh-server)");
            return None;
        };
        if !is_root() {
            skip(test, "needs root, since sshd logs in users");
            return None;
        }
        let home = Home::new();
        let file = |name: &str| home.path(name).display().to_string();
        for name in ["hostkey", "key", "other"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &file(name)]);
            assert!(keygen.status().expect("starting ssh-keygen").success());
        }
        // sshd wants it for the process that talks before the login.
        fs::create_dir_all("/run/sshd").expect("making /run/sshd");
        let port = free_port();
        let environment =
            [("KNEE_RECORDS", "records"), ("XDG_STATE_HOME", "state"), ("TMPDIR", "measured")];
        let environment: Vec<String> =
            environment.iter().map(|(name, path)| format!("{name}={}", file(path))).collect();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             UsePAM no\nPidFile none\nPermitRootLogin prohibit-password\nMaxStartups 100\nSetEnv {}\n",
            file("hostkey"),
            file("key.pub"),
            environment.join(" ")
        );
        fs::write(home.path("sshd_config"), config).expect("writing sshd_config");
        let hosts = format!(
            "Host a b c client stranger\n HostName 127.0.0.1\n Port {port}\n User root\n IdentitiesOnly yes\n \
             Ciphers aes128-gcm@openssh.com\n \
             StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\nHost a b c client\n IdentityFile {}\n\
             Host stranger\n IdentityFile {}\nHost gone\n HostName 127.0.0.1\n Port 1\n\
             Host client\n BindAddress 127.0.0.3\n",
            file("key"),
            file("other")
        );
        fs::write(home.path("ssh_config"), hosts).expect("writing ssh_config");
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f", &file("sshd_config")]);
        let daemon = Daemon::start(&mut command, &home.path("sshd.log"));
        let server = Server { home, _daemon: daemon };
        wait_for("sshd", || server.ssh("a", "true").status().ok()?.success().then_some(()));
        Some(server)
    }

    fn ssh(&self, host: &str, command: &str) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(self.home.path("ssh_config")).args([host, command]);
        ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        ssh
    }

    /// `knee` with these arguments, which reaches the server by these names.
    pub fn knee(&self, arguments: &str) -> Command {
        let mut command = self.home.knee(arguments);
        let config = self.home.path("ssh_config");
        command.env("KNEE_SSH", format!("ssh -F {}", config.display()));
        command
    }
}
