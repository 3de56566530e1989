//! Text on a terminal: colours, widths, and nothing that a terminal would obey.

use std::io::{self, IsTerminal};

/// The width where there is no terminal, and the most that lines are stretched to.
const WIDTH: usize = 100;
/// Narrower terminals are not followed: there would be no room beside the labels.
const NARROWEST: usize = 40;

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tint {
    Plain,
    Bold,
    Quiet,
    Good,
    Bad,
    Notice,
    Name,
}

/// How text is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    pub(crate) colour: bool,
    pub(crate) width: usize,
}

impl Paint {
    /// As stdout wants it.
    pub(crate) fn stdout() -> Paint {
        Paint::of(&io::stdout())
    }

    /// As stderr wants it.
    pub(crate) fn stderr() -> Paint {
        Paint::of(&io::stderr())
    }

    fn of(to: &(impl IsTerminal + std::os::fd::AsFd)) -> Paint {
        let terminal = to.is_terminal();
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = if terminal { rustix::termios::tcgetwinsize(to).ok() } else { None };
        let columns = columns.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Paint {
            colour: terminal && !dumb && !set("NO_COLOR"),
            // The last column stays free: some terminals break a line that fills it.
            width: columns.map_or(WIDTH, |columns| (columns - 1).clamp(NARROWEST, WIDTH)),
        }
    }

    /// The text in a colour, if there are colours.
    pub(crate) fn tint(self, tint: Tint, text: &str) -> String {
        let code = match tint {
            _ if !self.colour => return text.to_owned(),
            Tint::Plain => return text.to_owned(),
            Tint::Bold => "1",
            Tint::Quiet => "2",
            Tint::Good => "32",
            Tint::Bad => "31",
            Tint::Notice => "33",
            Tint::Name => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// The text without anything that a terminal obeys: models, hooks and files must not move the cursor, set titles or hide
/// what they wrote. Line breaks stay, tabs become spaces, other such characters are spelled out.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            '\r' => {}
            // The second list: invisible characters, and those that turn the direction of text around.
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}') =>
            {
                out.push_str(&format!("\\u{{{:x}}}", c as u32));
            }
            c => out.push(c),
        }
    }
    out
}

/// Breaks a text into lines of at most so many characters, at spaces where there are any. Indentation is kept.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut out = Vec::new();
    for line in text.trim_end().split('\n') {
        let chars: Vec<char> = line.trim_end().chars().collect();
        let mut rest = &chars[..];
        while rest.len() > width {
            let space = rest[..=width].iter().rposition(|c| *c == ' ').filter(|at| *at > width / 3);
            let at = space.unwrap_or(width);
            out.push(rest[..at].iter().collect::<String>().trim_end().to_owned());
            rest = &rest[at + usize::from(space.is_some())..];
        }
        out.push(rest.iter().collect());
    }
    out
}

/// The first lines, and how many are left out.
pub(crate) fn head(mut lines: Vec<String>, most: usize) -> (Vec<String>, usize) {
    // A single line more costs no more room than saying so.
    let left = if lines.len() > most + 1 { lines.len() - most } else { 0 };
    if left > 0 {
        lines.truncate(most);
    }
    (lines, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        assert_eq!(clean("a\x1b[2Kb\tc\r\nd\u{202e}e\u{9b}1m"), "a\\u{1b}[2Kb    c\nd\\u{202e}e\\u{9b}1m");
    }

    #[test]
    fn lines_break_at_spaces_where_there_are_any() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("aaaaaaaaaa", 4), ["aaaa", "aaaa", "aa"]);
        assert_eq!(wrap("  kept\n\nend\n", 8), ["  kept", "", "end"]);
        assert_eq!(wrap("exactly8 more", 8), ["exactly8", "more"]);
    }

    #[test]
    fn a_text_is_not_shortened_by_a_single_line() {
        let lines = |count| (0..count).map(|n: i32| n.to_string()).collect::<Vec<_>>();
        assert_eq!(head(lines(4), 3), (lines(4), 0));
        assert_eq!(head(lines(5), 3), (lines(3), 2));
    }

    #[test]
    fn without_colours_nothing_is_added() {
        let plain = Paint { colour: false, width: 80 };
        assert_eq!(plain.tint(Tint::Bad, "no"), "no");
        assert_eq!(Paint { colour: true, ..plain }.tint(Tint::Bad, "no"), "\x1b[31mno\x1b[0m");
    }
}
