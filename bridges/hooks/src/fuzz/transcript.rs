//! The end of a transcript: of any file that lies where one should.

use crate::transcript::tail;
use std::io::Cursor;

pub(super) fn run(data: &[u8]) {
    // The lines that each client's shape is picked up from.
    ["assistant", "turn_context"].into_iter().for_each(|anchor| ends(data, anchor));
}

fn ends(data: &[u8], anchor: &str) {
    let read = |data: &[u8], block| {
        tail(&mut Cursor::new(data), anchor, block).expect("a text in memory can be read")
    };
    let whole = read(data, 64 * 1024);
    // However much is read at once.
    for block in [1, 7, 64] {
        assert_eq!(read(data, block), whole);
    }
    let len = usize::try_from(whole.len).expect("it is part of the text");
    match &whole.last {
        None => assert_eq!(len, 0),
        Some(_) => assert_eq!(data[..len].last(), Some(&b'\n')),
    }
    // Nothing but a line that was cut off is taken away, and there is none then.
    assert!(len == 0 || !data[len..].contains(&b'\n'));
    assert_eq!(read(&data[..len], 64 * 1024), whole);
}
