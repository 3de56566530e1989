//! The end of the write-ahead log, looked at before SQLite does. SQLite takes the log up to the first frame that is not
//! sound and forgets the rest without a word. For a torn last transaction that is right, and is to be said; damage with
//! further commits behind it would take acknowledged records away, and is refused.

use crate::{OpenError, lock::beside};
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
    thread,
    time::Duration,
};

const HEADER: usize = 32;
const FRAME: usize = 24;
/// The lowest bit tells the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;
/// Between two looks at a log that may be written meanwhile.
const AGAIN: Duration = Duration::from_millis(10);

/// What was found behind the last whole commit when a journal was opened, and was dropped: the rest of a transaction that
/// was being written when its process or machine died. Nobody was told that it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// How many bytes of the write-ahead log.
    pub bytes: u64,
}

/// What there is behind the log's last commit.
#[derive(Debug, PartialEq, Eq)]
enum Tail {
    /// Nothing that belongs to it.
    Clean,
    Torn(TornTail),
    /// Not the tail: a frame in the middle, or the header.
    Damaged(String),
}

impl Tail {
    fn of(bytes: usize) -> Tail {
        if bytes == 0 { Tail::Clean } else { Tail::Torn(TornTail { bytes: bytes as u64 }) }
    }
}

/// Looks at the log of `file`, while nobody writes it.
///
/// # Errors
/// `Damaged`, or the log cannot be read.
pub(crate) fn look(file: &Path) -> Result<Option<TornTail>, OpenError> {
    match read(file)? {
        Tail::Clean => Ok(None),
        Tail::Torn(torn) => Ok(Some(torn)),
        Tail::Damaged(why) => Err(OpenError::Damaged { file: file.into(), why }),
    }
}

/// Looks whether the log of `file` is damaged, also while another process writes it.
///
/// # Errors
/// As [`look`].
pub(crate) fn look_on(file: &Path) -> Result<(), OpenError> {
    let Tail::Damaged(why) = read(file)? else { return Ok(()) };
    // A log that is begun anew while it is read seems damaged at some place, but not twice at the same.
    thread::sleep(AGAIN);
    if read(file)? == Tail::Damaged(why.clone()) {
        return Err(OpenError::Damaged { file: file.into(), why });
    }
    Ok(())
}

fn read(file: &Path) -> Result<Tail, OpenError> {
    let scanned = match File::open(beside(file, "-wal")) {
        Ok(log) => scan(BufReader::with_capacity(1 << 16, log)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Tail::Clean),
        Err(e) => Err(e),
    };
    scanned.map_err(|e| OpenError::Unavailable { file: file.into(), why: format!("its -wal file: {e}") })
}

/// The log's own checksum, over words in the byte order that its header names.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum {
    big: bool,
    a: u32,
    b: u32,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.as_chunks::<8>().0 {
            let [a0, a1, a2, a3, b0, b1, b2, b3] = *pair;
            let word = |w| if self.big { u32::from_be_bytes(w) } else { u32::from_le_bytes(w) };
            self.a = self.a.wrapping_add(word([a0, a1, a2, a3])).wrapping_add(self.b);
            self.b = self.b.wrapping_add(word([b0, b1, b2, b3])).wrapping_add(self.a);
        }
    }

    fn is(self, stored: &[u8]) -> bool {
        (self.a, self.b) == (word(stored, 0), word(stored, 4))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads as much as there is.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut had = 0;
    while had < buffer.len() {
        match log.read(&mut buffer[had..]) {
            Ok(0) => break,
            Ok(read) => had += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(had)
}

/// The first frame that is not sound.
struct Broken {
    number: u64,
    /// It, or one behind it, ends a transaction.
    commit: bool,
}

fn scan(mut log: impl Read) -> io::Result<Tail> {
    let mut header = [0; HEADER];
    let had = fill(&mut log, &mut header)?;
    if had < HEADER || header == [0; HEADER] {
        // Nothing, or its first write did not come through.
        return Ok(Tail::of(had));
    }
    let mut sum = Sum { big: header[3] & 1 == 1, a: 0, b: 0 };
    sum.add(&header[..24]);
    let size = word(&header, 8) as usize;
    let known = word(&header, 0) & !1 == MAGIC && size.is_power_of_two() && (512..=65536).contains(&size);
    if !known || !sum.is(&header[24..]) {
        return Ok(Tail::Damaged("the header of its -wal file is damaged".into()));
    }
    let mut buffer = vec![0; FRAME + size];
    // Bytes behind the last commit, and of these the ones that surely belong to the log.
    let (mut behind, mut surely) = (0, 0);
    let mut broken: Option<Broken> = None;
    for number in 1_u64.. {
        let had = fill(&mut log, &mut buffer)?;
        if had == 0 {
            break;
        }
        let whole = had == buffer.len();
        let commit = whole && word(&buffer, 4) != 0;
        let salted = had >= FRAME && buffer[8..16] == header[16..24];
        let older = had >= FRAME && !salted && buffer[..FRAME].iter().any(|byte| *byte != 0);
        let mut next = sum;
        next.add(&buffer[..8]);
        next.add(&buffer[FRAME.min(had)..had]);
        behind += had;
        match &mut broken {
            None if salted && whole && next.is(&buffer[16..24]) => {
                sum = next;
                if commit {
                    behind = 0;
                }
                surely = behind;
            }
            None => {
                // With other salts it is left over from before the log was begun anew, unless more of ours follows.
                if !older {
                    surely = behind;
                }
                broken = Some(Broken { number, commit });
            }
            Some(_) if !salted => {}
            // A transaction begins when the one before it is on disk: what is broken was acknowledged.
            Some(Broken { number, commit: true }) => {
                return Ok(Tail::Damaged(format!(
                    "frame {number} of its -wal file is damaged, and more follow"
                )));
            }
            Some(first) => {
                surely = behind;
                first.commit = commit;
            }
        }
    }
    Ok(Tail::of(surely))
}
