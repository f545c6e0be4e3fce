//! Real files as records: each line becomes one.
//!
//! A line is what stands before a line feed, or before the end of its file; it may be empty and may
//! hold any bytes. A line that is longer than a record may be becomes several. Each record says how
//! it ended, so that together the records are the files again, byte for byte.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;

use super::DemoError;

/// Longest piece of a line that one record takes, in bytes.
pub(super) const PIECE_BYTES_MAX: usize = 512 << 10;

/// How a piece ended in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Ending {
    /// With a line feed.
    Line = 0,
    /// In the middle of a long line.
    Middle = 1,
    /// With the file.
    File = 2,
}

impl Ending {
    /// Reads an ending from its number.
    pub(super) const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Line),
            1 => Some(Self::Middle),
            2 => Some(Self::File),
            _ => None,
        }
    }
}

/// A line, or a part of a long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) value: Bytes,
    pub(super) ending: Ending,
}

/// The files, as they were when they were looked at.
#[derive(Clone, Debug)]
pub(super) struct Input {
    files: Vec<Found>,
    pub(super) pieces: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug)]
struct Found {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Input {
    /// Looks at a file, or at all files of a directory and the directories in it, in the order of
    /// their names. Symbolic links in a directory are left out, as they may lead anywhere.
    pub(super) fn look(path: &Path) -> Result<Self, DemoError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            |source| DemoError::Input { path, source }
        };
        let mut files = Vec::new();
        let metadata = fs::metadata(path).map_err(fail(path))?;
        if metadata.is_dir() {
            collect(path, &mut files)?;
        } else {
            files.push(Found::new(path.to_owned(), &metadata));
        }
        let mut input = Self { files, pieces: 0, bytes: 0 };
        let (mut pieces, mut bytes) = (0, 0);
        for piece in input.read() {
            let piece = piece?;
            pieces += 1;
            bytes += piece.value.len() as u64;
        }
        (input.pieces, input.bytes) = (pieces, bytes);
        if pieces == 0 { Err(DemoError::NoLines(path.to_owned())) } else { Ok(input) }
    }

    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Reads all pieces, in order.
    pub(super) fn read(&self) -> impl Iterator<Item = Result<Piece, DemoError>> + use<> {
        self.files.clone().into_iter().flat_map(|found| {
            let path = found.path.clone();
            let (pieces, error) = match File::open(&found.path) {
                // What was added since is left out.
                Ok(file) => (Some(Pieces::of(BufReader::new(file.take(found.bytes)))), None),
                Err(error) => (None, Some(Err(error))),
            };
            let all = error.into_iter().chain(pieces.into_iter().flatten());
            all.map(move |piece| {
                piece.map_err(|source| DemoError::Input { path: path.clone(), source })
            })
        })
    }

    /// Returns a file that is not what it was. One that has only grown still is.
    pub(super) fn changed(&self) -> Option<&Path> {
        let same = |found: &&Found| {
            fs::metadata(&found.path).is_ok_and(|now| now.modified().ok() == found.modified)
        };
        self.files.iter().find(|found| !same(found)).map(|found| found.path.as_path())
    }
}

impl Found {
    fn new(path: PathBuf, metadata: &fs::Metadata) -> Self {
        Self { path, bytes: metadata.len(), modified: metadata.modified().ok() }
    }
}

fn collect(directory: &Path, files: &mut Vec<Found>) -> Result<(), DemoError> {
    let fail = |source| DemoError::Input { path: directory.to_owned(), source };
    let entries: Result<Vec<_>, io::Error> = fs::read_dir(directory).map_err(fail)?.collect();
    let mut entries = entries.map_err(fail)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let metadata = fs::symlink_metadata(&path)
            .map_err(|source| DemoError::Input { path: path.clone(), source })?;
        if metadata.is_dir() {
            collect(&path, files)?;
        } else if metadata.is_file() {
            files.push(Found::new(path, &metadata));
        }
    }
    Ok(())
}

/// Splits bytes into pieces.
struct Pieces<R> {
    from: R,
    limit: usize,
    over: bool,
}

impl<R: BufRead> Pieces<R> {
    const fn of(from: R) -> Self {
        Self { from, limit: PIECE_BYTES_MAX, over: false }
    }

    fn piece(&mut self) -> io::Result<Option<Piece>> {
        let mut value = Vec::new();
        self.from.by_ref().take(self.limit as u64).read_until(b'\n', &mut value)?;
        let ending = match value.last() {
            None => return Ok(None),
            Some(b'\n') => {
                value.pop();
                Ending::Line
            }
            // A line feed that comes next is a piece of its own, with nothing before it.
            Some(_) if value.len() == self.limit => Ending::Middle,
            Some(_) => Ending::File,
        };
        Ok(Some(Piece { value: value.into(), ending }))
    }
}

impl<R: BufRead> Iterator for Pieces<R> {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let piece = self.piece().transpose();
        self.over = !matches!(piece, Some(Ok(_)));
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(bytes: &[u8], limit: usize) -> Vec<Piece> {
        let pieces = Pieces { from: bytes, limit, over: false };
        pieces.collect::<io::Result<_>>().expect("memory can be read")
    }

    /// Puts pieces together again.
    fn joined(pieces: &[Piece]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in pieces {
            bytes.extend_from_slice(&piece.value);
            if piece.ending == Ending::Line {
                bytes.push(b'\n');
            }
        }
        bytes
    }

    #[test]
    fn pieces_are_the_file_again() {
        let files: [&[u8]; 9] = [
            b"",
            b"\n",
            b"a",
            b"a\n",
            b"\n\na\n\n",
            b"a\r\nb",
            b"\0\xff\xfe\n\x80",
            b"abcd\nabcde\nabc\n",
            b"abcdabcdabcd",
        ];
        for file in files {
            for limit in [1, 2, 3, 4, 5, 100] {
                let pieces = pieces(file, limit);
                assert_eq!(joined(&pieces), file, "{limit}");
                assert!(pieces.iter().all(|piece| piece.value.len() <= limit));
            }
        }
    }

    #[test]
    fn every_line_is_one_piece_unless_it_is_too_long() {
        let values = |bytes: &[u8], limit| {
            let texts = pieces(bytes, limit).into_iter();
            texts
                .map(|piece| String::from_utf8_lossy(&piece.value).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(values(b"one\n\nthree", 100), ["one", "", "three"]);
        assert_eq!(values(b"abcdefg\nh\n", 3), ["abc", "def", "g", "h"]);
    }
}
