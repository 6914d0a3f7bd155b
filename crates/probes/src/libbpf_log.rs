//! What libbpf says of a failure: its errors are only numbers.

use std::sync::Mutex;

use libbpf_rs::PrintLevel;

/// What libbpf logged since the last [`with_log`].
static LIBBPF_LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps what libbpf logs from now on.
pub fn keep() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| {
        LIBBPF_LOG.lock().unwrap_or_else(|e| e.into_inner()).push(line);
    })));
}

/// A failed attempt with its error and the reason in libbpf's log, which it empties.
pub fn with_log(attempt: &str, error: &libbpf_rs::Error) -> String {
    let text = std::mem::take(&mut *LIBBPF_LOG.lock().unwrap_or_else(|e| e.into_inner())).concat();
    // The reason is at the end of the verifier's long log.
    let is_reasoning =
        |line: &&str| !line.starts_with("processed ") && !line.contains("-- END PROG");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).filter(is_reasoning);
    let lines: Vec<&str> = lines.collect();
    let refusal = lines.iter().position(|line| line.contains("failed to load"));
    let end = refusal.unwrap_or(lines.len());
    let reason = lines[end.saturating_sub(3)..end].join("; ");
    if reason.is_empty() {
        format!("{attempt}: {error}")
    } else {
        format!("{attempt}: {error} ({reason})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_end_of_the_verifiers_log() {
        let log = "prog 'x': BPF program load failed: EPERM\n-- BEGIN PROG LOAD LOG --\n\
                              0: R1=ctx()\n5: invalid access to memory\nprocessed 6 insns\n\
                              -- END PROG LOAD LOG --\nprog 'x': failed to load: -1\n";
        LIBBPF_LOG.lock().unwrap_or_else(|e| e.into_inner()).push(log.to_string());
        let error = libbpf_rs::Error::from_raw_os_error(libc::EPERM);
        let message = with_log("loading knee's BPF programs", &error);
        assert!(message.contains("invalid access to memory"), "{message}");
        assert!(!message.contains("processed"), "{message}");
    }
}
