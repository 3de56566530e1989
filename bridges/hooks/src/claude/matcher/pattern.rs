//! Expressions that are refused although they compile.
//!
//! The engine has no step limit, so an expression whose matching time is exponential, or a high power, of the subject's
//! length could stop a session. Expressions that the client's JavaScript does not know (ES2025 modifiers and repeated group
//! names) are refused as well, since there they never match.

/// How many steps a search may take, as a power of two: some tenths of a second.
const STEPS: u32 = 24;
/// Into how many ways a subject can be split by so many repetitions without a bound, as a power of two. A subject has 2^7 units;
/// one more of them than its repetitions have is where the search begins.
const SPLITS: [u32; 5] = [0, 8, 14, 19, 24];
/// What a reference back to a group takes, as a power of two.
const REFERENCE: u32 = 5;
/// Groups within groups.
const DEPTH: usize = 64;

/// Why an expression must not be used, if so. The text must already have compiled.
pub(crate) fn refuse(text: &str) -> Option<&'static str> {
    let mut walk = Walk { chars: text.chars().collect(), ..Walk::default() };
    let whole = walk.alternatives(0);
    let runs = whole.runs as usize + usize::from(!whole.anchored);
    let references = if walk.refers { REFERENCE } else { 0 };
    let steps = SPLITS.get(runs).map(|splits| splits.saturating_add(whole.bits).saturating_add(references));
    if walk.verdict.is_none() && steps.is_none_or(|steps| steps > STEPS) {
        return Some(
            "too many of its parts can match in more than one way, so that a match could take very long",
        );
    }
    walk.verdict
}

/// What is known of a part.
#[derive(Clone, Copy, Default)]
struct Part {
    /// In how many ways it can match from one place, as a power of two, but for repetitions without a bound.
    bits: u32,
    /// How many of those there are.
    runs: u32,
    /// The character it must begin with.
    first: Option<char>,
    /// It can match nothing.
    empty: bool,
    /// It matches at the beginning of the subject alone.
    anchored: bool,
}

impl Part {
    /// A part that can match nothing: an assertion.
    const EMPTY: Part = Part { bits: 0, runs: 0, first: None, empty: true, anchored: false };

    /// In more than one way?
    fn is_open(self) -> bool {
        self.bits > 0 || self.runs > 0
    }
}

#[derive(Default)]
struct Walk {
    chars: Vec<char>,
    at: usize,
    names: Vec<String>,
    /// It refers back to a group.
    refers: bool,
    verdict: Option<&'static str>,
}

const NESTED: &str = "it repeats a group that itself repeats or has overlapping alternatives, so that a match could take \
                      exponentially long";

impl Walk {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn rest_is(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn alternatives(&mut self, depth: usize) -> Part {
        if depth > DEPTH {
            self.verdict = Some("its groups are nested too deeply");
            self.at = self.chars.len();
            return Part::default();
        }
        let mut parts = vec![self.sequence(depth)];
        while self.peek() == Some('|') {
            self.at += 1;
            parts.push(self.sequence(depth));
        }
        let mut firsts: Vec<Option<char>> = parts.iter().map(|part| part.first).collect();
        firsts.sort_unstable();
        // Alternatives that begin with different characters leave nothing to try twice.
        let distinct = firsts.iter().all(Option::is_some) && firsts.windows(2).all(|two| two[0] != two[1]);
        let choice = if distinct || parts.len() == 1 { 0 } else { log2(parts.len() as u64) };
        Part {
            bits: parts.iter().map(|part| part.bits).max().unwrap_or(0).saturating_add(choice),
            runs: parts.iter().map(|part| part.runs).max().unwrap_or(0),
            first: if parts.len() == 1 { parts[0].first } else { None },
            empty: parts.iter().any(|part| part.empty),
            anchored: parts.iter().all(|part| part.anchored),
        }
    }

    fn sequence(&mut self, depth: usize) -> Part {
        let mut whole = Part::EMPTY;
        let mut leading = true;
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let part = self.quantified(depth);
            whole.bits = whole.bits.saturating_add(part.bits);
            whole.runs = whole.runs.saturating_add(part.runs);
            whole.empty &= part.empty;
            if leading {
                (whole.first, whole.anchored) = (part.first, part.anchored);
            }
            leading = false;
        }
        whole
    }

    fn quantified(&mut self, depth: usize) -> Part {
        let mut part = self.atom(depth);
        let Some((least, most)) = self.quantifier() else { return part };
        if part.is_open() && most != Some(0) && most != Some(1) {
            self.verdict.get_or_insert(NESTED);
        }
        // Nothing comes after it that could make it try again.
        let is_last = depth == 0 && matches!(self.peek(), None | Some('|'));
        match most {
            _ if is_last => {}
            None => part.runs = part.runs.saturating_add(1),
            Some(most) => {
                let lengths = log2(u64::from(most.saturating_sub(least)) + 1);
                part.bits = part.bits.saturating_add(lengths);
            }
        }
        // What matches nothing is repeated as often as it must be, with nothing that would end it.
        if part.empty {
            part.bits = part.bits.saturating_add(log2(u64::from(least.max(1))));
        }
        if least == 0 {
            part = Part { first: None, empty: true, anchored: false, ..part };
        }
        part
    }

    fn quantifier(&mut self) -> Option<(u32, Option<u32>)> {
        let bounds = match self.peek()? {
            '*' => (0, None),
            '+' => (1, None),
            '?' => (0, Some(1)),
            '{' => {
                let end = self.chars[self.at..].iter().position(|c| *c == '}')?;
                let inside: String = self.chars[self.at + 1..self.at + end].iter().collect();
                let bounds = match inside.split_once(',') {
                    None => count(&inside).map(|n| (n, Some(n))),
                    Some((least, "")) => count(least).map(|least| (least, None)),
                    Some((least, most)) => count(least).zip(count(most).map(Some)),
                };
                // A brace that is no quantifier is a character.
                let bounds = bounds?;
                self.at += end;
                bounds
            }
            _ => return None,
        };
        self.at += 1;
        if self.peek() == Some('?') {
            self.at += 1;
        }
        Some(bounds)
    }

    fn atom(&mut self, depth: usize) -> Part {
        let c = self.chars[self.at];
        self.at += 1;
        match c {
            '(' => self.group(depth),
            '[' => {
                self.class();
                Part::default()
            }
            '\\' => {
                let escaped = self.peek();
                self.at += 1;
                match escaped {
                    Some('b' | 'B') => return Part::EMPTY,
                    Some('1'..='9' | 'k') => {
                        self.refers = true;
                        return Part::EMPTY;
                    }
                    _ => {}
                }
                // `\d`, `\b`, `\1`, …: unknown beginnings. An escaped sign stands for itself.
                Part { first: escaped.filter(|c| !c.is_alphanumeric()), ..Part::default() }
            }
            '.' => Part::default(),
            '^' => Part { anchored: true, ..Part::EMPTY },
            '$' => Part::EMPTY,
            c => Part { first: Some(c), ..Part::default() },
        }
    }

    fn class(&mut self) {
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '\\' => self.at += 1,
                ']' => return,
                _ => {}
            }
        }
    }

    fn group(&mut self, depth: usize) -> Part {
        let mut looks_around = false;
        if self.peek() == Some('?') {
            let after = self.chars.get(self.at + 1).copied();
            if self.rest_is("?<") && !self.rest_is("?<=") && !self.rest_is("?<!") {
                self.at += 2;
                let mut name = String::new();
                while let Some(c) = self.peek().filter(|c| *c != '>') {
                    name.push(c);
                    self.at += 1;
                }
                self.at += 1;
                if self.names.contains(&name) {
                    self.verdict.get_or_insert(
                        "it uses one group name twice, which the client's JavaScript does not accept",
                    );
                }
                self.names.push(name);
            } else if matches!(after, Some(':' | '=' | '!')) {
                looks_around = after != Some(':');
                self.at += 2;
            } else if after == Some('<') {
                looks_around = true;
                self.at += 3;
            } else {
                self.verdict
                    .get_or_insert("it switches flags inside, which the client's JavaScript does not accept");
            }
        }
        let part = self.alternatives(depth + 1);
        if self.peek() == Some(')') {
            self.at += 1;
        }
        // What it sees there is not what comes next.
        if looks_around { Part { bits: part.bits, runs: part.runs, ..Part::EMPTY } } else { part }
    }
}

/// A number of times, as far as it matters.
fn count(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// The exponent of the next power of two.
fn log2(n: u64) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::refuse;

    #[test]
    fn what_can_run_away_is_named() {
        for bad in [
            "(a+)+$",
            "(a*)*",
            "(.*x)+",
            "(a|b*)+",
            "(a?b?)+",
            "(a|aa)+$",
            "(?:a+)*",
            "((a+))+",
            "(a{1,9})+",
            "(a+){9}",
            ".*.*.*.*.*x",
            "(?i:bash)",
            "(?-i:x)",
            "(?<n>a)|(?<n>b)",
            "(?=(a+)+)x",
            "([a-z]+_?)+$",
            "(a+){5}",
            "(a+){99999999999}x",
            ".*.*.*.*x",
            "((?!a).|b)+x",
            "((?<=a).|b)+x",
            "(){4000000000}",
            "((){60000}){60000}",
            "(?=a){4000000000}",
            "(?:a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?)x",
            "(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)(?:a|.)x",
            "(.*)(.*)(.*)\\1\\2\\3x",
        ] {
            assert!(refuse(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn what_people_write_is_not() {
        for good in [
            "mcp__.*__.*",
            "^(?!Read$|Glob$).+",
            "(Edit|Write)",
            "(?:Edit|Write).*",
            "^mcp__(memory|fs)__.+$",
            "Ba*",
            "[(+]+",
            "a\\(b+\\)+",
            "(foo|bar)+",
            "x{2,}",
            "a{,3}",
            "(ab)+c",
            "(?<tool>Bash|Read).*",
            "(?<=x)y+",
            "(?<!x)y+",
            "\\w+-\\d+",
            ".*foo.*bar.*",
            "mcp__.*__.*__.*__.*",
            "^.*a.*b.*c.*$",
            "(.)\\1{3,}",
            "(?:\\bBash\\b|^Read$)",
            "a{1000000}",
        ] {
            assert_eq!(refuse(good), None, "{good}");
        }
    }
}
