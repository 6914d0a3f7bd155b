//! News for open pages while runs go on: server-sent events, one whenever a record changed.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use host::paths;
use store::{Index, Store};

use crate::verbs::serve::response::{Response, head};

/// How often records are looked at.
const EVERY: Duration = Duration::from_secs(2);
/// After this long without news, a line shows whether the reader is still there.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// A page that is open for longer asks again by itself.
const AT_MOST: Duration = Duration::from_secs(600);

/// Readers that get news at the same time; more would leave none for those who ask for pages.
const READERS_MAX: usize = 8;

static READERS: AtomicUsize = AtomicUsize::new(0);

/// Sends news until the reader goes.
pub fn send(mut stream: TcpStream, store: &Store) {
    if READERS.fetch_add(1, Ordering::Relaxed) < READERS_MAX {
        let _ = send_all(&mut stream, store);
    } else {
        let full = Response::refusal(503, "busy", "too many pages wait for news");
        let _ = full.write(&mut stream);
    }
    READERS.fetch_sub(1, Ordering::Relaxed);
}

fn send_all(stream: &mut TcpStream, store: &Store) -> io::Result<()> {
    stream.write_all(head(200, "OK", "text/event-stream", None).as_bytes())?;
    stream.write_all(b"retry: 3000\n\n")?;
    let (began, mut told) = (Instant::now(), Instant::now());
    let mut known = state(store).unwrap_or_default();
    while began.elapsed() < AT_MOST {
        thread::sleep(EVERY);
        let now = state(store).unwrap_or_default();
        if now != known {
            known = now;
            stream.write_all(b"event: changed\ndata: 1\n\n")?;
            told = Instant::now();
        } else if told.elapsed() > ALIVE_EVERY {
            stream.write_all(b": still here\n\n")?;
            told = Instant::now();
        }
        stream.flush()?;
    }
    Ok(())
}

/// The newest records and how far those have come that grow.
fn state(store: &Store) -> Result<Vec<(String, String, u32)>> {
    const NEWEST: usize = 20;
    let index = Index::open(store, &paths::cache()?)?;
    let listed = index.newest(NEWEST)?.into_iter().chain(index.others()?);
    Ok(listed.map(|one| (one.id, one.state, one.runs)).collect())
}
