//! What a file's own last lines say about where it ends in the log.

use super::Shape;
use portcullis_runtime::Seq;
use serde::Deserialize;
use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
};

/// How much is read at once from a file's end.
const BLOCK: u64 = 64 * 1024;
/// How long a line may be, in bytes, give or take what is read at once. What is longer did not come from here.
const LONGEST: usize = 64 * 1024 * 1024;

/// Where a file ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tail {
    /// How long it is, in bytes, without a line that was cut off.
    pub(crate) len: u64,
    /// Its last line; `None` for a file without one.
    pub(crate) last: Option<Last>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) uuid: String,
    /// The record of the last line in it from which on the state of its shape follows, or the first there is: what is behind is
    /// to be looked at again.
    pub(crate) from: Seq,
    /// Which model that line names.
    pub(crate) model: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    uuid: String,
    seq: u64,
    #[serde(alias = "payload")]
    message: Option<Inner>,
}

/// What a line is about.
#[derive(Deserialize)]
struct Inner {
    model: Option<Arc<str>>,
}

/// Makes sure that there is a file, looks at its end, and takes away a line that was cut off. A file that cannot be understood
/// is as good as empty; what a link in its place points to is somebody else's, and stays.
pub(super) fn open(path: &Path, shape: Shape) -> io::Result<Tail> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if let Some(there) = there(path)?
        && !there.is_file()
    {
        return Err(io::Error::other("what is in its place is not a plain file"));
    }
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    let tail = tail(&mut file, shape.anchor(), BLOCK)?;
    if file.metadata()?.len() != tail.len {
        file.set_len(tail.len)?;
    }
    Ok(tail)
}

/// What is in a file's place: the link itself, if it is one.
fn there(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file from its end on, so much of it at once, until a line of the kind `anchor` is found.
pub(crate) fn tail(file: &mut (impl Read + Seek), anchor: &str, block: u64) -> io::Result<Tail> {
    const NONE: Tail = Tail { len: 0, last: None };
    let (mut at, mut held) = (file.seek(SeekFrom::End(0))?, Vec::new());
    let mut tail = NONE;
    loop {
        // Whole lines from the end on, as far as `held` has them: its first byte is the file's at `at`.
        while let Some(end) = held.iter().rposition(|byte| *byte == b'\n') {
            let before = held[..end].iter().rposition(|byte| *byte == b'\n').map(|before| before + 1);
            let Some(begin) = before.or((at == 0).then_some(0)) else { break };
            let Ok(line) = serde_json::from_slice::<Line>(&held[begin..end]) else { return Ok(NONE) };
            if tail.last.is_none() {
                tail.len = at + end as u64 + 1;
            }
            let last = tail.last.get_or_insert(Last { uuid: line.uuid, from: Seq(0), model: None });
            if line.kind == anchor {
                last.from = Seq(line.seq);
                last.model = line.message.and_then(|message| message.model);
                return Ok(tail);
            }
            held.truncate(begin);
        }
        if at == 0 {
            return Ok(tail);
        }
        if held.len() > LONGEST {
            return Ok(NONE);
        }
        // More each time: a line may be long.
        let step = at.min(block.max(held.len() as u64));
        at -= step;
        let mut block = Vec::new();
        file.seek(SeekFrom::Start(at))?;
        Read::by_ref(file).take(step).read_to_end(&mut block)?;
        block.append(&mut held);
        held = block;
    }
}

/// Adds to a file that ends at `len`, and says where it ends then; `None` when it does not end there.
pub(super) fn append(path: &Path, len: u64, added: &str) -> io::Result<Option<u64>> {
    if there(path)?.is_none_or(|there| !there.is_file() || there.len() != len) {
        return Ok(None);
    }
    let mut file = OpenOptions::new().append(true).open(path)?;
    // One write, so that a reader finds whole lines.
    file.write_all(added.as_bytes())?;
    Ok(Some(len + added.len() as u64))
}

/// Empties a file.
pub(super) fn begin_anew(path: &Path) -> io::Result<u64> {
    File::create(path)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn line(kind: &str, about: &str, seq: u64, filling: usize) -> String {
        let filling = "x".repeat(filling);
        format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"u{seq}\",\"seq\":{seq},\"{about}\":{{\"model\":\"m\",\"x\":\"{filling}\"}}}}\n"
        )
    }

    // A session's name may be guessed: a project must not have another file emptied or added to.
    #[test]
    fn what_a_link_points_to_is_neither_emptied_nor_added_to() {
        let dir = tempfile::tempdir().unwrap();
        let (precious, path) = (dir.path().join("precious"), dir.path().join("s.jsonl"));
        fs::write(&precious, "no transcript\n").unwrap();
        symlink(&precious, &path).unwrap();
        assert!(open(&path, Shape::Claude).unwrap_err().to_string().contains("not a plain file"));
        for len in [14, fs::symlink_metadata(&path).unwrap().len()] {
            assert_eq!(append(&path, len, "more\n").unwrap(), None);
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "no transcript\n");
        // One that points nowhere makes no file there.
        symlink(dir.path().join("new"), dir.path().join("n.jsonl")).unwrap();
        assert!(
            open(&dir.path().join("n.jsonl"), Shape::Claude).is_err() && !dir.path().join("new").exists()
        );
    }

    #[test]
    fn the_last_lines_are_found_however_long_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let block = BLOCK as usize;
        for filling in [0, block / 2, block - 1, block, 3 * block] {
            let shapes = [
                (Shape::Claude, ["user", "assistant"], "message"),
                (Shape::Codex, ["event_msg", "turn_context"], "payload"),
            ];
            let line = |kind, about, seq| line(kind, about, seq, filling);
            for (shape, [other, anchor], about) in shapes {
                let text = [
                    line(other, about, 1),
                    line(anchor, about, 3),
                    line(other, about, 5),
                    line(other, about, 7),
                ];
                let whole = text.concat();
                for cut in ["", "{\"type\":\"us", &"y".repeat(2 * block)] {
                    fs::write(&path, format!("{whole}{cut}")).unwrap();
                    let last = Last { uuid: "u7".into(), from: Seq(3), model: Some("m".into()) };
                    let tail = Tail { len: whole.len() as u64, last: Some(last) };
                    assert_eq!(open(&path, shape).unwrap(), tail, "{filling}, {}", cut.len());
                    assert_eq!(fs::metadata(&path).unwrap().len(), tail.len);
                }
            }
        }
    }

    // What a project has in a transcript's place must not fill the memory.
    #[test]
    fn a_line_without_an_end_is_no_transcript() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(open(&path, Shape::Claude).unwrap(), Tail { len: 0, last: None });
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn what_has_another_length_is_not_added_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        assert_eq!(append(&path, 0, "a\n").unwrap(), None, "it is gone");
        assert_eq!(open(&path, Shape::Claude).unwrap(), Tail { len: 0, last: None });
        assert_eq!(append(&path, 0, "a\n").unwrap(), Some(2));
        assert_eq!(append(&path, 0, "b\n").unwrap(), None);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\n");
    }
}
