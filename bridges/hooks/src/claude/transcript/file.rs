//! What a file's own last lines say about where it ends in the log.

use portcullis_runtime::Seq;
use serde::Deserialize;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
};

/// How much is read at once from a file's end.
const BLOCK: u64 = 64 * 1024;

/// Where a file ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tail {
    /// How long it is, in bytes, without a line that was cut off.
    pub(super) len: u64,
    /// Its last line; `None` for a file without one.
    pub(super) last: Option<Last>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) uuid: String,
    /// The record of the model's last answer in it, or the first there is: what is behind is to be looked at again.
    pub(super) from: Seq,
    /// Which model that was.
    pub(super) model: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    uuid: String,
    seq: u64,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    model: Option<Arc<str>>,
}

/// Makes sure that there is a file, looks at its end, and takes away a line that was cut off. A file that cannot be understood
/// is as good as empty.
pub(super) fn open(path: &Path) -> io::Result<Tail> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    let tail = tail(&mut file)?;
    if file.metadata()?.len() != tail.len {
        file.set_len(tail.len)?;
    }
    Ok(tail)
}

fn tail(file: &mut File) -> io::Result<Tail> {
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
            if line.kind == "assistant" {
                last.from = Seq(line.seq);
                last.model = line.message.and_then(|message| message.model);
                return Ok(tail);
            }
            held.truncate(begin);
        }
        if at == 0 {
            return Ok(tail);
        }
        // More each time: a line may be long.
        let step = at.min(BLOCK.max(held.len() as u64));
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
    let mut file = match OpenOptions::new().append(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() != len {
        return Ok(None);
    }
    // One write, so that a reader finds whole lines.
    file.write_all(added.as_bytes())?;
    Ok(Some(len + added.len() as u64))
}

/// Empties a file.
pub(super) fn begin_anew(path: &Path) -> io::Result<u64> {
    File::create(path)?;
    Ok(0)
}
