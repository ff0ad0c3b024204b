//! A browser reduced to its requests: HTTP/1.1 over one connection for each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};

use pliant_transport::Role;
use serde_json::Value;

use crate::harness::*;

/// The pages of a user, served by the command itself.
pub(super) struct Pages {
    child: Option<Child>,
    pub(super) address: String,
    /// The path of the link.
    pub(super) link: String,
    cookie: Option<String>,
    csrf: String,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// An open stream of events.
pub(super) struct Reader {
    lines: BufReader<TcpStream>,
    pub(super) last_id: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The document, if it has that status.
    pub(super) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Pages {
    /// Starts the command; its link is not used yet.
    pub(super) fn start(federation: &Federation, role: Role, user: &str) -> Pages {
        Pages::started(pliant(&federation.client_file(role, user), &["web", "--no-open"]), federation)
    }

    /// The same by a command that is given.
    pub(super) fn started(mut command: Command, federation: &Federation) -> Pages {
        // Tokens of tests are not those of the user who runs them.
        command.env("XDG_STATE_HOME", federation.path().join("state"));
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let rest = line.trim_end().strip_prefix("http://").unwrap_or_else(|| panic!("no link: {line}"));
        let (address, path) = rest.split_once('/').unwrap();
        let (address, link) = (address.to_owned(), format!("/{path}"));
        Pages { child: Some(child), address, link, cookie: None, csrf: String::new() }
    }

    /// Starts the command and uses its link.
    pub(super) fn opened(federation: &Federation, role: Role, user: &str) -> Pages {
        Pages::start(federation, role, user).open()
    }

    /// Uses the link.
    pub(super) fn open(mut self) -> Pages {
        let opened = self.get(&self.link);
        assert_eq!(opened.status, 200, "{}", opened.text());
        let cookie = opened.header("set-cookie").unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        self.cookie = cookie.split(';').next().map(str::to_owned);
        let page = self.get("/submit").text();
        let (_, rest) = page.split_once("name=\"csrf-token\" content=\"").unwrap();
        self.csrf = rest.split('"').next().unwrap().to_owned();
        self
    }

    /// The same pages with the session that a browser has.
    pub(super) fn with_cookie(mut self, cookie: &str) -> Pages {
        self.cookie = Some(cookie.to_owned());
        self
    }

    /// The same pages for another browser.
    pub(super) fn without_cookie(&self) -> Pages {
        let (address, link) = (self.address.clone(), self.link.clone());
        Pages { child: None, address, link, cookie: None, csrf: String::new() }
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// The document of a call.
    pub(super) fn json(&self, path: &str) -> Value {
        self.get(path).json(200)
    }

    /// A call that changes something, as the script of the pages makes it.
    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        let origin = format!("http://{}", self.address);
        let headers = [
            ("content-type", "application/json"),
            ("x-csrf-token", self.csrf.as_str()),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        self.ask("POST", path, &headers, &body.to_string())
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.try_ask(method, path, headers, body).unwrap_or_else(|| panic!("{method} {path}: no answer"))
    }

    /// An answer; none if the connection breaks.
    pub(super) fn try_ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer> {
        let mut lines = BufReader::new(self.send(method, path, headers, body)?);
        let (status, headers) = head(&mut lines)?;
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let mut body = Vec::new();
        if !is_chunked {
            lines.read_to_end(&mut body).ok()?;
            return Some(Answer { status, headers, body });
        }
        loop {
            let mut size = String::new();
            lines.read_line(&mut size).ok()?;
            let size = u64::from_str_radix(size.trim(), 16).ok()?;
            if size == 0 {
                return Some(Answer { status, headers, body });
            }
            lines.by_ref().take(size).read_to_end(&mut body).ok()?;
            lines.read_line(&mut String::new()).ok()?;
        }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            text.push_str(&format!("host: {}\r\n", self.address));
        }
        if let Some(cookie) = &self.cookie {
            text.push_str(&format!("cookie: {cookie}\r\n"));
        }
        headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).ok()?;
        Some(stream)
    }

    /// Opens a stream of events, after that one if it is named.
    pub(super) fn events(&self, last: Option<&str>) -> Reader {
        let headers: Vec<_> = last.into_iter().map(|last| ("last-event-id", last)).collect();
        let mut lines = BufReader::new(self.send("GET", "/api/v1/events", &headers, "").unwrap());
        let (status, _) = head(&mut lines).unwrap();
        assert_eq!(status, 200);
        Reader { lines, last_id: String::new() }
    }
}

/// The status and the headers of an answer.
fn head(lines: &mut BufReader<TcpStream>) -> Option<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    lines.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => return Some((status, headers)),
        }
    }
}

impl Reader {
    /// Reads on until an event of that kind has what is looked for.
    pub(super) fn wait(&mut self, kind: &str, is_it: impl Fn(&Value) -> bool) {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            let read =
                self.lines.read_line(&mut line).unwrap_or_else(|error| panic!("no event {kind}: {error}"));
            assert!(read > 0, "the stream ended before an event {kind}");
            // Lines with the sizes of chunks say nothing here.
            match line.trim_end().split_once(": ") {
                Some(("event", value)) => name = value.to_owned(),
                Some(("id", value)) => self.last_id = value.to_owned(),
                Some(("data", value)) => data = value.to_owned(),
                _ if line.trim_end().is_empty() && !data.is_empty() => {
                    let value = serde_json::from_str(&data).unwrap();
                    if name == kind && is_it(&value) {
                        return;
                    }
                    (name, data) = (String::new(), String::new());
                }
                _ => {}
            }
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
