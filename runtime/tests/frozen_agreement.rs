//! The scan against serde_json as a reference, over texts that were broken on purpose. The mutations come from a fixed
//! seed, so a failure repeats.

use portcullis_runtime::frozen::{Frozen, View, Why};
use serde_json::value::RawValue;

const SEEDS: &[&str] = &[
    r#"{"command":"ls -la","timeout":120000,"description":"List files"}"#,
    r#" { "a" : [ 1 , -0 , 0.5 , 1e5 , 1E-7 ] , "b" : { } , "c" : [ ] , "d" : null } "#,
    r#"{"nested":{"a":{"b":[{"c":true},{"c":false}]}},"10":1,"2":2}"#,
    r#"["\u0041\n\t\"\\\/","\ud83d\ude00","é😀",""]"#,
    r#"{"\u0061":1,"b":"\ud800\udc00","a b":2}"#,
    r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10}"#,
    r#"[12345678901234567890,-9007199254740993,18446744073709551616,1.7976931348623157e308]"#,
    r#"{"path":"/a/b","content":"line 1\nline 2\n","edits":[{"old":"x","new":"y"}]}"#,
    "[[[[[[[[1]]]]]]]]",
    "true",
    "-12.75e+3",
    r#""text""#,
];

const PIECES: &[&str] = &[
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    "0",
    "1",
    "9",
    "-",
    "+",
    ".",
    "e",
    "E",
    "\\u",
    "\\ud800",
    "\\u0061",
    "true",
    "false",
    "null",
    "\"a\":",
    "\"\"",
    "\t",
    "\u{1}",
    "/",
    "é",
    "\u{feff}",
    "\\n",
    "e400",
    "{\"a\":1}",
    "a",
];

/// xorshift64*: good enough to choose places.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }

    fn piece<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// A place between two characters.
    fn cut(&mut self, text: &str) -> usize {
        let mut at = self.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    fn mutate(&mut self, text: &mut String) {
        let (a, b) = (self.cut(text), self.cut(text));
        let (from, to) = (a.min(b), a.max(b));
        match self.below(6) {
            0 => text.insert_str(a, self.piece(PIECES)),
            1 => {
                if let Some(next) = text[a..].chars().next() {
                    text.replace_range(a..a + next.len_utf8(), "");
                }
            }
            2 => {
                if let Some(next) = text[a..].chars().next() {
                    text.replace_range(a..a + next.len_utf8(), self.piece(PIECES));
                }
            }
            3 => {
                let copy = text[from..to].to_owned();
                let at = self.cut(text);
                text.insert_str(at, &copy);
            }
            4 if to - from < 12 => text.replace_range(from..to, ""),
            _ => {
                let other = self.piece(SEEDS);
                let at = self.cut(other);
                text.truncate(a);
                text.push_str(&other[at..]);
            }
        }
        if text.len() > 400 {
            let at = self.cut(&text[..200]);
            text.truncate(at);
        }
    }
}

// C-ID-2: the grammar is RFC 8259; what we refuse beyond it has another reason than syntax.
#[test]
#[expect(clippy::disallowed_types, reason = "the reference")]
fn acceptance_and_values_agree_with_serde_json() {
    let mut dice = Dice(0x5eed_0001);
    let (mut valid, mut stricter, mut compared) = (0, 0, 0);
    for round in 0..200_000 {
        let mut text = SEEDS[round % SEEDS.len()].to_owned();
        for _ in 0..=dice.below(3) {
            dice.mutate(&mut text);
        }
        let reference = serde_json::from_str::<&RawValue>(&text).is_ok();
        match Frozen::parse(text.as_str()) {
            Ok(frozen) => {
                assert!(reference, "accepted against the grammar: {text}");
                valid += 1;
                assert_eq!(frozen.text(), text);
                // The reference gives up on integers of hundreds of digits, and near the largest double.
                if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
                    assert!(same(frozen.root(), &value), "read differently: {text}");
                    compared += 1;
                }
            }
            Err(refused) if reference => {
                assert!(
                    !matches!(refused.why, Why::Syntax { .. }),
                    "refused against the grammar: {text}: {refused}"
                );
                stricter += 1;
            }
            Err(refused) => assert!(refused.at.offset <= text.len()),
        }
    }
    // The corpus reaches both sides, or the agreement means little.
    assert!(valid > 15_000 && stricter > 500 && compared > valid - 200, "{valid} {stricter} {compared}");
}

#[expect(clippy::disallowed_types, reason = "the reference")]
fn same(view: View<'_>, value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Null => view.is_null(),
        Value::Bool(bool) => view.as_bool() == Some(*bool),
        Value::String(text) => view.as_str().as_deref() == Some(text),
        Value::Array(items) => {
            view.len() == items.len() && view.items().zip(items).all(|(view, value)| same(view, value))
        }
        Value::Object(map) => {
            view.len() == map.len()
                && view
                    .entries()
                    .zip(map)
                    .all(|((key, view), (name, value))| key == *name && same(view, value))
                && map.iter().all(|(name, value)| view.get(name).is_some_and(|view| same(view, value)))
        }
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => view.as_i64() == Some(integer),
            (_, Some(integer)) => view.as_u64() == Some(integer),
            // Without `float_roundtrip` serde_json may miss the nearest double by one step.
            _ => number
                .as_f64()
                .zip(view.as_f64())
                .is_some_and(|(theirs, ours)| (theirs - ours).abs() <= ours.abs() * f64::EPSILON),
        },
    }
}
