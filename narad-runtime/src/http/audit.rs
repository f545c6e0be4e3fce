//! What admins have done, or tried to: who, what, from where, and how it ended.
//!
//! Each action is two lines of JSON in `audit.jsonl` of the data directory: `asked` before anything is
//! done, `answered` afterwards, with the same `id`. An `asked` without an `answered` is an action during
//! which the process ended. What was refused for want of a role is one line in `audit-refused.jsonl`, so
//! that strangers cannot push out what admins did. Files are rotated by size and never synced: a
//! failing disk must not keep an operator from acting, and whatever cannot be written there is logged
//! as an error instead.

pub(super) mod reading;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::access::Caller;
use super::role::{Peer, Role};
use crate::clock::wall_ms;

/// How much is kept of what admins have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLimits {
    /// Length at which a file is put aside. Default 16 MiB.
    pub bytes_max: u64,
    /// Files that are kept, the one being written included. Default 8.
    pub files_max: u32,
}

impl Default for AuditLimits {
    fn default() -> Self {
        Self { bytes_max: 16 << 20, files_max: 8 }
    }
}

/// The audit log of one node.
#[derive(Debug)]
pub struct Audit {
    node: String,
    dir: PathBuf,
    limits: AuditLimits,
    next: AtomicU64,
    /// Closed with the log: the thread ends then.
    lines: Mutex<Option<mpsc::Sender<Line>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// A line to write, none if it is empty, and whom to tell that it was.
struct Line {
    refused: bool,
    text: String,
    written: Option<oneshot::Sender<()>>,
}

/// A line as it stands in the file.
#[derive(Serialize)]
struct Entry<'a> {
    time: String,
    event: &'static str,
    node: &'a str,
    id: u64,
    who: Option<&'a str>,
    by: &'static str,
    role: Option<Role>,
    from: Option<String>,
    method: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
}

/// The name of an error, beside its answer.
#[derive(Clone, Debug)]
pub(super) struct Named(pub(super) String);

impl Audit {
    /// Longest body of which more than its length is kept.
    const BODY_BYTES_MAX: usize = 4096;

    /// Opens the log in a directory; the thread that writes it ends with the log.
    ///
    /// # Errors
    ///
    /// If no file can be made there, or no thread started.
    pub fn open(dir: &Path, node: &str, limits: &AuditLimits) -> io::Result<Self> {
        let mut done = Rotating::open(dir, "audit", limits)?;
        let mut refused = Rotating::open(dir, "audit-refused", limits)?;
        let (lines, queue) = mpsc::channel::<Line>();
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || {
            for line in queue {
                let file = if line.refused { &mut refused } else { &mut done };
                let put = if line.text.is_empty() { Ok(()) } else { file.append(&line.text) };
                if let Err(error) = put {
                    tracing::error!(%error, line = line.text, "the audit log cannot be written");
                }
                if let Some(written) = line.written {
                    let _ = written.send(());
                }
            }
        })?;
        Ok(Self {
            node: node.to_owned(),
            dir: dir.into(),
            limits: limits.clone(),
            // Ids of different lives differ.
            next: AtomicU64::new(u64::try_from(wall_ms()).unwrap_or(0) << 10),
            lines: Mutex::new(Some(lines)),
            thread: Mutex::new(Some(thread)),
        })
    }

    fn send(&self, line: Line) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = lines.as_ref().map(|lines| lines.send(line));
        if let Some(Err(mpsc::SendError(line))) = sent {
            tracing::error!(line = line.text, "the audit log has ended");
        }
    }

    /// Waits until all that was noted so far stands in the files.
    pub(super) async fn settled(&self) {
        let (written, done) = oneshot::channel();
        self.send(Line { refused: false, text: String::new(), written: Some(written) });
        // A log that has ended has written all of it.
        let _ = done.await;
    }

    /// Opens the record of one action.
    pub(super) fn begin(self: &Arc<Self>, caller: Caller, peer: &Peer, what: What) -> Docket {
        let from = peer.address.map(|address| address.to_string());
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Docket(Arc::new(Record {
            audit: Arc::clone(self),
            id,
            caller,
            from,
            what,
            body: OnceLock::new(),
            asked: OnceLock::new(),
            answer: OnceLock::new(),
        }))
    }

    /// Writes what is left and ends the thread. Blocks.
    pub fn close(&self) {
        drop(self.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = thread.map(std::thread::JoinHandle::join) {
            tracing::error!("the thread of the audit log has panicked");
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct What {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Option<String>,
}

/// The record of one action, shared by all that know a part of it. It is closed when the last of them
/// lets go: whoever hangs up before the answer is there does not keep it out of the log.
#[derive(Clone)]
pub(super) struct Docket(Arc<Record>);

struct Record {
    audit: Arc<Audit>,
    id: u64,
    caller: Caller,
    from: Option<String>,
    what: What,
    body: OnceLock<Value>,
    asked: OnceLock<()>,
    answer: OnceLock<(StatusCode, Option<String>)>,
}

impl Docket {
    /// Writes that something is asked for, before it is done.
    pub(super) async fn asked(&self, body: Option<&Bytes>) {
        /// How long an action waits for a disk that does not answer.
        const PATIENCE: Duration = Duration::from_secs(2);
        if let Some(body) = body {
            let kept = Some(body).filter(|body| body.len() <= Audit::BODY_BYTES_MAX);
            let value = kept.and_then(|body| serde_json::from_slice(body).ok());
            let value = value.unwrap_or_else(|| format!("{} bytes", body.len()).into());
            let _ = self.0.body.set(value);
        }
        if self.0.asked.set(()).is_err() {
            return;
        }
        let (written, done) = oneshot::channel();
        let text = self.0.entry("asked");
        self.0.audit.send(Line { refused: false, text, written: Some(written) });
        if tokio::time::timeout(PATIENCE, done).await.is_err() {
            let text = self.0.entry("asked");
            tracing::error!(line = text, "the disk of the audit log does not answer");
        }
    }

    /// Notes the answer; the line is written when all have let go.
    pub(super) fn answered(&self, status: StatusCode, code: Option<&Named>) {
        let code = code.map(|Named(code)| code.clone());
        let _ = self.0.answer.set((status, code));
    }
}

impl Record {
    fn entry(&self, event: &'static str) -> String {
        let answer = self.answer.get().filter(|_| event != "asked");
        let outcome = match answer {
            None if event == "asked" => None,
            None => Some("nobody waited for the answer"),
            Some((_, Some(code))) => Some(code.as_str()),
            Some((status, None)) if status.is_success() => Some("done"),
            Some((_, None)) => Some("refused"),
        };
        let entry = Entry {
            time: rfc3339(wall_ms()),
            event,
            node: &self.audit.node,
            id: self.id,
            who: self.caller.name.as_deref(),
            by: self.caller.by,
            role: self.caller.role,
            from: self.from.clone(),
            method: self.what.method.as_str(),
            path: &self.what.path,
            query: self.what.query.as_deref(),
            body: self.body.get().cloned(),
            status: answer.map(|(status, _)| status.as_u16()),
            outcome,
        };
        serde_json::to_string(&entry).expect("an entry has text keys only")
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let denied = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        let refused = self.answer.get().is_some_and(|(status, _)| denied.contains(status));
        let text = self.entry(if refused { "refused" } else { "answered" });
        self.audit.send(Line { refused, text, written: None });
    }
}

/// A file that is put aside when it is long enough: `audit.jsonl`, then `audit.1.jsonl` and so on.
#[derive(Debug)]
struct Rotating {
    dir: PathBuf,
    stem: &'static str,
    limits: AuditLimits,
    file: File,
    length: u64,
}

impl Rotating {
    fn open(dir: &Path, stem: &'static str, limits: &AuditLimits) -> io::Result<Self> {
        let (file, length) = Self::append_to(&dir.join(format!("{stem}.jsonl")))?;
        Ok(Self { dir: dir.into(), stem, limits: limits.clone(), file, length })
    }

    fn append_to(path: &Path) -> io::Result<(File, u64)> {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Who did what is nobody else's business.
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }

    fn path(&self, number: u32) -> PathBuf {
        let stem = self.stem;
        self.dir.join(match number {
            0 => format!("{stem}.jsonl"),
            number => format!("{stem}.{number}.jsonl"),
        })
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        let bytes = [line.as_bytes(), b"\n"].concat();
        let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.length > 0 && self.length.saturating_add(more) > self.limits.bytes_max {
            self.rotate()?;
        }
        self.file.write_all(&bytes)?;
        self.length += more;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let last = self.limits.files_max.saturating_sub(1);
        for number in (0..last).rev() {
            let moved = fs::rename(self.path(number), self.path(number + 1));
            if let Err(error) = moved
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
        }
        if last == 0 {
            fs::remove_file(self.path(0))?;
        }
        (self.file, self.length) = Self::append_to(&self.path(0))?;
        Ok(())
    }
}

/// Writes milliseconds since 1970 as people read them, in UTC.
fn rfc3339(ms: i64) -> String {
    let (days, ms) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Years begin in March here, so that a leap day is their last.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_read_them() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_796_000_399_999), "2026-11-30T00:59:59.999Z");
        assert_eq!(rfc3339(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn a_file_that_is_long_enough_is_put_aside() {
        let dir = tempfile::tempdir().expect("a directory");
        let limits = AuditLimits { bytes_max: 10, files_max: 3 };
        let mut log = Rotating::open(dir.path(), "audit", &limits).expect("opened");
        for line in ["one-", "two-", "three", "four-", "five-that-is-longer"] {
            log.append(line).expect("written");
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        assert_eq!(read("audit.jsonl"), "five-that-is-longer\n");
        assert_eq!(read("audit.1.jsonl"), "four-\n");
        assert_eq!(read("audit.2.jsonl"), "three\n");
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 3);
        drop(log);
        let mut log = Rotating::open(dir.path(), "audit", &limits).expect("opened");
        log.append("six").expect("written");
        assert_eq!(read("audit.jsonl"), "six\n");
    }

    /// An action during which its client hangs up is in the log all the same.
    #[tokio::test]
    async fn whoever_hangs_up_is_in_the_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let audit = Audit::open(dir.path(), "narad-1", &AuditLimits::default()).expect("opened");
        let audit = Arc::new(audit);
        let what = What { method: Method::POST, path: "/v1/x".into(), query: None };
        let caller = Caller { name: Some("ops".into()), by: "token", role: Some(Role::Admin) };
        let docket = audit.begin(caller, &Peer::default(), what);
        docket.asked(Some(&Bytes::from_static(b"{\"to\": \"narad-2\"}"))).await;
        let text = || fs::read_to_string(dir.path().join("audit.jsonl")).expect("written");
        assert!(text().contains("\"event\":\"asked\"") && text().contains("narad-2"), "{}", text());
        drop(docket);
        audit.close();
        let last: Value = serde_json::from_str(text().lines().last().expect("two")).expect("JSON");
        assert_eq!(last["outcome"], "nobody waited for the answer");
        assert_eq!((&last["who"], &last["role"]), (&"ops".into(), &"admin".into()));
    }
}
