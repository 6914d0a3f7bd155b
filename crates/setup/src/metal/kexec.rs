//! Loading a kernel beside the one that runs, and the reboots: kexec_file_load(2), reboot(2).

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

// include/uapi/linux/kexec.h
const KEXEC_FILE_UNLOAD: usize = 1;
const KEXEC_FILE_NO_INITRAMFS: usize = 4;

/// Whether a kernel is loaded; absent without CONFIG_KEXEC.
const LOADED: &str = "/sys/kernel/kexec_loaded";

/// The number of the first PID namespace (include/linux/proc_ns.h). In any other, reboot(2) only ends a
/// container.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Why knee must not boot kernels here, in whatever way; `None` if it may.
pub fn taken() -> Option<String> {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace != Path::new(FIRST_PID_NAMESPACE) {
        return Some("this is a container: start knee on the host itself".to_string());
    }
    is_loaded().then(|| {
        "a kernel is loaded already, by somebody else: kexec --unload frees it".to_string()
    })
}

/// Why this host cannot load a kernel; `None` if it can as far as that shows.
pub fn refusal() -> Option<String> {
    if let Some(why) = taken() {
        return Some(why);
    }
    if !Path::new(LOADED).exists() {
        return Some(format!("its kernel has no kexec (CONFIG_KEXEC_FILE): {LOADED} is missing"));
    }
    is_disabled().then(|| DISABLED.to_string())
}

const DISABLED: &str = "kernel.kexec_load_disabled is 1 until the next boot";

fn is_disabled() -> bool {
    let disabled = fs::read_to_string("/proc/sys/kernel/kexec_load_disabled");
    disabled.is_ok_and(|text| text.trim() == "1")
}

fn is_loaded() -> bool {
    fs::read_to_string(LOADED).is_ok_and(|text| text.trim() == "1")
}

/// Loads a kernel for the next reboot.
pub fn load(kernel: &Path, initrd: Option<&Path>, command_line: &str) -> Result<()> {
    let open =
        |path: &Path| File::open(path).with_context(|| format!("opening {}", path.display()));
    let file = open(kernel)?;
    let initrd = initrd.map(open).transpose()?;
    let text = CString::new(command_line).context("the command line")?;
    let flags = if initrd.is_some() { 0 } else { KEXEC_FILE_NO_INITRAMFS };
    // SAFETY: open descriptors, and a string with the length that is given.
    let loaded = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            file.as_raw_fd(),
            initrd.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            text.as_bytes_with_nul().len(),
            text.as_ptr(),
            flags,
        )
    };
    if loaded == 0 {
        return Ok(());
    }
    let why = io::Error::last_os_error();
    let advice = match why.raw_os_error() {
        Some(libc::EPERM) if is_disabled() => {
            bail!("loading {} by kexec: {DISABLED}", kernel.display())
        }
        Some(libc::EPERM | libc::ENOKEY | libc::EKEYREJECTED | libc::EBADMSG) => {
            ": this kernel loads only signed ones (lockdown, Secure Boot): sign it, or disable Secure Boot"
        }
        Some(libc::ENOSYS) => ": this kernel has no CONFIG_KEXEC_FILE",
        Some(libc::ENOEXEC) => {
            ": the file is no kernel that kexec can load (a bzImage of this architecture)"
        }
        _ => "",
    };
    bail!("loading {} by kexec: {why}{advice}", kernel.display())
}

/// Unloads the kernel that is loaded, if there is one.
pub fn unload() -> Result<()> {
    if !is_loaded() {
        return Ok(());
    }
    let (none, empty, nothing) = (-1_i32, 0_usize, std::ptr::null::<u8>());
    // SAFETY: no files, no string.
    let unloaded = unsafe {
        libc::syscall(libc::SYS_kexec_file_load, none, none, empty, nothing, KEXEC_FILE_UNLOAD)
    };
    match unloaded {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).context("unloading the kernel that kexec would start"),
    }
}

/// Starts the loaded kernel at once.
pub fn reboot_into_loaded() -> Result<()> {
    reboot(libc::LINUX_REBOOT_CMD_KEXEC)
}

/// Resets the host, whose firmware starts its own kernel.
pub fn reset() -> Result<()> {
    reboot(libc::LINUX_REBOOT_CMD_RESTART)
}

fn reboot(command: i32) -> Result<()> {
    // SAFETY: plain calls. Data is written out first; file systems with a journal need no more.
    unsafe {
        libc::sync();
        libc::reboot(command);
    }
    let why = io::Error::last_os_error();
    std::thread::sleep(Duration::from_millis(100));
    Err(why).context("rebooting the host")
}
