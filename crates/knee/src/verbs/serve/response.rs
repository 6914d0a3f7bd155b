//! An answer of `knee serve`: one document, then the connection ends.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use host::terminal::shown;
use pages::{Purpose, policy};

/// A document with its status.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    reason: &'static str,
    kind: &'static str,
    /// Further lines of the head.
    more: String,
    body: String,
}

impl Response {
    /// A page.
    pub fn html(body: String) -> Response {
        Response { status: 200, reason: "OK", kind: HTML, more: String::new(), body }
    }

    /// A text, in which nothing controls a terminal.
    pub fn text(body: &str) -> Response {
        let (kind, body) = ("text/plain; charset=utf-8", shown(body));
        Response { status: 200, reason: "OK", kind, more: String::new(), body }
    }

    /// Why there is no page.
    pub fn refusal(status: u16, reason: &'static str, why: &str) -> Response {
        let body = pages::message(&format!("{status} {reason}"), why);
        let more = if status == 405 { "Allow: GET\r\n" } else { "" };
        Response { status, reason, kind: HTML, more: more.to_string(), body }
    }

    /// Sends the reader to a path of this server, with a cookie.
    pub fn sent_on(path: &str, cookie: &str) -> Response {
        let more = format!("Location: {path}\r\nSet-Cookie: {cookie}\r\n");
        Response { status: 303, reason: "See Other", kind: HTML, more, body: String::new() }
    }

    /// The length of the document.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Sends it; gives up on a reader that does not take it all in time.
    pub fn send(&self, stream: &mut TcpStream, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        let more = format!("Content-Length: {}\r\n{}", self.body.len(), self.more);
        let head = head(self.status, self.reason, self.kind, &more);
        for mut rest in [head.as_bytes(), self.body.as_bytes()] {
            while !rest.is_empty() {
                let left = deadline.saturating_duration_since(Instant::now());
                // Fails once no time is left.
                stream.set_write_timeout(Some(left))?;
                match stream.write(rest) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => rest = &rest[written..],
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
                    Err(why) => return Err(why),
                }
            }
        }
        Ok(())
    }
}

const HTML: &str = "text/html; charset=utf-8";

/// The head of an answer. What it forbids holds for whoever opened the page: no other site reads it or frames
/// it, nothing is loaded, nothing is kept.
pub fn head(status: u16, reason: &str, kind: &str, more: &str) -> String {
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n{more}Content-Security-Policy: \
         {}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: \
         same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-store\r\nConnection: \
         close\r\n\r\n",
        policy(Purpose::Served)
    )
}
