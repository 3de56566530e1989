//! The change of a file as hunks, in the shape of the client's `structuredPatch`.

use serde::Serialize;
use similar::{ChangeTag, DiffTag, TextDiff};

/// Lines of both sides together up to which a patch is made: the search is quadratic at worst.
const MAX_LINES: usize = 10_000;

/// Bytes of both sides together up to which a patch is made: it holds them once more.
const MAX_BYTES: usize = 1 << 20;

/// Unchanged lines shown around a change.
const AROUND: usize = 3;

/// Some lines that changed, with lines around them. Lines count from 1.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hunk {
    old_start: usize,
    old_lines: usize,
    new_start: usize,
    new_lines: usize,
    /// Each with ` `, `-` or `+` before it.
    lines: Vec<String>,
}

/// The hunks between two texts; none if they are equal, or together longer than 10,000 lines or 1 MiB.
pub(crate) fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    if old.len() + new.len() > MAX_BYTES || old.lines().count() + new.lines().count() > MAX_LINES {
        return Vec::new();
    }
    let diff = TextDiff::from_lines(old, new);
    let mut hunks = Vec::new();
    for group in diff.grouped_ops(AROUND) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if group.iter().all(|op| op.tag() == DiffTag::Equal) {
            continue;
        }
        let mut lines = Vec::new();
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let mark = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let line = change.value();
            lines.push(format!("{mark}{}", line.strip_suffix('\n').unwrap_or(line)));
            if !line.ends_with('\n') {
                lines.push("\\ No newline at end of file".to_owned());
            }
        }
        let (old_from, new_from) = (first.old_range().start, first.new_range().start);
        hunks.push(Hunk {
            old_start: old_from + 1,
            old_lines: last.old_range().end - old_from,
            new_start: new_from + 1,
            new_lines: last.new_range().end - new_from,
            lines,
        });
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_runtime::Frozen;

    fn json(old: &str, new: &str) -> String {
        Frozen::of(&hunks(old, new)).expect("hunks").text().to_owned()
    }

    #[test]
    fn a_change_has_lines_around_it() {
        assert_eq!(
            json("a\nb\nc\n", "a\nB\nc\n"),
            r#"[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":3,"lines":[" a","-b","+B"," c"]}]"#
        );
        assert_eq!(json("a\n", "a\n"), "[]");
    }

    #[test]
    fn far_changes_are_hunks_of_their_own_and_a_missing_newline_is_said() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("2\n3\n", "2\nnew\n3\n").replace("20\n", "20");
        let hunks = hunks(&old, &new);
        assert_eq!(hunks.len(), 2);
        assert_eq!((hunks[0].old_start, hunks[0].old_lines, hunks[0].new_lines), (1, 5, 6));
        assert_eq!((hunks[1].old_start, hunks[1].new_start), (17, 18));
        assert_eq!(hunks[1].lines[3..], ["-20", "+20", "\\ No newline at end of file"]);
    }

    #[test]
    fn too_much_gives_no_patch() {
        assert_eq!(json(&"a".repeat(1 << 20), "b"), "[]");
        assert_eq!(json(&"a\n".repeat(6000), &"b\n".repeat(6000)), "[]");
    }
}
