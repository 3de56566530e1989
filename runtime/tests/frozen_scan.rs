//! What the strict scan refuses, where it says so, and what survives it.

use portcullis_runtime::frozen::{Frozen, Kind, MAX_BYTES, MAX_DEPTH, Place, Refused, Replaced, Why};

fn refused(text: &str) -> Refused {
    Frozen::parse(text).expect_err(text)
}

fn at(refused: &Refused) -> (&str, usize) {
    (&refused.path, refused.at.offset)
}

// C-ID-2: text that is not one JSON object.
#[test]
fn arguments_are_one_object() {
    for (text, found) in [
        ("[]", Kind::Array),
        ("\"{}\"", Kind::String),
        ("1", Kind::Number),
        ("true", Kind::Bool),
        (" null ", Kind::Null),
    ] {
        let refused = Frozen::arguments(text).unwrap_err();
        assert_eq!(refused.why, Why::NotAnObject { found }, "{text}");
        assert_eq!(at(&refused), ("$", text.len() - text.trim_start().len()));
        assert!(Frozen::parse(text).is_ok());
    }
    assert!(matches!(Frozen::arguments("{} {}").unwrap_err().why, Why::Syntax { .. }));
    assert!(matches!(Frozen::arguments("{").unwrap_err().why, Why::Syntax { .. }));
}

// C-ID-2: empty text is `{}`.
#[test]
fn empty_arguments_are_an_empty_object() {
    for text in ["", " ", "\r\n\t "] {
        assert_eq!(Frozen::arguments(text).unwrap().text(), "{}");
        assert!(Frozen::parse(text).is_err(), "only arguments may be left out");
    }
    assert!(Frozen::arguments("\u{a0}").is_err(), "only JSON's own whitespace");
}

// C-ID-2: RFC 8259, and nothing a lenient parser would let through.
#[test]
fn what_is_not_json_is_refused_at_its_place() {
    for (text, path, offset) in [
        ("\u{feff}{}", "$", 0),
        ("{\"a\":1,}", "$", 7),
        ("[1,]", "$", 3),
        ("[1 2]", "$", 3),
        ("[,1]", "$[0]", 1),
        ("{\"a\" 1}", "$", 5),
        ("{a:1}", "$", 1),
        ("{'a':1}", "$", 1),
        ("{\"a\":}", "$.a", 5),
        ("{\"a\":{\"b\":[0,01]}}", "$.a.b[1]", 13),
        ("[-]", "$[0]", 2),
        ("[1.]", "$[0]", 3),
        ("[.5]", "$[0]", 1),
        ("[1e]", "$[0]", 3),
        ("[1e+]", "$[0]", 4),
        ("[+1]", "$[0]", 1),
        ("[0x1]", "$", 2),
        ("[NaN]", "$[0]", 1),
        ("[Infinity]", "$[0]", 1),
        ("[nul]", "$[0]", 1),
        ("[True]", "$[0]", 1),
        ("[1] // no", "$", 4),
        ("[/* no */1]", "$[0]", 1),
        ("{} {}", "$", 3),
        ("[\"a\nb\"]", "$[0]", 3),
        ("[\"\u{0}\"]", "$[0]", 2),
        ("[\"\\x41\"]", "$[0]", 2),
        ("[\"\\u00g0\"]", "$[0]", 2),
        ("[\"\\u00\"]", "$[0]", 2),
        ("[\"\\u+041\"]", "$[0]", 2),
        ("[\"open", "$[0]", 6),
        ("[\"open\\", "$[0]", 6),
        ("{\"a\":[1,{\"b\":2", "$.a[1]", 14),
        ("", "$", 0),
        ("\u{a0}1", "$", 0),
        ("\u{b}1", "$", 0),
    ] {
        let refused = refused(text);
        assert!(matches!(refused.why, Why::Syntax { .. }), "{text}: {refused}");
        assert_eq!(at(&refused), (path, offset), "{text}: {refused}");
    }
}

// C-ID-2: every control character below U+0020, and none above.
#[test]
fn control_characters_in_strings_are_escaped() {
    for code in 0..0x20u8 {
        let refused = refused(&format!("[\"a{}\"]", char::from(code)));
        assert_eq!((at(&refused), refused.why.code()), (("$[0]", 3), "json_syntax"), "{code}");
        let escaped = Frozen::parse(format!("\"\\u{code:04x}\"")).unwrap();
        assert_eq!(escaped.root().as_str().as_deref(), Some(char::from(code).to_string().as_str()));
        let printed = Frozen::parse(escaped.compact()).unwrap();
        assert_eq!(printed.root().as_str(), escaped.root().as_str());
    }
    for fine in ["\"\u{20}\"", "\"\u{7f}\"", "\"\u{80}\"", "\"\u{2028}\""] {
        assert_eq!(Frozen::parse(fine).unwrap().compact(), fine);
    }
}

// C-ID-2: duplicate keys, compared after unescaping.
#[test]
fn duplicate_keys_are_refused() {
    for (text, path, offset) in [
        (r#"{"a":1,"a":1}"#, "$.a", 7),
        (r#"{"a":1,"\u0061":2}"#, "$.a", 7),
        (r#"{"\u0061":1,"\u0061":2}"#, "$.a", 12),
        (r#"{"😀":1,"\ud83d\ude00":2}"#, r#"$["😀"]"#, 10),
        (r#"{"":1,"":2}"#, r#"$[""]"#, 6),
        (r#"{"x":[{"k":0},{"k":{"\/":1,"/":2}}]}"#, r#"$.x[1].k["/"]"#, 27),
    ] {
        let refused = refused(text);
        assert!(matches!(refused.why, Why::DuplicateKey { .. }), "{text}: {refused}");
        assert_eq!(at(&refused), (path, offset), "{text}");
    }
    // Equal keys of different objects are different keys, and case counts.
    let fine = r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}],"A":0,"a ":0}"#;
    assert_eq!(Frozen::parse(fine).unwrap().text(), fine);
}

// C-ID-2: large objects hash their keys; the switch to hashing must not lose any.
#[test]
fn duplicate_keys_are_found_at_any_distance() {
    for count in 1..40 {
        let keys: Vec<String> = (0..count).map(|i| format!("\"k{i}\":{{\"k\":{i}}}")).collect();
        let fine = format!("{{{}}}", keys.join(","));
        assert_eq!(Frozen::parse(fine.as_str()).unwrap().root().len(), count);
        for repeat in 0..count {
            for spelled in [format!("k{repeat}"), format!("\\u006b{repeat}")] {
                let text = format!("{{{},\"{spelled}\":0}}", keys.join(","));
                let refused = refused(&text);
                assert_eq!(refused.why, Why::DuplicateKey { key: format!("k{repeat}") });
                assert_eq!(at(&refused), (format!("$.k{repeat}").as_str(), fine.len()));
            }
        }
    }
}

#[test]
fn a_hundred_thousand_keys_take_one_pass() {
    // Comparing each key with all others would be five thousand million comparisons.
    let keys: Vec<String> = (0..100_000).map(|i| format!("\"{i:06}\":0")).collect();
    let frozen = Frozen::parse(format!("{{{}}}", keys.join(","))).unwrap();
    assert_eq!(frozen.root().len(), 100_000);
}

// C-ID-2: a literal with fraction or exponent that overflows a double.
#[test]
fn literals_beyond_a_double_are_refused() {
    let long = format!("1{}.0", "0".repeat(400));
    for literal in ["1e309", "-1e309", "1E+400", "1.8e308", "0.1e400", &long, "1e99999999999999999999"] {
        let refused = refused(&format!("{{\"n\":[0,{literal}]}}"));
        assert!(matches!(refused.why, Why::NumberRange { .. }), "{literal}: {refused}");
        assert_eq!(at(&refused), ("$.n[1]", 8));
    }
    for literal in ["1.7976931348623157e308", "1e-999", "0e999", "0.0e400", "-0.0"] {
        assert_eq!(Frozen::parse(literal).unwrap().text(), literal);
    }
}

// C-ID-2: lone surrogates.
#[test]
fn lone_surrogates_are_refused() {
    for (text, path, offset) in [
        (r#"{"a":"x\ud800"}"#, "$.a", 7),
        (r#"["\udc00"]"#, "$[0]", 2),
        (r#"["\udbff\ud800"]"#, "$[0]", 2),
        (r#"["\ud800\u0041"]"#, "$[0]", 2),
        (r#"["\ud800\n"]"#, "$[0]", 2),
        (r#"["\ud83d\ude00\ude00"]"#, "$[0]", 14),
        (r#"{"a":{"\uDFFF":1}}"#, "$.a", 7),
    ] {
        let refused = refused(text);
        assert_eq!(refused.why, Why::LoneSurrogate, "{text}: {refused}");
        assert_eq!(at(&refused), (path, offset), "{text}");
    }
    assert_eq!(Frozen::parse(r#""\ud83d\uDE00""#).unwrap().root().as_str().as_deref(), Some("😀"));
    // An escaped backslash before a `u` starts no escape.
    assert_eq!(Frozen::parse(r#""\\ud800""#).unwrap().root().as_str().as_deref(), Some(r"\ud800"));
}

fn nested(levels: usize, inner: &str) -> String {
    let mut text = String::new();
    for level in 0..levels {
        text.push_str(if level % 2 == 0 { "[" } else { "{\"a\":" });
    }
    text.push_str(inner);
    for level in (0..levels).rev() {
        text.push(if level % 2 == 0 { ']' } else { '}' });
    }
    text
}

// C-ID-2: nesting over 512.
#[test]
fn nesting_is_limited() {
    assert_eq!(MAX_DEPTH, 512);
    let deepest = Frozen::parse(nested(512, "1")).unwrap();
    assert_eq!(deepest.compact(), deepest.text());
    assert_eq!(deepest.javascript(), deepest.text());
    assert_eq!(deepest.root().to_schema_value().to_string(), deepest.text());
    let refused = refused(&nested(513, "1"));
    assert_eq!(refused.why, Why::Depth);
    assert_eq!(refused.at.offset, 256 * "[{\"a\":".len());
    assert!(refused.path.starts_with("$[0].a[0].a") && refused.path.contains('…'), "{}", refused.path);
    assert!(refused.path.len() < 200, "a refusal stays readable");
    // A hostile text fails at the limit and not at the end of the stack.
    assert_eq!(Frozen::parse("[".repeat(1_000_000)).unwrap_err().why, Why::Depth);
    assert_eq!(Frozen::parse("{\"a\":".repeat(1_000_000)).unwrap_err().why, Why::Depth);
}

// C-ID-2: size over 8 MiB.
#[test]
fn size_is_limited() {
    assert_eq!(MAX_BYTES, 8 * 1024 * 1024);
    let filled = |len: usize| format!("\"{}\"", "x".repeat(len - 2));
    assert_eq!(Frozen::parse(filled(MAX_BYTES)).unwrap().text().len(), MAX_BYTES);
    for outcome in [
        Frozen::parse(filled(MAX_BYTES + 1)),
        Frozen::arguments(filled(MAX_BYTES + 1)),
        Frozen::from_result(filled(MAX_BYTES + 1)).map(|(frozen, _)| frozen),
        Frozen::of(&"x".repeat(MAX_BYTES - 1)),
    ] {
        assert_eq!(outcome.unwrap_err().why, Why::Size { bytes: MAX_BYTES + 1 });
    }
}

// C-ID-2: integers of any size, `-0` and key order survive, and so does every byte.
#[test]
fn what_is_accepted_is_kept_exactly() {
    let huge = "9".repeat(1000);
    for text in [
        r#"{"z":1,"10":2,"a":3,"2":4}"#,
        " {\t\"a\" :\r\n1 } ",
        "-0",
        "[-0,0,-0.0,1.0,1.00,1E5,1e+5]",
        "9007199254740993",
        "123456789012345678901234567890",
        &huge,
        r#""\u0061\/\u00e9""#,
        "\"\u{2028}\u{7f}é😀\"",
        "{}",
        "[]",
        "\"\"",
    ] {
        let frozen = Frozen::parse(text).unwrap();
        assert_eq!(frozen.text(), text);
        assert_eq!(frozen.clone().text(), text);
        assert_eq!(frozen.root().text(), text.trim());
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            assert_eq!(frozen.root().number_text(), Some(text));
        }
    }
    let frozen = Frozen::parse(r#"{"z":1,"10":2,"a":3,"2":4}"#).unwrap();
    let keys: Vec<_> = frozen.root().entries().map(|(key, _)| key.into_owned()).collect();
    assert_eq!(keys, ["z", "10", "a", "2"]);
}

// C-ID-2: in results lone surrogates are replaced and marked, since the body has already run.
#[test]
fn results_replace_lone_surrogates() {
    for (text, kept, count) in [
        (
            r#"{"a":"x\ud800y","b":["\udc00\ud800"]}"#,
            "{\"a\":\"x\u{fffd}y\",\"b\":[\"\u{fffd}\u{fffd}\"]}",
            3,
        ),
        (r#""\ud83d\ud83d\ude00""#, "\"\u{fffd}\\ud83d\\ude00\"", 1),
        (r#""\\\ud800\\ud800""#, "\"\\\\\u{fffd}\\\\ud800\"", 1),
        (r#"{"\ud800":1}"#, "{\"\u{fffd}\":1}", 1),
        (r#" "\ud83d\ude00 \u0041" "#, r#" "\ud83d\ude00 \u0041" "#, 0),
    ] {
        let (frozen, replaced) = Frozen::from_result(text).unwrap();
        assert_eq!((frozen.text(), replaced), (kept, Replaced { count }), "{text}");
        assert_eq!(replaced.any(), count > 0);
    }
}

// C-ID-2: everything else is refused in results too, at its place in what the tool returned.
#[test]
fn results_are_otherwise_strict() {
    for (text, path, offset, code) in [
        (r#"["\ud800", 01]"#, "$[1]", 11, "json_syntax"),
        (r#"["\ud800""#, "$", 9, "json_syntax"),
        (r#"{"\ud800":0,"\ud801":{}}"#, "$[\"\u{fffd}\"]", 12, "json_duplicate_key"),
        (r#"["\udc00", 1e400]"#, "$[1]", 11, "json_number_range"),
        (r#"["\udc00\uzzzz"]"#, "$[0]", 8, "json_syntax"),
        (r#"[1, 1e400, "\ud800"]"#, "$[1]", 4, "json_number_range"),
        (r#"["\ud800"]\"#, "$", 10, "json_syntax"),
    ] {
        let refused = Frozen::from_result(text).unwrap_err();
        assert_eq!((at(&refused), refused.why.code()), ((path, offset), code), "{text}: {refused}");
    }
}

#[test]
fn a_refusal_is_a_sentence_with_a_path_and_a_place() {
    let refused = refused("{\n  \"é\": {\"odd key\": [1,\n   2, \"é\\ud800\"]}}");
    assert_eq!(
        refused.to_string(),
        "$[\"é\"][\"odd key\"][2] (line 3, column 9): an escape is half of a surrogate pair and stands for no character"
    );
    assert_eq!(refused.at, Place { offset: 35, line: 3, column: 9 });
    let long = format!("{{\"{0}\":1,\"{0}\":2}}", "k".repeat(100_000));
    assert!(
        Frozen::parse(long).unwrap_err().to_string().len() < 400,
        "a refusal quotes only the start of a key"
    );
    let long = format!("[1{}e999999]", "0".repeat(100_000));
    assert!(Frozen::parse(long).unwrap_err().to_string().len() < 400);
}

// C-ID-1: equality, hash and digest are those of the exact text, whichever clone is asked.
#[test]
fn identity_is_the_text() {
    let (one, same, other) = (
        Frozen::parse("{\"a\":1}").unwrap(),
        Frozen::parse("{\"a\":1}").unwrap(),
        Frozen::parse("{\"a\": 1}").unwrap(),
    );
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert_eq!(std::collections::HashSet::from([one.clone(), same, other.clone()]).len(), 2);
    let hex: String = one.clone().sha256().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862");
    assert_eq!(one.sha256(), one.clone().sha256());
    assert_ne!(one.sha256(), other.sha256());
    assert_eq!(format!("{one:?}"), "Frozen({\"a\":1})");
    assert!(format!("{:?}", Frozen::of(&"x".repeat(10_000)).unwrap()).len() < 200);
}

// C-ID-1: a value and its view cross threads; the lazy parts are made once whoever comes first.
#[test]
fn a_value_is_shared_between_threads() {
    fn shareable<T: Send + Sync + Clone + 'static>() {}
    shareable::<Frozen>();
    let frozen = Frozen::parse(r#"{"a":[1,2,{"b":"\u0063"}]}"#).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let frozen = frozen.clone();
            std::thread::spawn(move || {
                (
                    frozen
                        .root()
                        .get("a")
                        .unwrap()
                        .at(2)
                        .unwrap()
                        .get("b")
                        .unwrap()
                        .as_str()
                        .unwrap()
                        .into_owned(),
                    frozen.sha256(),
                )
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), ("c".to_owned(), frozen.sha256()));
    }
}
