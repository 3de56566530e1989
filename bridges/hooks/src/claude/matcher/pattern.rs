//! Expressions that are refused although they compile.
//!
//! The engine has no step limit, so an expression whose matching time is exponential, or a high power, of the subject's
//! length could stop a session. Expressions that the client's JavaScript does not know (ES2025 modifiers and repeated group
//! names) are refused as well, since there they never match.

/// In how many ways, as a power of two, an expression may split a subject. A name has at most 2^7 characters, so this is four
/// repetitions without a bound.
const BITS: u32 = 28;
/// What a repetition without a bound counts for.
const UNBOUNDED: u32 = 7;
/// Groups within groups.
const DEPTH: usize = 64;

/// Why an expression must not be used, if so. The text must already have compiled.
pub(crate) fn refuse(text: &str) -> Option<&'static str> {
    let mut walk = Walk { chars: text.chars().collect(), at: 0, names: Vec::new(), verdict: None };
    let whole = walk.alternatives(0);
    if walk.verdict.is_none() && whole.bits > BITS {
        return Some(
            "too many of its parts can match in more than one way, so that a match could take very long",
        );
    }
    walk.verdict
}

/// What is known of a part.
#[derive(Clone, Copy, Default)]
struct Part {
    /// In how many ways it can match from one place, as a power of two; 0 when there is one at most.
    bits: u32,
    /// The character it must begin with.
    first: Option<char>,
}

struct Walk {
    chars: Vec<char>,
    at: usize,
    names: Vec<String>,
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
            first: if parts.len() == 1 { parts[0].first } else { None },
        }
    }

    fn sequence(&mut self, depth: usize) -> Part {
        let mut whole = Part::default();
        let mut leading = true;
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let part = self.quantified(depth);
            whole.bits = whole.bits.saturating_add(part.bits);
            if leading {
                whole.first = part.first;
            }
            leading = false;
        }
        whole
    }

    fn quantified(&mut self, depth: usize) -> Part {
        let mut part = self.atom(depth);
        let Some((least, most)) = self.quantifier() else { return part };
        if part.bits > 0 && most != Some(0) && most != Some(1) {
            self.verdict.get_or_insert(NESTED);
        }
        let lengths = match most {
            None => UNBOUNDED,
            Some(most) => log2(u64::from(most.saturating_sub(least)) + 1),
        };
        part.bits = part.bits.saturating_add(lengths);
        if least == 0 {
            part.first = None;
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
                    None => inside.parse().ok().map(|n| (n, Some(n))),
                    Some((least, "")) => least.parse().ok().map(|least| (least, None)),
                    Some((least, most)) => least.parse().ok().zip(most.parse().ok().map(Some)),
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
                // `\d`, `\b`, `\1`, …: unknown beginnings. An escaped sign stands for itself.
                Part { first: escaped.filter(|c| !c.is_alphanumeric()), ..Part::default() }
            }
            '.' | '^' | '$' => Part::default(),
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
                self.at += 2;
            } else if after == Some('<') {
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
        part
    }
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
        ] {
            assert_eq!(refuse(good), None, "{good}");
        }
    }
}
