//! A request as `knee serve` understands it: GET, past the gate, of one of few addresses. An address names
//! records by their ids; nothing of it becomes a path.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use store::Id;

use crate::verbs::serve::gate::{Gate, Key, Shown};
use crate::verbs::serve::response::Response;

/// The longest head of a request.
const HEAD_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 48;
/// The longest search.
const SEARCH_MAX: usize = 200;
/// Records in one comparison.
const COMPARED_MAX: usize = 8;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// The list of records, those that a search finds.
    List { search: String },
    /// The page of a record, or of several that are compared.
    Page { ids: Vec<String>, form: PageForm },
    /// News while runs go on.
    Events,
}

/// The form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageForm {
    Html,
    Mail,
    Markdown,
}

/// Reads the head of a request; `Err` is the answer to one that is refused, or sent to the address without the key.
pub fn read(stream: &mut TcpStream, patience: Duration, gate: &Gate) -> Result<Asked, Response> {
    parse(&head(stream, Instant::now() + patience)?, gate)
}

/// The bytes up to the empty line. What follows is never read.
pub fn head(stream: &mut TcpStream, deadline: Instant) -> Result<Vec<u8>, Response> {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(Response::refusal(408, "too slow", "the request did not end in time"));
        }
        let read = match stream.read(&mut buffer) {
            Ok(read) => read,
            Err(why) if why.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(Response::refusal(408, "too slow", "the request did not end")),
        };
        if read == 0 {
            return Err(Response::refusal(400, "not a request", "the request ended too soon"));
        }
        head.extend_from_slice(&buffer[..read]);
        if head.windows(4).any(|four| four == b"\r\n\r\n") {
            return Ok(head);
        }
        if head.len() > HEAD_MAX {
            return Err(Response::refusal(431, "too long", "the head of the request is too long"));
        }
    }
}

fn parse(head: &[u8], gate: &Gate) -> Result<Asked, Response> {
    let not_one = || Response::refusal(400, "not a request", "this is no request of HTTP/1.1");
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(head).map_err(|_| not_one())?;
    let header = |name: &str| -> Result<Option<&str>, Response> {
        let mut named = request.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
        match (named.next(), named.next()) {
            (None, _) => Ok(None),
            (Some(one), None) => str::from_utf8(one.value).map(Some).map_err(|_| not_one()),
            // Which of two counts is not ours to guess.
            (Some(_), Some(_)) => Err(not_one()),
        }
    };
    let target = request.path.ok_or_else(not_one)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let shown = Shown {
        host: header("host")?.ok_or_else(not_one)?,
        site: header("sec-fetch-site")?,
        origin: header("origin")?,
        cookies: header("cookie")?.unwrap_or_default(),
        key: field(query, "key"),
    };
    let key = gate.check(shown).map_err(|why| Response::refusal(403, "not for you", &why))?;
    if request.method != Some("GET") {
        let why = "this server only shows: it takes GET alone";
        return Err(Response::refusal(405, "only GET", why));
    }
    match (asked(path, query), key) {
        (Some(_), Key::InAddress) => Err(Response::sent_on(path, &gate.cookie())),
        (Some(asked), Key::InCookie) => Ok(asked),
        (None, _) => Err(Response::refusal(404, "nothing here", "there is no such page")),
    }
}

/// The value of a field of a query.
fn field<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.find(|(named, _)| *named == name).map(|(_, value)| value)
}

/// What an address asks for; `None` for all that are not ours.
fn asked(path: &str, query: &str) -> Option<Asked> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    match parts[..] {
        [""] => Some(Asked::List { search: search(query) }),
        ["events"] => Some(Asked::Events),
        ["records", id] => page(&[id], PageForm::Html),
        ["records", id, "mail"] => page(&[id], PageForm::Mail),
        ["records", id, "markdown"] => page(&[id], PageForm::Markdown),
        ["compare", ref ids @ ..] => page(ids, PageForm::Html),
        _ => None,
    }
}

fn page(ids: &[&str], form: PageForm) -> Option<Asked> {
    let is_right =
        (1..=COMPARED_MAX).contains(&ids.len()) && ids.iter().all(|id| Id::read(id).is_some());
    let ids = ids.iter().map(|id| id.to_string()).collect();
    is_right.then_some(Asked::Page { ids, form })
}

/// The words of a search, with the escapes of a form undone.
fn search(query: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = field(query, "search").unwrap_or_default().bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next(), rest.next()].map(|digit| digit.unwrap_or(b' '));
                let text = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&text, 16).unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).trim().chars().take(SEARCH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a head of a request, with KEY and COOKIE in their places.
    fn check(head: &str, expected: Result<Asked, u16>) {
        let gate = Gate::new(8017);
        let cookie = gate.cookie();
        let (pair, _) = cookie.split_once(';').unwrap();
        let (_, key) = pair.split_once('=').unwrap();
        let head = head.replace("COOKIE", pair).replace("KEY", key);
        let found = parse(head.as_bytes(), &gate);
        assert_eq!(found.map_err(|refusal| refusal.status), expected, "{head}");
    }

    fn get(target: &str, expected: Result<Asked, u16>) {
        let host = "Host: 127.0.0.1:8017\r\nCookie: COOKIE";
        check(&format!("GET {target} HTTP/1.1\r\n{host}\r\n\r\n"), expected);
        // Whoever does not show the key does not learn what there is.
        check(&format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:8017\r\n\r\n"), Err(403));
    }

    #[test]
    fn few_addresses_are_known_and_none_is_a_path() {
        let id = "20261120-115530-7f3a9c";
        let page = |form| Ok(Asked::Page { ids: vec![id.to_string()], form });
        get("/", Ok(Asked::List { search: String::new() }));
        get("/?search=a%2Fb+c%zz", Ok(Asked::List { search: "a/b c?".to_string() }));
        get(&format!("/records/{id}"), page(PageForm::Html));
        get(&format!("/records/{id}/mail"), page(PageForm::Mail));
        get("/events", Ok(Asked::Events));
        for target in [
            "/records/../../etc/passwd",
            "/records/%2e%2e",
            "/records/..%2f..%2fetc",
            "/records/20261120-115530-7f3a9c/../x",
            "//etc/passwd",
            "/etc/passwd",
            "http://evil/",
            "/compare/",
        ] {
            get(target, Err(404));
        }
    }

    #[test]
    fn other_hosts_pages_and_methods_are_refused() {
        let line = |method: &str, more: &str| format!("{method} / HTTP/1.1\r\n{more}\r\n\r\n");
        let own = "Host: 127.0.0.1:8017\r\nCookie: COOKIE";
        check(&line("POST", own), Err(405));
        check(&line("GET", "Host: evil.example\r\nCookie: COOKIE"), Err(403));
        check(&line("GET", &format!("{own}\r\nOrigin: http://evil.example")), Err(403));
        check(&line("GET", &format!("{own}\r\nSec-Fetch-Site: cross-site")), Err(403));
        check(&line("GET", "X: y"), Err(400));
        check(&line("GET", &format!("{own}\r\nHost: evil")), Err(400));
        check(
            &line("GET", &format!("{own}\r\nOrigin: null\r\nOrigin: http://127.0.0.1:8017")),
            Err(400),
        );
        check("GET /\r\n\r\n", Err(400));
    }

    #[test]
    fn the_key_in_an_address_becomes_a_cookie() {
        let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:8017\r\n\r\n");
        check(&get("/?key=KEY"), Err(303));
        check(&get("/?search=x&key=KEY"), Err(303));
        check(&get("/?key=KEYx"), Err(403));
        check(&get("/?key="), Err(403));
        // Nobody is sent anywhere else.
        check(&get("//evil.example/?key=KEY"), Err(404));
        check(&get("/x?key=KEY"), Err(404));
    }
}
