//! Chromium, told what to do in JSON over two pipes.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

/// Longest wait for one answer: a machine that builds beside is slow.
const PATIENCE: Duration = Duration::from_secs(90);

/// A browser that can be started.
pub(super) struct Browser(PathBuf);

/// One that runs; it ends with this.
pub(super) struct Started {
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    told: VecDeque<Value>,
    next: u64,
    _profile: tempfile::TempDir,
}

/// One page of it.
pub(super) struct Tab<'a> {
    browser: &'a mut Started,
    session: String,
}

impl Browser {
    pub(super) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let places = std::env::split_paths(&path).collect::<Vec<_>>();
        let found = names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
        found.into_iter().find(|file| file.is_file()).map(Self)
    }

    pub(super) fn start(&self) -> Started {
        let profile = tempfile::tempdir().expect("a directory");
        // It reads from the third and writes to the fourth file that it has.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(&self.0)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars"])
            .args(["--disable-background-networking", "--disable-extensions", "--mute-audio"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromium starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (told, receiver) = channel();
        std::thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                let Ok(value) = serde_json::from_slice(&message) else { return };
                if told.send(value).is_err() {
                    return;
                }
            }
        });
        let told = VecDeque::new();
        Started { child, input, output: receiver, told, next: 0, _profile: profile }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Started {
    pub(super) fn open(&mut self, url: &str) -> Tab<'_> {
        let target = self.call(None, "Target.createTarget", &json!({"url": "about:blank"}));
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", &attached);
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Runtime.enable", "Page.enable", "Log.enable"] {
            self.call(Some(&session), domain, &json!({}));
        }
        self.call(Some(&session), "Page.navigate", &json!({"url": url}));
        while !self.told.iter().any(|told| told["method"] == "Page.loadEventFired") {
            let told = self.output.recv_timeout(PATIENCE);
            self.told.push_back(told.expect("the page is loaded in the end"));
        }
        Tab { browser: self, session }
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let bytes = [message.to_string().as_bytes(), b"\0"].concat();
        self.input.write_all(&bytes).and_then(|()| self.input.flush()).expect("it listens");
        loop {
            let told = self.output.recv_timeout(PATIENCE);
            let mut told = told.unwrap_or_else(|error| panic!("{method}: {error}"));
            if told["id"] != id {
                self.told.push_back(told);
                continue;
            }
            assert!(told.get("error").is_none(), "{method}: {told}");
            return told["result"].take();
        }
    }
}

impl Tab<'_> {
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// Returns what an expression comes to, as JSON.
    pub(super) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", &params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression holds.
    pub(super) fn until(&mut self, holds: &str) {
        let script = format!(
            "new Promise((resolve) => {{
               const until = Date.now() + 60000;
               const look = () => {{
                 const holds = (() => {{ try {{ return {holds}; }} catch {{ return false; }} }})();
                 if (holds || Date.now() > until) resolve(Boolean(holds));
                 else setTimeout(look, 20);
               }};
               look();
             }})"
        );
        if self.evaluate(&script) != true {
            let seen = self.evaluate("document.body?.innerText ?? ''");
            panic!("never came true: {holds}\non the page: {seen}");
        }
    }

    /// Makes it a screen of that size, in that scheme of colours.
    pub(super) fn screen(&mut self, width: u32, height: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", &json!({"features": [scheme]}));
    }

    pub(super) fn press(&mut self, key: &str) {
        let (code, number, text) = match key {
            "Tab" => ("Tab", 9, ""),
            "Enter" => ("Enter", 13, "\r"),
            " " => ("Space", 32, " "),
            other => panic!("{other} is not needed"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number,
            });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    pub(super) fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Keeps a picture of it where builds keep what they make.
    pub(super) fn picture(&mut self, name: &str) {
        let shot = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let data = shot["data"].as_str().expect("a picture");
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).expect("base64");
        assert!(bytes.starts_with(b"\x89PNG"), "a picture");
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        std::fs::create_dir_all(&dir).expect("made");
        std::fs::write(dir.join(format!("{name}.png")), bytes).expect("written");
    }

    /// Returns what the page has complained about.
    pub(super) fn errors(&mut self) -> Vec<String> {
        let bad = |told: &Value| {
            let (method, entry) = (told["method"].as_str()?, &told["params"]["entry"]);
            let is_bad = method == "Runtime.exceptionThrown"
                || (method == "Log.entryAdded" && entry["level"] == "error");
            is_bad.then(|| told.to_string())
        };
        self.browser.told.iter().filter_map(bad).collect()
    }
}
