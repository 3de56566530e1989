//! Properties of sealed values over generated trees.

use portcullis_runtime::frozen::{Frozen, Json, View};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Tree {
    Leaf(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Leaf("null".into())),
        any::<bool>().prop_map(|value| Tree::Leaf(value.to_string())),
        "-?(0|[1-9][0-9]{0,30})".prop_map(Tree::Leaf),
        "-?(0|[1-9][0-9]{0,5})\\.[0-9]{1,6}([eE][+-]?[0-9]{1,2})?".prop_map(Tree::Leaf),
        any::<String>().prop_map(Tree::Text),
    ];
    leaf.prop_recursive(5, 60, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::List),
            prop::collection::vec(("[a-c0-9\u{e9}\"\\\\]{0,3}", inner), 0..12).prop_map(|mut entries| {
                let mut seen = std::collections::HashSet::new();
                entries.retain(|(key, _)| seen.insert(key.clone()));
                Tree::Map(entries)
            }),
        ]
    })
}

/// Writes a tree with chosen whitespace and, if `escape`, every character escaped.
fn write(tree: &Tree, space: &str, escape: bool, out: &mut String) {
    let string = |text: &str, out: &mut String| {
        out.push('"');
        for c in text.chars() {
            if escape || c < ' ' || c == '"' || c == '\\' {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
            } else {
                out.push(c);
            }
        }
        out.push('"');
    };
    out.push_str(space);
    match tree {
        Tree::Leaf(text) => out.push_str(text),
        Tree::Text(text) => string(text, out),
        Tree::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                write(item, space, escape, out);
            }
            out.push_str(space);
            out.push(']');
        }
        Tree::Map(entries) => {
            out.push('{');
            for (i, (key, value)) in entries.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                out.push_str(space);
                string(key, out);
                out.push_str(space);
                out.push(':');
                write(value, space, escape, out);
            }
            out.push_str(space);
            out.push('}');
        }
    }
    out.push_str(space);
}

fn shows(view: View<'_>, tree: &Tree) -> bool {
    match tree {
        Tree::Leaf(text) => view.text() == text,
        Tree::Text(text) => view.as_str().as_deref() == Some(text),
        Tree::List(items) => {
            view.len() == items.len() && view.items().zip(items).all(|(view, item)| shows(view, item))
        }
        Tree::Map(entries) => {
            view.len() == entries.len()
                && view
                    .entries()
                    .zip(entries)
                    .all(|((key, view), (name, value))| key == *name && shows(view, value))
                && entries.iter().all(|(name, value)| view.get(name).is_some_and(|view| shows(view, value)))
        }
    }
}

proptest! {
    // C-ID-2: whatever the spelling, the view shows the value and every projection keeps it.
    #[test]
    fn a_value_is_the_same_however_it_is_written(tree in tree(), space in "[ \n\r\t]{0,2}", escape: bool) {
        let mut text = String::new();
        write(&tree, &space, escape, &mut text);
        let frozen = Frozen::parse(text.as_str()).unwrap();
        prop_assert_eq!(frozen.text(), &text);
        prop_assert!(shows(frozen.root(), &tree));

        let compact = Frozen::parse(frozen.compact()).unwrap();
        prop_assert!(shows(compact.root(), &tree));
        prop_assert_eq!(compact.compact(), compact.text());
        prop_assert_eq!(&Json::from(frozen.clone()), &Json::from(compact));

        let javascript = Frozen::parse(frozen.javascript()).unwrap();
        prop_assert_eq!(javascript.javascript(), javascript.text());
        let strict = Frozen::parse(frozen.javascript_exact()).unwrap();
        prop_assert_eq!(strict.javascript_exact(), strict.text());
        prop_assert_eq!(strict.javascript(), javascript.text());

        let json: Json = frozen.decode().unwrap();
        prop_assert_eq!(json.root().text(), frozen.root().text());
        let sealed = Frozen::of(&json).unwrap();
        prop_assert_eq!(sealed.text(), frozen.root().text());
    }

    // C-ID-2: no text makes the scan panic or point outside of it.
    #[test]
    fn any_text_is_accepted_or_refused(text in "[\\[\\]{}\",:0-9a-f\\\\u.eE+\\- \u{e9}]{0,40}") {
        if let Err(refused) = Frozen::parse(text.as_str()) {
            prop_assert!(refused.at.offset <= text.len());
            prop_assert!(refused.path.starts_with('$'));
        }
        prop_assert_eq!(Frozen::parse(text.as_str()).is_ok(), serde_like(&text));
    }
}

/// Results differ from arguments in lone surrogates only, so the two agree wherever there is none.
fn serde_like(text: &str) -> bool {
    match Frozen::from_result(text) {
        Ok((_, replaced)) => !replaced.any(),
        Err(_) => false,
    }
}
