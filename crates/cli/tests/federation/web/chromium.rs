//! Chromium without a window, driven over pipes: pages are opened, used and looked at as a user would.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything that must happen may take: long, for machines that do much else.
const TIMEOUT: Duration = Duration::from_secs(90);
/// How often is looked.
const POLL_INTERVAL: Duration = Duration::from_millis(30);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    last_id: u64,
    session: String,
    /// Errors that pages have reported and that were not asked for yet.
    problems: VecDeque<String>,
    _dir: TempDir,
}

impl Browser {
    /// Starts it with an empty page.
    pub(crate) fn start(program: &Path) -> Browser {
        Browser::start_with(program, &[])
    }

    /// The same; it takes certificates of authorities that it does not know.
    pub(crate) fn start_trusting(program: &Path) -> Browser {
        Browser::start_with(program, &["--ignore-certificate-errors"])
    }

    fn start_with(program: &Path, options: &[&str]) -> Browser {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("mkfifo").args(["in", "out"]).current_dir(dir.path()).status().unwrap();
        assert!(made.success(), "mkfifo failed");
        // The browser takes commands from descriptor 3 and writes on 4.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<in 4>out"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .args(options)
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--remote-debugging-pipe", "--user-data-dir=profile", "about:blank"])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = OpenOptions::new().write(true).open(dir.path().join("in")).unwrap();
        let output = BufReader::new(File::open(dir.path().join("out")).unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let messages = output.split(0).map_while(Result::ok);
            let parsed = messages.filter_map(|message| serde_json::from_slice(&message).ok());
            parsed.map_while(|message: Value| sender.send(message).ok()).for_each(drop);
        });
        let (session, problems) = (String::new(), VecDeque::new());
        let mut browser = Browser { child, commands, messages, last_id: 0, session, problems, _dir: dir };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    /// Calls a method of the Chrome DevTools Protocol.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The same; the error of the call, if it fails.
    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message =
                self.messages.recv_timeout(left).unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == id {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
            self.notice(&message);
        }
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        self.last_id
    }

    /// Takes note of errors, and answers questions of pages with yes.
    fn notice(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Page.javascriptDialogOpening") => {
                self.send("Page.handleJavaScriptDialog", json!({ "accept": true }));
            }
            Some("Runtime.exceptionThrown") => {
                self.problems.push_back(params["exceptionDetails"].to_string());
            }
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                self.problems.push_back(params["args"].to_string());
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.problems.push_back(params["entry"].to_string());
            }
            _ => {}
        }
    }

    /// Opens an address and waits until the page has said on its body what it has drawn.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + TIMEOUT;
        // Between two pages there is nothing to evaluate in.
        let whole = format!("Boolean(document.body && ({expression}))");
        let params = json!({ "expression": whole, "returnByValue": true });
        loop {
            match self.try_call("Runtime.evaluate", params.clone()) {
                Ok(found) if found["result"]["value"] == json!(true) => return,
                Ok(found) if found.get("exceptionDetails").is_some() => {
                    panic!("{expression}: {}", found["exceptionDetails"]);
                }
                _ => {}
            }
            if Instant::now() > deadline {
                let text = self.evaluate("document.body.innerText");
                panic!("waited in vain for `{expression}` in: {text} {:?}", self.problems);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Presses a key, as `Tab` or `Enter`.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            " " => 32,
            "Escape" => 27,
            "ArrowUp" => 38,
            "ArrowDown" => 40,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            " " => " ",
            _ => "",
        };
        let down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "text": text });
        self.call("Input.dispatchKeyEvent", down);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }),
        );
    }

    /// Types a text where the focus is.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Shows the page at that size, in dark or in light colours.
    pub(crate) fn show(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Keeps no files of pages from now on, as on a first visit.
    pub(crate) fn without_cache(&mut self) {
        self.call("Network.enable", json!({}));
        self.call("Network.setCacheDisabled", json!({ "cacheDisabled": true }));
    }

    /// The cookies of a site, as a header has them.
    pub(crate) fn cookies(&mut self, site: &str) -> String {
        let pair = |cookie: &Value| {
            format!("{}={}", cookie["name"].as_str().unwrap(), cookie["value"].as_str().unwrap())
        };
        self.cookie_list(site).iter().map(pair).collect::<Vec<_>>().join("; ")
    }

    /// The cookies of a site with their attributes.
    pub(crate) fn cookie_list(&mut self, site: &str) -> Vec<Value> {
        let found = self.call("Network.getCookies", json!({ "urls": [site] }));
        found["cookies"].as_array().unwrap().clone()
    }

    /// Runs a script in every page before its own scripts.
    pub(crate) fn run_first(&mut self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }));
    }

    /// Writes a picture of the page as PNG.
    pub(crate) fn picture(&mut self, path: &Path) {
        let result = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let bytes = STANDARD.decode(result["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// The errors of pages since they were last asked for.
    pub(crate) fn problems(&mut self) -> Vec<String> {
        // What was sent before the answer to this was noticed.
        self.evaluate("1");
        self.problems.drain(..).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
