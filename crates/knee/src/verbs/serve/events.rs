//! News for open pages while runs go on: server-sent events, one whenever a record changed.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use store::{Store, Watch};

use crate::verbs::serve::response::{Response, head};

/// How often records are looked at.
const EVERY: Duration = Duration::from_secs(2);
/// A page is shown again at most for one part in so many of the time: the host is being measured.
const SHARE: u32 = 20;
/// After this long without news, a line shows whether the reader is still there.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// A page that is open for longer asks again by itself.
const AT_MOST: Duration = Duration::from_secs(600);
/// How long a reader may take for a line.
const PATIENCE: Duration = Duration::from_secs(10);

/// Readers that get news at the same time; more would leave none for those who ask for pages.
const READERS_MAX: usize = 8;

/// Tells all readers what one look at the store found.
pub struct News {
    readers: AtomicUsize,
    looked: Mutex<Looked>,
}

struct Looked {
    watch: Watch,
    at: Instant,
    /// How often the store had changed.
    changes: u64,
}

impl News {
    pub fn new(store: Store) -> News {
        let looked = Looked { watch: Watch::new(store), at: Instant::now(), changes: 0 };
        News { readers: AtomicUsize::new(0), looked: Mutex::new(looked) }
    }

    /// Sends news until the reader goes. `shown` says how long it takes to show what changed.
    pub fn send(&self, mut stream: TcpStream, shown: impl Fn() -> Duration) {
        if self.readers.fetch_add(1, Ordering::Relaxed) < READERS_MAX {
            let _ = self.send_all(&mut stream, shown);
        } else {
            let full = Response::refusal(503, "busy", "too many pages wait for news");
            let _ = full.send(&mut stream, PATIENCE);
        }
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }

    fn send_all(&self, stream: &mut TcpStream, shown: impl Fn() -> Duration) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(head(200, "OK", "text/event-stream", "").as_bytes())?;
        stream.write_all(b"retry: 3000\n\n")?;
        let began = Instant::now();
        let (mut told, mut spoke) = (began, began);
        let mut known = self.changes();
        while began.elapsed() < AT_MOST {
            thread::sleep(EVERY);
            let now = self.changes();
            if now != known && told.elapsed() >= SHARE * shown() {
                known = now;
                stream.write_all(b"event: changed\ndata: 1\n\n")?;
                told = Instant::now();
                spoke = told;
            } else if spoke.elapsed() > ALIVE_EVERY {
                stream.write_all(b": still here\n\n")?;
                spoke = Instant::now();
            }
        }
        Ok(())
    }

    /// How often the store has changed so far. Looks at it if the last look was long enough ago.
    fn changes(&self) -> u64 {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.at.elapsed() >= EVERY {
            looked.changes += u64::from(looked.watch.has_changed());
            looked.at = Instant::now();
        }
        looked.changes
    }
}
