//! `knee serve`: shows all records in a browser on this host. It listens on loopback alone and only reads.

mod events;
mod gate;
mod peer;
mod request;
mod response;
mod routes;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use events::News;
use gate::Gate;
use host::terminal::{hint, print_line, talk};
use request::Asked;
use response::Response;
use routes::Routes;
use store::Store;

use crate::browser;

/// Show all records in a browser on this host
///
/// Only you can read them, by the address that is printed, and nobody can change them. Ends with Ctrl-C.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Port to listen on, of 127.0.0.1; if another program has it, the next free one
    #[arg(long, value_name = "N", default_value_t = 8017)]
    port: u16,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
}

/// Ports that are tried after the one that was asked for.
const PORTS_TRIED: u16 = 50;

/// Requests that are answered at the same time; more are told to come again.
const REQUESTS_MAX: usize = 24;

/// Connections of other users that are refused at the same time; more are closed without a word.
const REFUSED_MAX: usize = 4;

/// How long a reader may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take for the answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// How long one that gets no page may take for either.
const REFUSED_PATIENCE: Duration = Duration::from_millis(500);

/// Serves until it is interrupted.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let (listener, port) = listen(arguments.port)?;
    let server = Arc::new(Server {
        gate: Gate::new(port),
        routes: Routes::new(store.clone()),
        news: News::new(store.clone()),
    });
    let address = server.gate.address();
    if port != arguments.port && arguments.port != 0 {
        talk(format_args!("port {} is in use: listening on {port}", arguments.port));
    }
    print_line(&address)?;
    hint("only you can open it, on this host, with the whole address; Ctrl-C ends it");
    if arguments.open {
        browser::open(&address);
    }
    let (busy, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    loop {
        let (stream, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(_) => {
                // Too many open files, or the reader is gone already: the next one may do.
                thread::sleep(Duration::from_millis(20));
                continue;
            }
        };
        let server = server.clone();
        // Other users cannot take the places of requests that are answered.
        let is_of_another = server.gate.is_of_another(&stream);
        let slot = if is_of_another {
            Slot::take(&refused, REFUSED_MAX)
        } else {
            Slot::take(&busy, REQUESTS_MAX)
        };
        let answer = move || match slot {
            Some(_slot) if is_of_another => refuse(stream, 403, "not for you", ANOTHER),
            Some(_slot) => server.serve(stream),
            None if is_of_another => (),
            None => refuse(stream, 503, "busy", "too many requests at once: try again"),
        };
        // Without another thread the reader finds the connection closed.
        let _ = thread::Builder::new().stack_size(1 << 20).spawn(answer);
    }
}

const ANOTHER: &str = "this server answers only programs of the user who started it";

/// The listener on the first free port from this one on, and that port.
fn listen(port: u16) -> Result<(TcpListener, u16)> {
    let last = port.saturating_add(PORTS_TRIED);
    for port in port..=last {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => {
                let port = listener.local_addr().context("asking for the port")?.port();
                return Ok((listener, port));
            }
            Err(why) if why.kind() == std::io::ErrorKind::AddrInUse => (),
            Err(why) => bail!("listening on 127.0.0.1:{port}: {why}; name another one with --port"),
        }
    }
    bail!("all ports from {port} to {last} of 127.0.0.1 are in use; name another one with --port")
}

/// The right to answer one request.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(busy: &Arc<AtomicUsize>, most: usize) -> Option<Slot> {
        let more = |count| (count < most).then_some(count + 1);
        let taken = busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Slot(busy.clone()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All that requests are answered from.
struct Server {
    gate: Gate,
    routes: Routes,
    news: News,
}

impl Server {
    /// Answers one request. A reader that goes away is no concern of ours.
    fn serve(&self, mut stream: TcpStream) {
        let _ = match request::read(&mut stream, PATIENCE, &self.gate) {
            Err(refusal) => refusal.send(&mut stream, PATIENCE),
            Ok(Asked::Events) => return self.news.send(stream, || self.routes.last_took()),
            Ok(asked) => self.routes.answer(&asked).send(&mut stream, ANSWER_PATIENCE),
        };
    }
}

/// Says why there is no page, after the request: a reader whose request was not read may not get the answer.
fn refuse(mut stream: TcpStream, status: u16, reason: &'static str, why: &str) {
    let _ = request::head(&mut stream, Instant::now() + REFUSED_PATIENCE);
    let _ = Response::refusal(status, reason, why).send(&mut stream, REFUSED_PATIENCE);
}
