//! Who `knee serve` answers: programs of its own user, for a page that this server sent. Others on this host can
//! connect to a loopback port, and any page in the user's browser can make it ask.

use std::hint::black_box;
use std::net::TcpStream;

use host::{TrustedUsers, random};

use crate::verbs::serve::peer;

/// What a request must show.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    /// A secret of this process, which stands in the address that it prints.
    key: String,
    users: TrustedUsers,
}

/// What of a request decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    pub host: &'a str,
    /// Where a browser says that the page comes from which asks.
    pub site: Option<&'a str>,
    pub origin: Option<&'a str>,
    pub cookies: &'a str,
    /// The key in the address.
    pub key: Option<&'a str>,
}

/// How a request showed the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// In the address: the browser gets a cookie, so that the key is in no further address.
    InAddress,
    InCookie,
}

impl Gate {
    pub fn new(port: u16) -> Gate {
        let key = format!("{:016x}{:016x}", random(), random());
        Gate { port, key, users: TrustedUsers::current() }
    }

    /// The address that opens the list of records.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?key={}", self.port, self.key)
    }

    /// The cookie that stands for the key. Other servers of this host get it, too: they run on other ports of
    /// what is one site to a browser. Its key does not help their users, as the connection must be ours.
    pub fn cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name(), self.key)
    }

    /// Two servers of one user have cookies beside each other.
    fn cookie_name(&self) -> String {
        format!("knee_{}", self.port)
    }

    /// Whether a connection is another user's. Where the kernel does not say, the key alone decides.
    pub fn is_of_another(&self, stream: &TcpStream) -> bool {
        peer::user(stream).is_some_and(|user| !self.users.contains(user))
    }

    /// How a request shows the key; `Err` says why it is refused.
    pub fn check(&self, shown: Shown) -> Result<Key, String> {
        let own = format!("127.0.0.1:{}", self.port);
        // A page of another site may name this server by a name that it controls.
        if shown.host != own {
            return Err(format!("this server answers only to http://{own}"));
        }
        let is_own = |origin: &str| origin == format!("http://{own}");
        if shown.site.is_some_and(|site| !["same-origin", "none"].contains(&site))
            || shown.origin.is_some_and(|origin| !is_own(origin))
        {
            return Err(
                "a page of another site asked for this: open the address yourself".to_string()
            );
        }
        let name = self.cookie_name();
        let mut cookies = shown.cookies.split(';').filter_map(|one| one.trim().split_once('='));
        if cookies.any(|(named, value)| named == name && self.is_key(value)) {
            return Ok(Key::InCookie);
        }
        if shown.key.is_some_and(|key| self.is_key(key)) {
            return Ok(Key::InAddress);
        }
        Err("records are shown only to the user who started this server: open the whole address that \
             knee serve printed"
            .to_string())
    }

    /// Compares all letters, whichever differ: how long it takes says nothing about the key.
    fn is_key(&self, text: &str) -> bool {
        let pairs = self.key.bytes().zip(text.bytes());
        let differences = pairs.fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        differences == 0 && text.len() == self.key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_server_with_the_key_are_answered() {
        let gate = Gate { key: "0123".to_string(), ..Gate::new(8017) };
        let own = Shown { host: "127.0.0.1:8017", cookies: "knee_8017=0123", ..Shown::default() };
        let check = |shown: Shown, expected: Result<Key, &str>| match (gate.check(shown), expected)
        {
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (found, expected) => assert_eq!(found, expected.map_err(str::to_string), "{shown:?}"),
        };
        check(own, Ok(Key::InCookie));
        check(Shown { cookies: "a=b; knee_8017=0123; c", ..own }, Ok(Key::InCookie));
        check(Shown { cookies: "", key: Some("0123"), ..own }, Ok(Key::InAddress));
        for cookies in
            ["", "knee_8017=", "knee_8017=012", "knee_8017=01234", "knee_80=0123", "0123"]
        {
            check(Shown { cookies, ..own }, Err("only to the user"));
        }
        check(Shown { cookies: "", key: Some("0124"), ..own }, Err("only to the user"));
        for host in
            ["evil.example", "localhost:8017", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8017.x"]
        {
            check(Shown { host, ..own }, Err("answers only to http://127.0.0.1:8017"));
        }
        for site in ["same-origin", "none"] {
            check(Shown { site: Some(site), ..own }, Ok(Key::InCookie));
        }
        for site in ["cross-site", "same-site", ""] {
            check(Shown { site: Some(site), ..own }, Err("another site"));
        }
        check(Shown { origin: Some("http://127.0.0.1:8017"), ..own }, Ok(Key::InCookie));
        for origin in ["null", "http://127.0.0.1:8018", "https://127.0.0.1:8017", "http://evil"] {
            check(Shown { origin: Some(origin), ..own }, Err("another site"));
        }
    }

    #[test]
    fn no_two_servers_have_one_key() {
        let (one, two) = (Gate::new(8017), Gate::new(8017));
        assert_ne!(one.key, two.key);
        assert_eq!(one.key.len(), 32);
        assert!(one.cookie().ends_with("; HttpOnly; SameSite=Strict"), "{}", one.cookie());
    }
}
