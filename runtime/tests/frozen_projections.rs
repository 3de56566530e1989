//! The projections that hook clients read: compact (Codex) and as JavaScript prints (Claude Code). The expected texts
//! were printed by `JSON.stringify(JSON.parse(text))` of Node 20.

use portcullis_runtime::frozen::Frozen;

#[rustfmt::skip]
const JAVASCRIPT: &[(&str, &str)] = &[
    (r"1.0", r"1"),
    (r"-0", r"0"),
    (r"-0.0", r"0"),
    (r"0e5", r"0"),
    (r"1E5", r"100000"),
    (r"1e21", r"1e+21"),
    (r"1e20", r"100000000000000000000"),
    (r"123456789012345678901", r"123456789012345680000"),
    (r"12345678901234567890", r"12345678901234567000"),
    (r"9007199254740991", r"9007199254740991"),
    (r"9007199254740992", r"9007199254740992"),
    (r"9007199254740993", r"9007199254740992"),
    (r"-9007199254740993", r"-9007199254740992"),
    (r"18446744073709551616", r"18446744073709552000"),
    (r"999999999999999", r"999999999999999"),
    (r"1000000000000000", r"1000000000000000"),
    (r"1234567890123456", r"1234567890123456"),
    (r"0.1", r"0.1"),
    (r"0.10", r"0.1"),
    (r"1e-7", r"1e-7"),
    (r"0.000001", r"0.000001"),
    (r"5e-324", r"5e-324"),
    (r"1.7976931348623157e308", r"1.7976931348623157e+308"),
    (r"4.35", r"4.35"),
    (r"0.30000000000000004", r"0.30000000000000004"),
    (r"100", r"100"),
    (r"1e2", r"100"),
    (r"1.5e3", r"1500"),
    (r"1e-400", r"0"),
    (r"2.2250738585072014e-308", r"2.2250738585072014e-308"),
    (r"123e-20", r"1.23e-18"),
    (r"-1.50", r"-1.5"),
    (r#" [ 1 , { } , [ ] , "" , true , false , null ] "#, r#"[1,{},[],"",true,false,null]"#),
    (r#"{"b":1,"a":2,"10":3,"2":4,"0":5}"#, r#"{"0":5,"2":4,"10":3,"b":1,"a":2}"#),
    (r#"{"01":1,"1":2,"-1":3,"1.0":4,"4294967294":5,"4294967295":6,"4294967296":7,"+1":8,"":9," 1":10,"00":11}"#, r#"{"1":2,"4294967294":5,"01":1,"-1":3,"1.0":4,"4294967295":6,"4294967296":7,"+1":8,"":9," 1":10,"00":11}"#),
    (r#"{"z":{"b":0,"7":{"9":1,"x":2,"8":3},"3":[{"2":0,"1":0}]},"5":0}"#, r#"{"5":0,"z":{"3":[{"1":0,"2":0}],"7":{"8":3,"9":1,"x":2},"b":0}}"#),
    (r#"{"\u0032":"two","1":"one","\u0061":"a"}"#, r#"{"1":"one","2":"two","a":"a"}"#),
    (r#"{"__proto__":{"a":1},"constructor":1,"1":2}"#, r#"{"1":2,"__proto__":{"a":1},"constructor":1}"#),
    (r#""\u0041\/\b\f\n\r\t\"\\\u0001\u001f\u007f\u2028\u2029\u00e9""#, "\"A/\\b\\f\\n\\r\\t\\\"\\\\\\u0001\\u001f\u{7f}\u{2028}\u{2029}\u{e9}\""),
    ("\"\\ud83d\\ude00 \u{1f600} \\u000b \u{2028} \u{7f} \u{e9} / < > &\"", "\"\u{1f600} \u{1f600} \\u000b \u{2028} \u{7f} \u{e9} / < > &\""),
    (r#""\u000a\u0008\u0022\u005c\u0000\ufffd\uffff""#, "\"\\n\\b\\\"\\\\\\u0000\u{fffd}\u{ffff}\""),
];

fn parse(text: &str) -> Frozen {
    Frozen::parse(text).unwrap_or_else(|refused| panic!("{text}: {refused}"))
}

// C-BRIDGE-1: a payload is a projection for that dialect.
#[test]
fn javascript_prints_what_node_prints() {
    for (text, printed) in JAVASCRIPT {
        assert_eq!(parse(text).javascript(), *printed, "{text}");
    }
}

#[test]
fn an_integer_no_double_reaches_is_null_in_javascript_and_itself_in_strict() {
    let huge = format!("-1{}", "0".repeat(400));
    assert_eq!(parse(&huge).javascript(), "null");
    assert_eq!(parse(&huge).javascript_exact(), huge);
}

// C-BRIDGE-2: strict sends a hook integers beyond 2^53 exactly.
#[test]
fn strict_differs_from_javascript_in_large_integers_only() {
    for (text, strict) in [
        ("9007199254740993", "9007199254740993"),
        ("-9007199254740993", "-9007199254740993"),
        (r#"{"b":[18446744073709551616],"1":-0}"#, r#"{"1":0,"b":[18446744073709551616]}"#),
        ("-0", "0"),
        // Only integers as written: these are doubles by their form.
        ("9007199254740993.0", "9007199254740992"),
        ("123456789012345678e1", "1234567890123456800"),
    ] {
        assert_eq!(parse(text).javascript_exact(), strict, "{text}");
    }
    for (text, printed) in JAVASCRIPT {
        let has_large_integer = text
            .split(|c: char| !c.is_ascii_digit() && c != '.' && c != 'e')
            .any(|word| word.len() > 15 && word.bytes().all(|b| b.is_ascii_digit()));
        if !has_large_integer {
            assert_eq!(parse(text).javascript_exact(), *printed, "{text}");
        }
    }
}

#[test]
fn every_double_prints_as_javascript_does_at_the_switches_of_notation() {
    // ECMA-262, Number::toString: plain up to 21 digits, and down to six zeros after the point.
    for (text, printed) in [
        ("999999999999999900000.0", "999999999999999900000"),
        ("1000000000000000000000.0", "1e+21"),
        ("0.0000010", "0.000001"),
        ("0.00000010", "1e-7"),
        ("-1e-400", "0"),
    ] {
        assert_eq!(parse(text).javascript(), printed);
    }
}

// C-ID-2: source order, literals and characters survive the compact form.
#[test]
fn compact_changes_only_whitespace_and_escapes() {
    for (text, compact) in [
        (
            " { \"b\" : [ 1.0 , -0 , 1E5 ] ,\n\t\"10\":1, \"a\" : { } , \"2\" : [ ] } ",
            r#"{"b":[1.0,-0,1E5],"10":1,"a":{},"2":[]}"#,
        ),
        (r#"{"\u0061\/":"\u00e9\u001f\u0041\ud83d\ude00\b"}"#, "{\"a/\":\"é\\u001fA😀\\b\"}"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("\"a  b\u{2028}\u{7f}\"", "\"a  b\u{2028}\u{7f}\""),
    ] {
        assert_eq!(parse(text).compact(), compact);
    }
}

#[test]
fn a_part_prints_like_a_whole_and_appends() {
    let frozen = parse(r#"{"skip":0,"part":{ "b" : 1.0, "1":9007199254740993 }}"#);
    let part = frozen.root().get("part").unwrap();
    assert_eq!(part.text(), r#"{ "b" : 1.0, "1":9007199254740993 }"#);
    let mut out = String::from(">");
    part.write_compact(&mut out);
    out.push(' ');
    part.write_javascript(&mut out);
    out.push(' ');
    part.write_javascript_exact(&mut out);
    assert_eq!(
        out,
        r#">{"b":1.0,"1":9007199254740993} {"1":9007199254740992,"b":1} {"1":9007199254740993,"b":1}"#
    );
}
