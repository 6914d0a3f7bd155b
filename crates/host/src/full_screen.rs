//! A screen that takes the whole terminal: keys without lines, whole frames, and the terminal as it was before at the end,
//! after a panic, and while this process is stopped.
//!
//!     begin ─ draw, key, draw … ─ drop        Ctrl-Z: as before ─ stopped ─ fg: taken again

use std::io::{self, IsTerminal, Write};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::job_control;
use crate::terminal::shown;

/// What the terminal was like before, while a screen has it.
static BEFORE: Mutex<Option<libc::termios>> = Mutex::new(None);

/// Whether the size may have changed, or another program may have used the terminal meanwhile.
static CHANGED: AtomicBool = AtomicBool::new(false);

/// The alternate screen, no cursor, no wrapping; and back.
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const GIVE_BACK: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// After an escape, the rest of a key's sequence comes at once, but for slow lines.
const REST_OF_KEY: Duration = Duration::from_millis(30);

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Tab,
    Letter(char),
    /// A key that has no name here.
    Other,
}

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSize {
    pub columns: usize,
    pub rows: usize,
}

/// The terminal, until it is dropped.
pub struct FullScreen {
    /// Bytes of keys that were read and not taken.
    typed: Vec<u8>,
}

impl FullScreen {
    /// Whether there is a terminal to take: one that keys come from and that shows more than lines.
    pub fn is_possible() -> bool {
        io::stdin().is_terminal() && crate::terminal::is_capable()
    }

    /// Takes the terminal.
    ///
    /// # Errors
    /// Standard input or output is no terminal.
    pub fn begin() -> Result<FullScreen> {
        static ONCE: Once = Once::new();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the call fills the structure, or fails.
        let asked = unsafe { libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) };
        ensure!(
            asked == 0 && io::stdout().is_terminal(),
            "standard input and output are no terminal: a screen needs one"
        );
        // SAFETY: the call has filled it.
        *lock_before() = Some(unsafe { before.assume_init() });
        ONCE.call_once(|| {
            give_back_before_panics();
            notice_changes();
        });
        job_control::around_stops(give_back, take_again);
        take_terminal();
        Ok(FullScreen { typed: Vec::new() })
    }

    /// The size of the terminal; 80 by 24 if it does not say.
    pub fn size(&self) -> ScreenSize {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the call fills one live winsize.
        unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
        match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => ScreenSize { columns: 80, rows: 24 },
            (columns, rows) => ScreenSize { columns: columns as usize, rows: rows as usize },
        }
    }

    /// Whether the screen has to be drawn again, though nothing on it has changed.
    pub fn is_changed(&self) -> bool {
        let is_changed = CHANGED.swap(false, Relaxed);
        if is_changed {
            take_terminal();
        }
        is_changed
    }

    /// Draws a frame: as many lines as the terminal has, none wider, in colours of [`terminal::painted`](crate::terminal::painted).
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, lines: &[String]) -> Result<()> {
        if job_control::is_stopping() {
            CHANGED.store(true, Relaxed);
            return Ok(());
        }
        let lines: Vec<String> =
            lines.iter().map(|line| format!("\x1b[2K{}", shown(line))).collect();
        let frame = format!("\x1b[H{}", lines.join("\r\n"));
        let mut out = io::stdout().lock();
        out.write_all(frame.as_bytes())
            .and_then(|()| out.flush())
            .context("drawing on the terminal")
    }

    /// Waits for a key for so long.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&mut self, wait: Duration) -> Result<Option<Key>> {
        if self.typed.is_empty() {
            self.read(wait)?;
        }
        if self.typed == [ESCAPE] {
            self.read(REST_OF_KEY)?;
        }
        let Some((key, length)) = key_of(&self.typed) else { return Ok(None) };
        self.typed.drain(..length);
        Ok(Some(key))
    }

    fn read(&mut self, wait: Duration) -> Result<()> {
        let mut asked = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        // A wait of less than a millisecond is none.
        let wait_ms = wait.as_millis().min(1000) as i32;
        // SAFETY: one live structure. A signal ends the wait.
        if unsafe { libc::poll(&raw mut asked, 1, wait_ms) } <= 0 {
            return Ok(());
        }
        let mut bytes = [0; 64];
        // SAFETY: a live buffer of that length.
        let read =
            unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(read) {
            Ok(0) => bail!("the terminal is gone"),
            Ok(length) => self.typed.extend_from_slice(&bytes[..length]),
            Err(_) => {
                let error = io::Error::last_os_error();
                let goes_on = [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock];
                ensure!(goes_on.contains(&error.kind()), "reading keys: {error}");
            }
        }
        Ok(())
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
        *lock_before() = None;
    }
}

fn lock_before() -> std::sync::MutexGuard<'static, Option<libc::termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the terminal, if a screen has it: keys come one by one and are not shown. Ctrl-C and Ctrl-Z stay signals.
fn take_terminal() {
    let Some(mut settings) = *lock_before() else { return };
    settings.c_lflag &= !(libc::ICANON | libc::ECHO | libc::IEXTEN);
    settings.c_iflag &= !(libc::ICRNL | libc::IXON);
    settings.c_cc[libc::VMIN] = 1;
    settings.c_cc[libc::VTIME] = 0;
    // SAFETY: a live structure. In the background, the call stops this process until it is in the foreground.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, &raw const settings) };
    write(TAKE);
}

/// Takes the terminal after a stop.
fn take_again() {
    take_terminal();
    CHANGED.store(true, Relaxed);
}

/// Gives the terminal back as it was, if a screen has it.
fn give_back() {
    let Some(settings) = *lock_before() else { return };
    write(GIVE_BACK);
    // SAFETY: a live structure.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, &raw const settings) };
}

/// Ignores failures: there is nowhere to report them.
fn write(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A message of a panic on the screen's own page would vanish with it.
fn give_back_before_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}

/// Remembers that the size changed, or that this process was continued.
fn notice_changes() {
    extern "C" fn notice(_signal: i32) {
        CHANGED.store(true, Relaxed);
    }
    for signal in [libc::SIGWINCH, libc::SIGCONT] {
        // SAFETY: the struct is plain data; the handler stores to an atomic, which is safe in a handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = notice as extern "C" fn(i32) as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

const ESCAPE: u8 = 0x1b;

/// The first key in these bytes, and how many of them it takes.
fn key_of(bytes: &[u8]) -> Option<(Key, usize)> {
    match bytes {
        [] => None,
        [ESCAPE, b'O', letter, ..] => Some((named(&[], *letter), 3)),
        [ESCAPE, b'[', rest @ ..] => {
            // ECMA-48, 5.4: parameters and intermediate bytes lie below the final one.
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
            let end = end.unwrap_or(rest.len());
            let letter = rest.get(end).copied().unwrap_or_default();
            Some((named(&rest[..end], letter), (end + 3).min(bytes.len())))
        }
        [ESCAPE, ..] => Some((Key::Escape, 1)),
        [b'\r' | b'\n', ..] => Some((Key::Enter, 1)),
        [b'\t', ..] => Some((Key::Tab, 1)),
        [0x7f | 0x08, ..] => Some((Key::Backspace, 1)),
        [..0x20, ..] => Some((Key::Other, 1)),
        _ => {
            let length =
                (1..=bytes.len().min(4)).find(|n| std::str::from_utf8(&bytes[..*n]).is_ok());
            let letter = length.and_then(|n| std::str::from_utf8(&bytes[..n]).ok()?.chars().next());
            Some((letter.map_or(Key::Other, Key::Letter), length.unwrap_or(1)))
        }
    }
}

/// A key by the parameters and the last letter of its sequence, as xterm, the Linux console, screen and tmux send it.
fn named(parameters: &[u8], letter: u8) -> Key {
    match (letter, parameters) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'M', []) => Key::Enter,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        _ => Key::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_terminals_send_them() {
        let check = |bytes: &[u8], expected: &[Key]| {
            let (mut rest, mut keys) = (bytes, Vec::new());
            while let Some((key, length)) = key_of(rest) {
                keys.push(key);
                rest = &rest[length..];
            }
            assert_eq!(keys, expected, "{bytes:?}");
        };
        check(b"", &[]);
        check(b"\x1b[A\x1b[B\x1bOC\x1bOD", &[Key::Up, Key::Down, Key::Right, Key::Left]);
        check(b"\x1b[5~\x1b[6~\x1b[H\x1b[4~", &[Key::PageUp, Key::PageDown, Key::Home, Key::End]);
        check(b"\x1b[1;5A\x1b[200~x", &[Key::Up, Key::Other, Key::Letter('x')]);
        check(b"\x1b", &[Key::Escape]);
        check(b"\x1bq", &[Key::Escape, Key::Letter('q')]);
        check(b"\x1b[", &[Key::Other]);
        check(
            b"j\r\n\x7f\x08\t\x01",
            &[
                Key::Letter('j'),
                Key::Enter,
                Key::Enter,
                Key::Backspace,
                Key::Backspace,
                Key::Tab,
                Key::Other,
            ],
        );
        check("é\u{1f600}".as_bytes(), &[Key::Letter('é'), Key::Letter('\u{1f600}')]);
        check(b"\xff\xc3", &[Key::Other, Key::Other]);
    }
}
