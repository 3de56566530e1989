use super::*;

fn strict(text: &str) -> String {
    let mut out = String::new();
    parse(text).unwrap().write(&mut out);
    out
}

#[test]
fn reads_what_javascript_reads() {
    for (text, written) in [
        (r#" {"a" : [1, -0, 1.50, 1e5, true, false, null] } "#, r#"{"a":[1,-0,1.50,1e5,true,false,null]}"#),
        (r#"{"b":1,"a":2,"b":{"c":3}}"#, r#"{"b":{"c":3},"a":2}"#),
        (r#"{"a":1,"\u0061":2}"#, r#"{"a":2}"#),
        (r#""\ud83d\ude00 \/ \u00e9""#, "\"😀 / é\""),
        (r#""cut \ud83d""#, "\"cut \u{fffd}\""),
        (r#""\ude00\ud83d\u0041""#, "\"\u{fffd}\u{fffd}A\""),
        ("\"\u{7f}\u{2028}\"", "\"\u{7f}\u{2028}\""),
        (r#""\u0000\n\u001f""#, r#""\u0000\n\u001f""#),
        ("[]", "[]"),
        ("{}", "{}"),
    ] {
        assert_eq!(strict(text), written, "{text}");
    }
}

#[test]
fn says_what_is_wrong_and_where() {
    for (text, at, problem) in [
        ("{\n // why\n}", 3, Problem::Comment),
        ("{\"a\":1, /* b */ \"c\":2}", 8, Problem::Comment),
        ("[1,2,]", 4, Problem::TrailingComma),
        ("{\"a\":1,}", 6, Problem::TrailingComma),
        ("{\"a\":", 5, Problem::Ends),
        ("", 0, Problem::Ends),
        ("{a:1}", 1, Problem::Unexpected('a')),
        ("{} {}", 3, Problem::Unexpected('{')),
        ("\"a\nb\"", 2, Problem::Control),
        (r#""\x""#, 1, Problem::Escape),
        (r#""\u12""#, 1, Problem::Escape),
        ("01", 0, Problem::Number),
        ("1.", 0, Problem::Number),
        ("-", 0, Problem::Number),
    ] {
        assert_eq!(parse(text), Err(Fault { at, problem }), "{text}");
    }
    let deep = "[".repeat(513) + &"]".repeat(513);
    assert_eq!(parse(&deep).unwrap_err().problem, Problem::Depth);
    assert!(parse(&deep[1..1025]).is_ok());
    assert_eq!(line("a\nb\nc", 4), 3);
    for text in ["", "\n", "a\nb\n\nc", "é\n\n"] {
        let lines = Lines::of(text);
        assert!((0..=text.len() + 2).all(|at| lines.at(at) == line(text, at)), "{text:?}");
    }
}

#[test]
fn trims_like_javascript() {
    assert_eq!(trim("\u{feff} \u{a0}\r\n{}\u{2028}\u{b}"), "{}");
    assert_eq!(trim("\u{85}x"), "\u{85}x");
}

/// What is JSON and what is not is serde_json's question as much as ours; only what a value comes to is read differently.
#[test]
fn accepts_what_another_parser_accepts() {
    const SEEDS: [&str; 6] = [
        r#"{"a":[1,-0.5e+3,true,{"b":null}],"a":"\u00e9\ud83d\n"}"#,
        r#"[[],{},"",0,-1.25,1E9,false]"#,
        "{ \"k\" :\t\"v\" ,\r\n\"n\": 10 }",
        r#""\"\\\/\b\f""#,
        "-0",
        r#"{"nested":{"nested":{"nested":[1,2,[3,[4]]]}}}"#,
    ];
    const BYTES: &[u8] = b"{}[]\",:\\0123456789-+.eEtrufalsn /bdD\x01 \n";
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut sound, mut unsound) = (0, 0);
    for _ in 0..60_000 {
        let mut bytes = SEEDS[random(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..random(4) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] = BYTES[random(BYTES.len())],
                1 => bytes.insert(at, BYTES[random(BYTES.len())]),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        let ours = parse(&text);
        assert_eq!(ours.is_ok(), theirs, "{text:?}: {ours:?}");
        let Ok(node) = ours else {
            unsound += 1;
            continue;
        };
        sound += 1;
        // What is written is strict: the runtime's own scan takes it, and reading it again changes nothing.
        let mut strict = String::new();
        node.write(&mut strict);
        let out_of_range = matches!(
            portcullis_runtime::Frozen::parse(&*strict).map_err(|refused| refused.why),
            Err(portcullis_runtime::Why::NumberRange { .. })
        );
        assert!(
            out_of_range || portcullis_runtime::Frozen::parse(&*strict).is_ok(),
            "{text:?} became {strict:?}"
        );
        let mut again = String::new();
        parse(&strict).unwrap().write(&mut again);
        assert_eq!(again, strict);
    }
    assert!(sound > 10_000 && unsound > 10_000, "{sound} {unsound}");
}
