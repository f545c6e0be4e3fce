//! A command on a terminal of so many columns, and what its user sees.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::harness::eventually;

/// A command that runs on a terminal.
pub(crate) struct OnTerminal {
    child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    pub(crate) fn start(mut command: Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let name = ptsname(&master, Vec::new()).unwrap();
        let user = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&user, size).unwrap();
        let side = || Stdio::from(user.try_clone().unwrap());
        let command = command.env("TERM", "xterm").env_remove("NO_COLOR");
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, all) = (File::from(master), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It ends with an error when the last one at the other end is gone.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { child, seen }
    }

    /// Returns the lines that were drawn, without what moves the cursor and what colours them.
    pub(crate) fn lines(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let text = String::from_utf8_lossy(&seen);
        let (mut plain, mut rest) = (String::new(), &*text);
        while let Some((before, behind)) = rest.split_once("\u{1b}[") {
            plain.push_str(before);
            // An escape sequence ends with a letter.
            let end =
                behind.find(|c: char| c.is_ascii_alphabetic()).map_or(behind.len(), |at| at + 1);
            // What is drawn anew begins a line of its own here.
            plain.push('\n');
            rest = &behind[end..];
        }
        plain.push_str(rest);
        let lines = plain.split(['\n', '\r']).map(str::trim_end);
        lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Waits until a line was drawn that has all of these words.
    pub(crate) async fn shows(&self, words: &[&str]) {
        eventually(&format!("the terminal shows {words:?}"), async || {
            self.lines().iter().any(|line| words.iter().all(|word| line.contains(word)))
        })
        .await;
    }

    /// Presses control and C; returns the exit code.
    pub(crate) async fn interrupted(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut status = None;
        eventually("it ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.and_then(|status| status.code())
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
