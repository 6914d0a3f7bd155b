//! Other hosts, by the system's ssh client: how knee starts it, and what a user can do about what it says.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::children;

/// How long ssh may take for the first bytes of a connection.
const CONNECT_S: u32 = 10;

/// Refuses what ssh would not take for the name of a host.
pub fn check_host(name: &str) -> Result<()> {
    ensure!(!name.is_empty(), "a host without a name");
    ensure!(
        !name.starts_with('-') && !name.contains(|c: char| c.is_whitespace() || c.is_control()),
        "{name:?} is no host's name"
    );
    Ok(())
}

/// The ssh client and its arguments: those of KNEE_SSH, or `ssh` alone.
pub fn client() -> Result<Vec<String>> {
    let text = std::env::var("KNEE_SSH").unwrap_or_else(|_| "ssh".to_string());
    let words = shlex::split(&text).with_context(|| format!("KNEE_SSH={text}: unclosed quote"))?;
    ensure!(!words.is_empty(), "KNEE_SSH is empty");
    Ok(words)
}

/// The words that start a line of a shell on a host, whose streams ssh carries. Whatever shell the user has there reads
/// the line. ssh asks nothing, and ends when the host is silent for three times `silence`, if that is given.
pub fn words(client: &[String], host: &str, line: &str, silence: Option<Duration>) -> Vec<String> {
    let mut options = vec![
        "BatchMode=yes".to_string(),
        "LogLevel=ERROR".to_string(),
        format!("ConnectTimeout={CONNECT_S}"),
        // A session never becomes the master of others, which would die with it.
        "ControlMaster=no".to_string(),
    ];
    options.extend(silence.map(|time| format!("ServerAliveInterval={}", time.as_secs().max(1))));
    let options = options.into_iter().flat_map(|option| ["-o".to_string(), option]);
    let last = ["--", host, line].map(str::to_string);
    client.iter().cloned().chain(["-T".to_string()]).chain(options).chain(last).collect()
}

/// A word as one word of a shell.
pub fn quoted(word: &str) -> Result<String> {
    let quoted = shlex::try_quote(word).with_context(|| format!("{word:?} for a shell"))?;
    Ok(quoted.into_owned())
}

/// What a script for sh prints on a host. The script may be any text.
pub fn answer(client: &[String], host: &str, script: &str, limit: Duration) -> Result<String> {
    let words = words(client, host, "exec sh -c 'eval \"$(cat)\"'", None);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let answer = children::answer_within(&mut command, script.as_bytes(), limit);
    let answer = answer.with_context(|| format!("asking {host} by {}", words[0]))?;
    if !answer.status.success() {
        bail!("{host}: {}", with_advice(&String::from_utf8_lossy(&answer.stderr)));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}

/// What ssh said, on one line, with what a user can do about it.
pub fn with_advice(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.collect::<Vec<_>>().join("; ");
    match advice(&said) {
        _ if said.is_empty() => "the connection was lost".to_string(),
        Some(advice) => format!("{said} ({advice})"),
        None => said,
    }
}

/// What a user can do about what ssh says of a login: it may ask for nothing here.
fn advice(said: &str) -> Option<&'static str> {
    let known = [
        (
            "Permission denied",
            "ssh must log in without a password: run ssh-copy-id, or start an agent",
        ),
        ("Host key verification failed", "log in once by hand, to accept the host's key"),
        ("Could not resolve", "name it as ssh knows it: by ~/.ssh/config, /etc/hosts or DNS"),
        ("Connection refused", "start sshd there, or give its port in ~/.ssh/config"),
        ("timed out", "look whether the host is up, and whether a firewall lets ssh through"),
    ];
    known.into_iter().find(|(words, _)| said.contains(words)).map(|(_, advice)| advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_to_the_host_and_options_before_its_name() {
        let client = ["ssh", "-F", "x"].map(str::to_string);
        let words = words(&client, "me@b", "true", Some(Duration::from_secs(5)));
        let line = words.join(" ");
        assert!(line.starts_with("ssh -F x -T -o BatchMode=yes "), "{line}");
        assert!(line.ends_with("-o ServerAliveInterval=5 -- me@b true"), "{line}");
    }

    #[test]
    fn what_ssh_says_gets_advice_on_one_line() {
        assert_eq!(with_advice("\n"), "the connection was lost");
        assert_eq!(with_advice("it broke\r\nlate\n"), "it broke; late");
        assert!(with_advice("b: Permission denied (publickey).").contains("run ssh-copy-id"));
        for wrong in ["", "-oProxyCommand=x", "a b", "a\n"] {
            assert!(check_host(wrong).is_err(), "{wrong:?}");
        }
    }
}
