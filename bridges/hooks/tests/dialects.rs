//! `docs/adding-a-dialect.md`, held against the code: what it calls shared is there once, what it calls a dialect's is all that one
//! has, and every function it names is one of the trait.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const PAGE: &str = include_str!("../../../docs/adding-a-dialect.md");
const TRAIT: &str = include_str!("../src/dialect.rs");

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The modules of a folder, `mod.rs` and tests left out.
fn modules(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.map(|name| name.strip_suffix(".rs").unwrap_or(&name).to_owned());
    names.filter(|name| !matches!(&**name, "lib" | "mod" | "tests")).collect()
}

/// The names in backticks in the first column of a table below a heading.
fn column(heading: &str) -> BTreeSet<String> {
    let part = PAGE.split("\n## ").find(|part| part.starts_with(heading)).unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| ticked(row.split('|').nth(1).unwrap())).collect()
}

fn ticked(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn dialects() -> Vec<PathBuf> {
    let all = fs::read_dir(source()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.join("mod.rs").is_file() && path.join("mapping.rs").is_file()).collect()
}

#[test]
fn what_is_shared_is_listed_and_exists_once() {
    let dialects: BTreeSet<String> =
        dialects().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(dialects.len(), 2, "{dialects:?}");
    let shared: BTreeSet<String> =
        modules(&source()).into_iter().filter(|name| !dialects.contains(name)).collect();
    assert_eq!(column("What is shared"), shared);
}

#[test]
fn a_dialect_has_five_parts_and_no_more() {
    let parts = column("What a dialect has");
    assert_eq!(parts.len(), 5);
    for dialect in dialects() {
        assert_eq!(modules(&dialect), parts, "{}", dialect.display());
        // What one has, the other does not reach for: whatever both need is shared.
        let others: Vec<_> = dialects().into_iter().filter(|other| *other != dialect).collect();
        for other in others {
            let name = format!("{}::", other.file_name().unwrap().to_str().unwrap());
            for file in files(&dialect) {
                let text = fs::read_to_string(&file).unwrap();
                assert!(!text.contains(&name), "{} reaches for {name}", file.display());
            }
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

#[test]
fn the_functions_that_it_names_are_those_of_the_trait() {
    let part = PAGE.split("\n## ").find(|part| part.starts_with("What a dialect has")).unwrap();
    let asked = part.split("The engine asks a dialect in this order").nth(1).unwrap();
    let named: Vec<String> = ticked(asked);
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        let there = TRAIT.contains(&format!("fn {name}(")) || TRAIT.contains(&format!("fn {name}<"));
        assert!(there, "there is no `{name}` in the trait");
    }
    for constant in ["NAMES", "ALL"] {
        assert!(TRAIT.contains(&format!("const {constant}: ")) && PAGE.contains(&format!("`{constant}`")));
    }
}
