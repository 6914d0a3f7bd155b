//! `knee serve`: whom it answers, what it takes, and what it reads while a record grows.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use records::Run;
use store::Id;

use crate::home::Home;
use crate::skip::{is_root, skip};

/// A server, with the parts of the address that it printed.
pub struct Server {
    child: Child,
    port: u16,
    key: String,
}

impl Server {
    fn start(home: &Home) -> Server {
        Server::start_as(home, "serve --port 0")
    }

    /// Starts a server by this command line.
    pub fn start_as(home: &Home, arguments: &str) -> Server {
        let mut knee = home.knee(arguments);
        let mut child = knee.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://127.0.0.1:").expect("an address");
        let (port, key) = address.split_once("/?key=").expect("a key");
        Server { child, port: port.parse().unwrap(), key: key.to_string() }
    }

    /// The head of a request for a path, with the cookie.
    fn head(&self, path: &str) -> String {
        let Server { port, key, .. } = self;
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: knee_{port}={key}\r\n")
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub fn get(&self, path: &str) -> String {
        self.ask(&(self.head(path) + "\r\n"))
    }

    /// Bytes that it has read so far, of files and connections.
    fn read_bytes(&self) -> u64 {
        self.number("io", "rchar:")
    }

    fn number(&self, file: &str, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the number");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn only_who_has_the_key_is_answered() {
    let home = Home::new();
    let server = Server::start(&home);
    let Server { port, key, .. } = &server;
    let own = format!("Host: 127.0.0.1:{port}\r\n");
    let check = |request: &str, expected: &str| {
        let answer = server.ask(&format!("{request}\r\n"));
        assert_eq!(status(&answer), expected, "{request}\n{answer}");
        assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
        answer
    };
    let refused = check(&format!("GET / HTTP/1.1\r\n{own}"), "403");
    assert!(refused.contains("open the whole address"), "{refused}");
    let entered = check(&format!("GET /?key={key} HTTP/1.1\r\n{own}"), "303");
    let cookie = format!("Set-Cookie: knee_{port}={key}; Path=/; HttpOnly; SameSite=Strict\r\n");
    assert!(entered.contains("Location: /\r\n") && entered.contains(&cookie), "{entered}");
    check(&server.head("/"), "200");
    check(&(server.head("/") + "Sec-Fetch-Site: same-origin\r\n"), "200");
    check(&(server.head("/") + "Sec-Fetch-Site: cross-site\r\n"), "403");
    check(&(server.head("/") + "Origin: http://evil.example\r\n"), "403");
    check(&server.head("/").replace("127.0.0.1", "localhost"), "403");
    check(&server.head("/").replace(&key[..4], "xxxx"), "403");
    check(&format!("GET /events HTTP/1.1\r\n{own}"), "403");
}

#[test]
fn another_user_is_refused_whatever_it_knows() {
    if !is_root() {
        return skip("another user of the server", "only root can ask as one");
    }
    let home = Home::new();
    let server = Server::start(&home);
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf '{}\\r\\n' >&3; cat <&3",
        server.port,
        server.head("/").replace("\r\n", "\\r\\n")
    );
    let asked = |user: u32| {
        let output = Command::new("bash").args(["-c", &script]).uid(user).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(status(&asked(0)), "200");
    let refused = asked(64_321);
    assert_eq!(status(&refused), "403", "{refused}");
    assert!(refused.contains("programs of the user who started it"), "{refused}");
}

#[test]
fn a_record_that_grows_is_read_once() {
    let golden = "../store/tests/golden/v2/20261120-165542-d10222";
    let golden = store::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(golden)).unwrap();
    let home = Home::new();
    let id = Id::new(Timestamp::now(), 7);
    let mut growing = home.store().begin(golden.record.clone(), id.clone()).unwrap();
    let like = golden.runs.iter().find(|run| run.finished() && !run.placebo).unwrap();
    let run = |run: u32| (Run { run, block: run, ..like.clone() }, Vec::new());
    growing.append_all((0..2000).map(run).collect()).unwrap();
    let length = fs::metadata(growing.folder().join("runs.ndjson")).unwrap().len();

    let server = Server::start(&home);
    let page = format!("/records/{}", id.as_str());
    let first = server.get(&page);
    assert_eq!(status(&first), "200", "{first}");
    assert!(first.contains("2000"), "how many runs there are");
    assert_eq!(status(&server.get("/")), "200");
    // A reader that waits for news.
    let mut news = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    news.write_all((server.head("/events") + "\r\n").as_bytes()).unwrap();
    let mut beginning = [0; 12];
    news.read_exact(&mut beginning).unwrap();

    let before = server.read_bytes();
    thread::sleep(Duration::from_secs(7));
    let looked = server.read_bytes() - before;
    println!("looking for news: {looked} bytes read in 7 s, of a record of {length}");
    assert!(looked < 1000, "{looked} bytes read although nothing came");

    growing.append_all((2000..2010).map(run).collect()).unwrap();
    let before = server.read_bytes();
    let second = server.get(&page);
    assert!(second.contains("2010"), "how many runs there are now");
    assert_eq!(status(&server.get("/")), "200");
    let read = server.read_bytes() - before;
    println!("showing 10 runs more: {read} bytes read");
    assert!(read < length / 20, "{read} bytes read for 10 runs of 2010, which have {length}");
}

#[test]
fn many_who_ask_at_once_take_the_memory_of_one() {
    let golden = "../store/tests/golden/v2/20261120-165542-d10222";
    let golden = store::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(golden)).unwrap();
    let home = Home::new();
    let id = Id::new(Timestamp::now(), 7);
    let mut growing = home.store().begin(golden.record.clone(), id.clone()).unwrap();
    let like = golden.runs.iter().find(|run| run.finished() && !run.placebo).unwrap();
    let run = |run: u32| (Run { run, block: run / 2, point: run % 2, ..like.clone() }, Vec::new());
    growing.append_all((0..5000).map(run).collect()).unwrap();
    growing.complete = true;
    growing.finish(Timestamp::now()).unwrap();

    let server = Server::start(&home);
    let page = format!("/records/{}", id.as_str());
    let first = server.get(&page);
    assert_eq!(status(&first), "200", "{first}");
    let one = server.number("status", "VmHWM:");
    thread::scope(|scope| {
        for number in 0..64 {
            let server = &server;
            let path = if number % 2 == 0 { page.clone() } else { format!("{page}/mail") };
            // Some are told to come again.
            scope.spawn(move || {
                assert!(["200", "503", "none"].contains(&status(&server.get(&path))))
            });
        }
    });
    let many = server.number("status", "VmHWM:");
    println!("one request: {one} kB; 64 at once: {many} kB");
    assert!(many < 2 * one, "64 requests took {many} kB, one {one} kB");
}
