//! What a guest's console says about its end.

use guests::qemu::Qemu;

/// Why a guest is off, to follow "the guest": its kernel's last words, else QEMU's.
pub fn exit_reason(qemu: &mut Qemu) -> String {
    let console = qemu.console();
    let panic = console.lines().rev().find_map(|line| {
        line.split_once("Kernel panic - not syncing: ").map(|(_, why)| why.trim().to_string())
    });
    // When init fails, its error comes before the panic that its end causes.
    let init = console.lines().rev().find_map(|line| line.strip_prefix("knee: "));
    match (panic, init) {
        (Some(_), Some(said)) => format!("could not be set up: {said}"),
        (Some(why), None) => format!("panicked: {}", panic_advice(&why, &console)),
        (None, _) => match qemu.last_words() {
            words if !words.is_empty() => format!("was ended by QEMU: {words}"),
            _ => format!("ended without an error (on its console last: {})", last_line(&console)),
        },
    }
}

/// A panic's reason, with advice where its cause is known.
fn panic_advice(why: &str, console: &str) -> String {
    let advice = if why.contains("No working init")
        || why.contains("unable to mount root fs")
        || why.contains("Unable to mount root fs")
    {
        " (the kernel did not take the initramfs: it needs CONFIG_BLK_DEV_INITRD)"
    } else if why.contains("out of memory")
        || why.contains("Out of memory")
        || console.contains("Initramfs unpacking failed")
    {
        " (give the guest more memory: --guest-memory 2G)"
    } else {
        ""
    };
    format!("{why}{advice}")
}

/// The last line of a console that is not empty.
pub fn last_line(console: &str) -> String {
    let last = console.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("nothing").trim().to_string()
}
