//! `knee serve`: shows all records in a browser on this host. It listens on loopback alone and only reads.

mod events;
mod request;
mod response;
mod routes;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use host::terminal::{hint, print_line, talk};
use request::{Asked, Request};
use response::Response;
use routes::Routes;
use store::Store;

use crate::browser;

/// Where to listen.
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

/// How long a reader may take to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until it is interrupted.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let (listener, port) = listen(arguments.port)?;
    let address = format!("http://127.0.0.1:{port}/");
    if port != arguments.port && arguments.port != 0 {
        talk(format_args!("port {} is in use: listening on {port}", arguments.port));
    }
    print_line(&address)?;
    hint("only this host can open it; Ctrl-C ends it");
    if arguments.open {
        browser::open(&address);
    }
    let routes = Arc::new(Routes::new(store.clone(), port));
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(_) => {
                // Too many open files, or the reader is gone already: the next one may do.
                thread::sleep(Duration::from_millis(20));
                continue;
            }
        };
        let (routes, slot) = (routes.clone(), Slot::take(&busy));
        let answer = move || match slot {
            Some(_slot) => serve(stream, &routes),
            None => refuse(stream),
        };
        // Without another thread the reader finds the connection closed.
        let _ = thread::Builder::new().stack_size(1 << 20).spawn(answer);
    }
}

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
    fn take(busy: &Arc<AtomicUsize>) -> Option<Slot> {
        let more = |count| (count < REQUESTS_MAX).then_some(count + 1);
        let taken = busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Slot(busy.clone()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers one request. A reader that goes away is no concern of ours.
fn serve(mut stream: TcpStream, routes: &Routes) {
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let asked = match Request::read(&mut stream, PATIENCE, routes.port()) {
        Ok(request) => request.asked,
        Err(refusal) => {
            let _ = refusal.write(&mut stream);
            return;
        }
    };
    if asked == Asked::Events {
        return events::send(stream, routes.store());
    }
    let _ = routes.answer(&asked).write(&mut stream);
}

fn refuse(mut stream: TcpStream) {
    let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
    let _ =
        Response::refusal(503, "busy", "too many requests at once: try again").write(&mut stream);
}
