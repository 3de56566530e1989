//! Into and out of Rust types: exact or refused, with the path of the value that does not fit.

use std::collections::BTreeMap;

use portcullis_runtime::frozen::{Frozen, Json, Refused, Why, exact, exact_option};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, Refused> {
    Frozen::parse(text).expect(text).decode()
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    path: String,
    line: Option<u32>,
    #[serde(default)]
    mode: Mode,
    ratio: f64,
    pair: (u8, char),
}

#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Append,
    Exactly(u64),
    Between(u8, u8),
    Named {
        name: String,
    },
}

#[test]
fn a_type_is_read_from_the_view() {
    let text = r#"{"path":"\u0061/b","line":null,"mode":{"named":{"name":"x"}},"ratio":1,"pair":[7,"é"]}"#;
    let edit: Edit = decode(text).unwrap();
    let mode = Mode::Named { name: "x".into() };
    assert_eq!(edit, Edit { path: "a/b".into(), line: None, mode, ratio: 1.0, pair: (7, 'é') });
    assert_eq!(
        decode::<Vec<Mode>>(r#"["append",{"exactly":3},{"between":[1,2]},{"append":null}]"#).unwrap(),
        [Mode::Append, Mode::Exactly(3), Mode::Between(1, 2), Mode::Append]
    );
    // Ignored parts cost nothing and cannot fail.
    assert_eq!(decode::<Sparse>(&format!(r#"{{"skip":[{}],"keep":1}}"#, "9".repeat(500))).unwrap().keep, 1);
}

#[derive(Deserialize)]
struct Sparse {
    keep: u8,
}

// C-ID-2: path-qualified errors.
#[test]
fn a_refusal_names_the_value() {
    for (rest, path, place, message) in [
        (r#""ratio":"x","pair":[1,"a"]"#, "$[0].ratio", "\"x\"", r#"invalid type: string "x", expected f64"#),
        (r#""ratio":1,"pair":[300,"a"]"#, "$[0].pair[0]", "300", "invalid value: integer `300`, expected u8"),
        (r#""ratio":1,"pair":[1,"a",2]"#, "$[0].pair", "[1,", "1 items more than expected"),
        (r#""ratio":1"#, "$[0]", "{\"path\"", "missing field `pair`"),
        (r#""line":-1"#, "$[0].line", "-1", "invalid value: integer `-1`, expected u32"),
        (r#""line":1.5"#, "$[0].line", "1.5", "invalid type: floating point `1.5`, expected u32"),
        (r#""line":true"#, "$[0].line", "true", "invalid type: boolean `true`, expected u32"),
        (r#""odd one":1"#, r#"$[0]["odd one"]"#, "\"odd", "unknown field `odd one`"),
        (
            r#""mode":{"exactly":"x"}"#,
            "$[0].mode.exactly",
            "\"x\"",
            r#"invalid type: string "x", expected u64"#,
        ),
        (
            r#""mode":{"between":{}}"#,
            "$[0].mode.between",
            "{}",
            "the variant `between` needs an array, not an object",
        ),
        (r#""mode":{"append":1}"#, "$[0].mode.append", "1", "the variant `append` needs null, not a number"),
        (r#""mode":"exactly""#, "$[0].mode", "\"exactly\"", "the variant `exactly` needs a value"),
        (r#""mode":"never""#, "$[0].mode", "\"never\"", "unknown variant `never`"),
        (r#""mode":{}"#, "$[0].mode", "{}", "an object with exactly one key"),
    ] {
        let text = format!(r#"[{{"path":"p",{rest}}}]"#);
        let refused = decode::<Vec<Edit>>(&text).unwrap_err();
        assert!(
            matches!(&refused.why, Why::Shape { message: found } if found.starts_with(message)),
            "{refused}"
        );
        assert_eq!(refused.path, path, "{refused}");
        assert!(text[refused.at.offset..].starts_with(place), "{refused}");
    }
    for (text, found) in [("[]", "sequence"), (" null", "null"), ("1", "a number"), ("\"x\"", "string \"x\"")]
    {
        let refused = decode::<Edit>(text).unwrap_err();
        let message = format!("invalid type: {found}, expected struct Edit");
        assert_eq!((refused.path.as_str(), refused.at.offset), ("$", text.len() - text.trim_start().len()));
        assert_eq!(refused.why, Why::Shape { message });
    }
}

// C-ID-2: integers are exact in typed fields or refused.
#[test]
fn integers_are_exact_or_refused() {
    assert_eq!(decode::<u64>("18446744073709551615").unwrap(), u64::MAX);
    assert_eq!(decode::<i64>("-9223372036854775808").unwrap(), i64::MIN);
    assert_eq!(decode::<i128>("-170141183460469231731687303715884105728").unwrap(), i128::MIN);
    assert_eq!(decode::<u128>("340282366920938463463374607431768211455").unwrap(), u128::MAX);
    assert_eq!(decode::<i64>("9007199254740993.0").unwrap(), 9_007_199_254_740_993);
    assert_eq!(decode::<(i8, u8, u8, u128)>("[-0,1.0,2e1,-0]").unwrap(), (0, 1, 20, 0));
    for text in
        ["18446744073709551616", "-1", "340282366920938463463374607431768211456", "0.1", "1e30", "1e300"]
    {
        let refused = decode::<BTreeMap<String, u64>>(&format!("{{\"n\":{text}}}")).unwrap_err();
        assert_eq!((refused.path.as_str(), refused.why.code()), ("$.n", "json_shape"), "{text}");
    }
    assert!(decode::<u128>("340282366920938463463374607431768211456").is_err());
    assert!(decode::<i128>("170141183460469231731687303715884105728").is_err());
}

#[test]
fn doubles_are_the_nearest_or_refused() {
    assert_eq!(decode::<f64>("9007199254740993").unwrap(), 9_007_199_254_740_992.0);
    assert!(decode::<f64>("-0").unwrap().is_sign_negative());
    assert!(decode::<f64>(&"9".repeat(400)).is_err());
    assert_eq!(decode::<f32>("0.1").unwrap(), 0.1f32);
    assert!(decode::<f32>("1e300").is_err());
}

#[test]
fn views_and_types_agree_on_what_is_an_integer() {
    for text in [
        "0",
        "-0",
        "1.0",
        "1e3",
        "1.5",
        "-7",
        "18446744073709551615",
        "9223372036854775808",
        "1e19",
        "1e20",
        "\"1\"",
    ] {
        let frozen = Frozen::parse(text).unwrap();
        assert_eq!(frozen.root().as_i64(), frozen.decode::<i64>().ok(), "{text}");
        assert_eq!(frozen.root().as_u64(), frozen.decode::<u64>().ok(), "{text}");
        assert_eq!(frozen.root().as_f64(), frozen.decode::<f64>().ok(), "{text}");
    }
}

#[test]
fn maps_may_be_keyed_by_what_has_one_spelling() {
    assert_eq!(decode::<BTreeMap<i32, u8>>(r#"{"2":1,"-1":2}"#).unwrap(), BTreeMap::from([(2, 1), (-1, 2)]));
    assert_eq!(decode::<BTreeMap<bool, u8>>(r#"{"true":1}"#).unwrap(), BTreeMap::from([(true, 1)]));
    for text in [r#"{"1":1,"+1":2}"#, r#"{"01":1}"#, r#"{"x":1}"#, r#"{"":1}"#] {
        assert_eq!(decode::<BTreeMap<i32, u8>>(text).unwrap_err().why.code(), "json_shape", "{text}");
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct Flat {
    #[serde(flatten)]
    rest: BTreeMap<String, Json>,
}

// C-ID-2: where serde buffers, a number that its buffer cannot hold is refused, never rounded.
#[test]
fn buffered_numbers_are_exact_or_refused() {
    let flat: Flat = decode(r#"{"a":18446744073709551615,"b":-0,"c":1.0,"d":-5}"#).unwrap();
    let text = |key: &str| flat.rest[key].root().text().to_owned();
    assert_eq!([text("a"), text("b"), text("c"), text("d")], ["18446744073709551615", "-0.0", "1.0", "-5"]);
    assert!(decode::<Flat>(r#"{"a":18446744073709551616}"#).is_err());
}

// C-ID-2: a Json field keeps its text, in and out.
#[test]
fn json_fields_keep_their_text() {
    #[derive(Deserialize, Serialize)]
    struct Call {
        any: Json,
        maybe: Option<Json>,
    }
    let huge = "7".repeat(100);
    for part in [
        "{ \"10\" : 1.0, \"2\":\"\\u0061\" }",
        "1E5",
        "-0",
        "123456789012345678901234567890",
        &huge,
        "null",
        "[]",
    ] {
        let call: Call = decode(&format!("{{\"any\": {part} }}")).unwrap();
        assert_eq!(call.any.frozen().text(), part);
        assert!(call.maybe.is_none());
        assert_eq!(Frozen::of(&call).unwrap().text(), format!("{{\"any\":{part},\"maybe\":null}}"));
    }
}

#[test]
fn json_compares_structure() {
    let json = |text: &str| Json::parse(text).unwrap();
    assert_eq!(json(" {\"\\u0061\" : [ 1 ] } "), json("{\"a\":[1]}"));
    for (one, other) in [
        ("1", "1.0"),
        ("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"),
        ("[[],1]", "[[1]]"),
        ("[]", "{}"),
        ("\"1\"", "1"),
        ("true", "false"),
        ("[1]", "[1,1]"),
    ] {
        assert_ne!(json(one), json(other));
    }
}

// C-ID-2: other formats get the value, or an error where they could only get it wrong.
#[test]
fn json_goes_through_other_serializers_as_data() {
    let json =
        Json::parse(r#"{"b":[1,-1,1.5,null,true,"x\u0000"],"a":340282366920938463463374607431768211455}"#)
            .unwrap();
    let text = serde_json::to_string(&json).unwrap();
    assert_eq!(text, r#"{"b":[1,-1,1.5,null,true,"x\u0000"],"a":340282366920938463463374607431768211455}"#);
    assert!(serde_json::to_string(&Json::parse("9".repeat(40)).unwrap()).is_err());
    let back: Json = serde_json::from_str(r#" {"b":[1,-1,1.50,-0.0,{}],"a":{"c":"\u0041"}} "#).unwrap();
    assert_eq!(back.root().text(), r#"{"b":[1,-1,1.5,-0.0,{}],"a":{"c":"A"}}"#);
    assert!(serde_json::from_str::<Json>(r#"{"a":1,"a":2}"#).is_err(), "strict whoever parsed");
}

// C-ID-2: what is made from Rust values is as strict as what is read.
#[test]
fn values_of_types_are_sealed_or_refused() {
    let edit =
        Edit { path: "é\n".into(), line: Some(3), mode: Mode::Between(1, 2), ratio: -0.0, pair: (1, '"') };
    let frozen = Frozen::of(&edit).unwrap();
    assert_eq!(
        frozen.text(),
        r#"{"path":"é\n","line":3,"mode":{"between":[1,2]},"ratio":-0.0,"pair":[1,"\""]}"#
    );
    assert_eq!(frozen.decode::<Edit>().unwrap(), edit);
    assert_eq!(Frozen::of("x").unwrap().text(), "\"x\"");
    assert_eq!(Frozen::of(&[u128::MAX]).unwrap().text(), "[340282366920938463463374607431768211455]");
    assert_eq!(
        Frozen::of(&BTreeMap::from([(1, ((), Mode::Append)), (2, ((), Mode::Exactly(0)))])).unwrap().text(),
        r#"{"1":[null,"append"],"2":[null,{"exactly":0}]}"#
    );

    let ratio = |ratio| Edit { path: String::new(), line: None, mode: Mode::Append, ratio, pair: (0, 'a') };
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refused = Frozen::of(&BTreeMap::from([("k", [ratio(1.0), ratio(bad)])])).unwrap_err();
        assert_eq!((refused.path.as_str(), refused.why), ("$.k[1].ratio", Why::NotFinite));
    }
    assert_eq!(Frozen::of(&Some(f32::NAN)).unwrap_err().why, Why::NotFinite);
    assert_eq!(Frozen::of(&BTreeMap::from([((1, 2), 3)])).unwrap_err().why.code(), "json_shape");

    #[derive(Serialize)]
    struct Twice {
        a: u8,
        #[serde(flatten)]
        rest: BTreeMap<&'static str, u8>,
    }
    let refused = Frozen::of(&Twice { a: 1, rest: BTreeMap::from([("a", 2)]) }).unwrap_err();
    assert_eq!(refused.why, Why::DuplicateKey { key: "a".into() });

    #[derive(Serialize)]
    struct Deep(Option<Box<(Deep,)>>);
    let mut deep = Deep(None);
    for _ in 0..512 {
        deep = Deep(Some(Box::new((deep,))));
    }
    assert!(Frozen::of(&deep).is_ok());
    let deep = Deep(Some(Box::new((deep,))));
    assert_eq!(Frozen::of(&deep).unwrap_err().why, Why::Depth);
}

/// A recursive type at the depth limit, on the stack of a test thread.
#[test]
fn the_deepest_value_decodes() {
    #[derive(Deserialize)]
    struct Nest(Vec<Nest>);
    let text = format!("{}{}", "[".repeat(512), "]".repeat(512));
    let mut nest: Nest = decode(&text).unwrap();
    let mut levels = 1;
    while let Some(inner) = nest.0.pop() {
        nest = inner;
        levels += 1;
    }
    assert_eq!(levels, 512);
    let json: Json = decode(&text).unwrap();
    assert_eq!(serde_json::to_string(&json).unwrap(), text);
    let objects = format!("{}1{}", "{\"a\":".repeat(512), "}".repeat(512));
    let flat: Flat = decode(&objects).unwrap();
    assert_eq!(flat.rest["a"].root().text(), &objects[5..objects.len() - 1]);
}

/// A deserializer of another crate may have no limit of its own.
#[test]
fn a_bottomless_deserializer_is_refused() {
    struct Endless;

    impl<'de> Deserializer<'de> for Endless {
        type Error = serde::de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            visitor.visit_seq(self)
        }

        fn deserialize_newtype_struct<V: Visitor<'de>>(
            self,
            _name: &'static str,
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            visitor.visit_newtype_struct(self)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            seq tuple tuple_struct map struct enum identifier ignored_any
        }
    }

    impl<'de> SeqAccess<'de> for Endless {
        type Error = serde::de::value::Error;

        fn next_element_seed<T: DeserializeSeed<'de>>(
            &mut self,
            seed: T,
        ) -> Result<Option<T::Value>, Self::Error> {
            seed.deserialize(Endless).map(Some)
        }
    }

    let error = Json::deserialize(Endless).unwrap_err();
    assert_eq!(error.to_string(), "nested deeper than 512 levels");
}

// C-ID-2: a value for a schema check is built from our view.
#[test]
fn a_schema_check_sees_integers_as_integers() {
    let huge = format!("-{}", "9".repeat(400));
    let text = format!("[18446744073709551615,-9223372036854775808,-0,1.0,1e3,18446744073709551616,{huge}]");
    let value = Frozen::parse(text).unwrap().root().to_schema_value();
    assert_eq!(value[0].as_u64(), Some(u64::MAX));
    assert_eq!(value[1].as_i64(), Some(i64::MIN));
    assert_eq!(value[2].as_i64(), Some(0));
    assert!(value[3].is_f64() && value[4].as_f64() == Some(1000.0));
    assert_eq!(value[5].as_f64(), Some(18_446_744_073_709_551_616.0));
    assert_eq!(value[6].as_f64(), Some(f64::MIN));
    let value = Frozen::parse(r#"{"z":"\u0061","10":[true,null],"a":{}}"#).unwrap().root().to_schema_value();
    assert_eq!(value.to_string(), r#"{"z":"a","10":[true,null],"a":{}}"#);
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Line {
    #[serde(with = "exact")]
    arguments: Frozen,
    #[serde(with = "exact_option", default, skip_serializing_if = "Option::is_none")]
    report: Option<Frozen>,
}

// C-ID-2: the exact text is what is logged.
#[test]
fn exact_text_survives_a_log() {
    let exact = "{ \"a\" : 1.0,\n\"\\u0062\":-0, \"$serde_json::private::RawValue\":\"1\" }";
    for report in [None, Some(Frozen::parse(" [1E5] ").unwrap())] {
        let line = Line { arguments: Frozen::arguments(exact).unwrap(), report };
        for text in [serde_json::to_string(&line).unwrap(), Frozen::of(&line).unwrap().text().to_owned()] {
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
            assert_eq!(decode::<Line>(&text).unwrap(), line);
        }
    }
    assert_eq!(serde_json::from_str::<Line>(r#"{"arguments":"{}","report":null}"#).unwrap().report, None);
    for bad in
        [r#"{"arguments":"{\"a\":1,\"a\":2}"}"#, r#"{"arguments":{}}"#, r#"{"arguments":"{}","report":"["}"#]
    {
        assert!(serde_json::from_str::<Line>(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_part_decodes_and_seals_by_itself() {
    let frozen = Frozen::parse(r#"{"skip":0,"part":{ "name" : "x" }}"#).unwrap();
    let part = frozen.root().get("part").unwrap();
    let borrowed: BTreeMap<&str, &str> = part.decode().unwrap();
    assert_eq!(borrowed["name"], "x");
    assert_eq!(part.to_frozen().text(), r#"{ "name" : "x" }"#);
    let refused = part.decode::<BTreeMap<String, u8>>().unwrap_err();
    assert_eq!((refused.path.as_str(), refused.at.offset), ("$.name", 28));
}

#[test]
fn a_view_asked_for_what_it_is_not_says_none() {
    let frozen = Frozen::parse(r#"[{"a":1},"s",2,true,null]"#).unwrap();
    let root = frozen.root();
    for item in root.items() {
        let answers = [
            item.as_str().is_some(),
            item.number_text().is_some(),
            item.as_bool().is_some(),
            item.is_null(),
            item.get("a").is_some(),
        ];
        assert_eq!(answers.iter().filter(|yes| **yes).count(), 1, "{item:?}");
        assert!(item.at(0).is_none() && item.items().next().is_none());
    }
    assert!(root.get("a").is_none() && root.entries().next().is_none() && root.at(5).is_none());
    assert_eq!((root.len(), root.is_empty(), root.items().len()), (5, false, 5));
    assert_eq!(root.at(0).unwrap().entries().len(), 1);
}

#[test]
fn the_schema_of_a_json_field_allows_anything() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Call {
        any: Json,
    }
    let schema = Frozen::of(&schemars::schema_for!(Call)).unwrap();
    assert_eq!(
        schema.root().get("properties").and_then(|all| all.get("any")).map(|any| any.text()),
        Some("true")
    );
}
