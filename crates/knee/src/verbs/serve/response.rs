//! An answer of `knee serve`: one document, then the connection ends.

use std::io::{self, Write};

use host::terminal::shown;
use pages::{Purpose, policy};

/// A document with its status.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    reason: &'static str,
    kind: &'static str,
    body: String,
}

impl Response {
    /// A page.
    pub fn html(body: String) -> Response {
        Response { status: 200, reason: "OK", kind: "text/html; charset=utf-8", body }
    }

    /// A text, in which nothing controls a terminal.
    pub fn text(body: &str) -> Response {
        let body = shown(body);
        Response { status: 200, reason: "OK", kind: "text/plain; charset=utf-8", body }
    }

    /// Why there is no page.
    pub fn refusal(status: u16, reason: &'static str, why: &str) -> Response {
        let body = pages::message(&format!("{status} {reason}"), why);
        Response { status, reason, kind: "text/html; charset=utf-8", body }
    }

    /// Sends it.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(head(self.status, self.reason, self.kind, Some(self.body.len())).as_bytes())?;
        out.write_all(self.body.as_bytes())?;
        out.flush()
    }
}

/// The head of an answer. What it forbids holds for whoever opened the page: no other site reads it or frames
/// it, nothing is loaded, nothing is kept.
pub fn head(status: u16, reason: &str, kind: &str, length: Option<usize>) -> String {
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    let allow = if status == 405 { "Allow: GET\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n{length}{allow}Content-Security-Policy: \
         {}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: \
         same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-store\r\nConnection: \
         close\r\n\r\n",
        policy(Purpose::Served)
    )
}
