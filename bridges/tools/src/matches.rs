//! Which lines of a file a pattern is found in, and how they are shown.

use regex::bytes::Regex;
use std::{fmt::Write as _, ops::RangeInclusive};

/// Characters of one line shown.
const LINE: usize = 2_000;

/// Rows collected at most, and bytes of them: a result shows a small part, and the rest must not fill memory.
const MAX_ROWS: usize = 20_000;
const MAX_ROW_BYTES: usize = 4 << 20;

/// The lines of a result, up to a limit.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Vec<String>,
    bytes: usize,
}

impl Rows {
    /// Adds a row, or drops it when there are enough.
    pub(crate) fn push(&mut self, row: String) {
        if !self.is_full() {
            self.bytes += row.len();
            self.rows.push(row);
        }
    }

    /// Whether further rows are dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= MAX_ROWS || self.bytes >= MAX_ROW_BYTES
    }

    pub(crate) fn as_slice(&self) -> &[String] {
        &self.rows
    }
}

/// A file's lines and which of them match, counted from 0.
pub(crate) struct Matches<'b> {
    lines: Vec<&'b [u8]>,
    hits: Vec<usize>,
}

/// Lines shown around a match.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Around {
    pub(crate) before: usize,
    pub(crate) after: usize,
}

impl<'b> Matches<'b> {
    /// Finds the lines. With `across`, a match may go over the end of a line, and each of its lines counts.
    pub(crate) fn find(bytes: &'b [u8], pattern: &Regex, across: bool) -> Matches<'b> {
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        // What follows the last line break is no line if it is empty.
        if lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
        for line in &mut lines {
            *line = line.strip_suffix(b"\r").unwrap_or(line);
        }
        let hits = if across {
            across_lines(bytes, pattern, lines.len())
        } else {
            (0..lines.len()).filter(|line| pattern.is_match(lines[*line])).collect()
        };
        Matches { lines, hits }
    }

    /// How many lines match.
    pub(crate) fn count(&self) -> usize {
        self.hits.len()
    }

    /// The lines with those around them, as `name:12:text`, with `-` for lines around and `--` between groups.
    pub(crate) fn show(&self, name: &str, numbers: bool, around: Around, out: &mut Rows) {
        let mut next = 0;
        let mut hits = self.hits.iter().copied().peekable();
        while let Some(first) = hits.next() {
            if out.is_full() {
                return;
            }
            let mut last = first;
            let mut group = vec![first];
            let reach = |line: usize| line.saturating_add(around.after).saturating_add(around.before);
            while let Some(hit) = hits.next_if(|hit| *hit <= reach(last).saturating_add(1)) {
                group.push(hit);
                last = hit;
            }
            let from = first.saturating_sub(around.before).max(next);
            let to = last.saturating_add(around.after).min(self.lines.len() - 1);
            if (around.before, around.after) != (0, 0) && !out.rows.is_empty() {
                out.push("--".to_owned());
            }
            self.show_range(from..=to, &group, name, numbers, out);
            next = to + 1;
        }
    }

    fn show_range(
        &self,
        range: RangeInclusive<usize>,
        hits: &[usize],
        name: &str,
        numbers: bool,
        out: &mut Rows,
    ) {
        for line in range {
            if out.is_full() {
                return;
            }
            let mark = if hits.binary_search(&line).is_ok() { ':' } else { '-' };
            let text = String::from_utf8_lossy(self.lines[line]);
            let mut shown = format!("{name}{mark}");
            if numbers {
                // Writing to a String cannot fail.
                let _ = write!(shown, "{}{mark}", line + 1);
            }
            match crate::reply::clip(&text, LINE) {
                (whole, 0) => shown.push_str(whole),
                (start, more) => {
                    let _ = write!(shown, "{start}… [{more} bytes more]");
                }
            }
            out.push(shown);
        }
    }
}

fn across_lines(bytes: &[u8], pattern: &Regex, lines: usize) -> Vec<usize> {
    let mut hits: Vec<usize> = Vec::new();
    let (mut line, mut at) = (0, 0);
    let breaks = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
    for found in pattern.find_iter(bytes) {
        line += breaks(&bytes[at..found.start()]);
        at = found.start();
        // A break at the very end of a match belongs to its last line.
        let inside = found.as_bytes();
        let last = line + breaks(inside.strip_suffix(b"\n").unwrap_or(inside));
        let from = hits.last().map_or(line, |hit| line.max(hit + 1));
        hits.extend((from..=last).filter(|hit| *hit < lines));
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::bytes::RegexBuilder;

    fn shown(text: &str, pattern: &str, across: bool, before: usize, after: usize) -> String {
        let pattern = RegexBuilder::new(pattern).multi_line(true).build().expect("a pattern");
        let mut out = Rows::default();
        Matches::find(text.as_bytes(), &pattern, across).show("f", true, Around { before, after }, &mut out);
        out.as_slice().join("\n")
    }

    #[test]
    fn groups_are_joined_where_they_touch() {
        let text = "1\nx2\n3\n4\nx5\n6\n7\n8\n9\nx10\n";
        assert_eq!(shown(text, "x", false, 0, 0), "f:2:x2\nf:5:x5\nf:10:x10");
        assert_eq!(
            shown(text, "x", false, 1, 1),
            "f-1-1\nf:2:x2\nf-3-3\nf-4-4\nf:5:x5\nf-6-6\n--\nf-9-9\nf:10:x10"
        );
        assert_eq!(shown(text, "x5", false, usize::MAX, usize::MAX).lines().count(), 10);
        assert_eq!(shown("", "x*", false, 1, 1), "");
    }

    #[test]
    fn a_match_over_lines_counts_each() {
        assert_eq!(shown("a\nb\r\nc\nb\n", r"a\nb", true, 0, 0), "f:1:a\nf:2:b");
        assert_eq!(shown("a\na\n", r"a\n", true, 0, 0), "f:1:a\nf:2:a");
        assert_eq!(shown("a\nb\n", r"$", true, 0, 0), "f:1:a\nf:2:b");
        assert_eq!(shown("a\nb\n", r"a\nb", false, 0, 0), "");
    }
}
