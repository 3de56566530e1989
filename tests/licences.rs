//! Every dependency's licence allows what ours does.

use std::{collections::BTreeMap, process::Command};

/// Licences that ask for no more than a notice.
const PERMISSIVE: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "0BSD",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    // Of lists of certificates: data, not code.
    "CDLA-Permissive-2.0",
    "CC0-1.0",
];

#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

/// An SPDX expression with `OR`, `AND`, `/` and parentheses, no deeper than crates use it.
fn permissive(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    split_top(&expression, " AND ").iter().all(|all| {
        split_top(all, " OR ").iter().any(|one| {
            let one = one.trim();
            match one.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
                Some(inner) => permissive(inner),
                None => PERMISSIVE.contains(&one),
            }
        })
    })
}

/// Splits outside parentheses.
fn split_top<'a>(text: &'a str, by: &str) -> Vec<&'a str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= start && text[at..].starts_with(by) => {
                parts.push(&text[start..at]);
                start = at + by.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[test]
fn every_dependency_is_permissively_licensed() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("cargo's own format");
    assert!(metadata.packages.len() > 50, "the whole graph was read");
    let refused: BTreeMap<String, String> = metadata
        .packages
        .into_iter()
        .map(|p| (format!("{} {}", p.name, p.version), p.license.unwrap_or_else(|| "none".into())))
        .filter(|(_, licence)| !permissive(licence))
        .collect();
    assert!(refused.is_empty(), "not permissive: {refused:#?}");
}

#[test]
fn expressions_are_read_as_written() {
    assert!(permissive("MIT OR Apache-2.0"));
    assert!(permissive("MIT/GPL-3.0"));
    assert!(permissive("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!permissive("GPL-3.0"));
    assert!(!permissive("MIT AND GPL-3.0"));
    assert!(!permissive("(MIT AND GPL-3.0) OR LGPL-2.1"));
    assert!(!permissive("none"));
}
