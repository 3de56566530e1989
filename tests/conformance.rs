//! docs/conformance.md says what is shown by which test: each named test exists, each number is there, once.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// The lines with letters behind their number, and up to which letter.
const LETTERED: [(u32, char); 2] = [(101, 'd'), (159, 'd')];

/// The last number.
const LINES: u32 = 255;

struct Line<'p> {
    number: &'p str,
    status: &'p str,
    why: &'p str,
}

fn lines(page: &str) -> Vec<Line<'_>> {
    page.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
            let number = cells[0];
            number.starts_with(|c: char| c.is_ascii_digit()).then(|| match cells[..] {
                [number, _, status, why] => Line { number, status, why },
                _ => panic!("four cells, please: {line}"),
            })
        })
        .collect()
}

/// What stands in backticks and looks like a test's name.
fn named(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"))
}

/// A function of this name with a test's attribute above it.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let starts = [format!("fn {name}("), format!("async fn {name}(")];
    lines.iter().enumerate().any(|(at, line)| {
        starts.iter().any(|start| line.starts_with(start.as_str()))
            && lines[..at]
                .iter()
                .rev()
                .take_while(|above| above.starts_with("#["))
                .any(|above| above.starts_with("#[test]") || above.starts_with("#[tokio::test"))
    })
}

#[test]
fn every_line_has_a_place_and_every_named_test_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = include_str!("../docs/conformance.md");
    let lines = lines(page);

    let mut expected = Vec::new();
    for number in 1..=LINES {
        expected.push(number.to_string());
        for (_, last) in LETTERED.iter().filter(|(with, _)| *with == number) {
            expected.extend(('a'..=*last).map(|letter| format!("{number}{letter}")));
        }
    }
    assert_eq!(
        lines.iter().map(|line| line.number).collect::<Vec<_>>(),
        expected,
        "each number once, in order"
    );

    let mut sources: HashMap<&str, String> = HashMap::new();
    let mut missing = Vec::new();
    for (file, test) in named(page) {
        let source = sources.entry(file).or_insert_with(|| {
            std::fs::read_to_string(root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
        });
        if !has_test(source, test) {
            missing.push(format!("{file}::{test}"));
        }
    }
    assert!(missing.is_empty(), "these tests are named and do not exist: {missing:?}");

    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for Line { number, status, why } in &lines {
        *counts.entry(status).or_default() += 1;
        match *status {
            "met" => assert!(named(why).count() > 0, "{number}: met says by which test"),
            "changed" => assert!(!why.starts_with('`') && !why.is_empty(), "{number}: changed says why"),
            "not yet" => {
                let issues = ["issue 3", "issue 4", "issue 5", "issue 6", "later"];
                assert!(
                    issues.iter().any(|issue| why.starts_with(issue)),
                    "{number}: not yet says whose matter it is"
                );
            }
            other => panic!("{number}: `{other}` is no status"),
        }
    }
    println!("{} lines: {counts:?}", lines.len());
    let says = format!(
        "Of {} lines {} are met, {} changed, {} not yet.",
        lines.len(),
        counts["met"],
        counts["changed"],
        counts["not yet"]
    );
    assert!(page.contains(&says), "the page needs this sentence: {says}");
}

#[test]
fn a_test_is_told_from_a_function() {
    let source =
        "#[test]\nfn one() {}\nfn two() {}\n#[tokio::test(flavor = \"x\")]\n#[ignore]\nasync fn three() {}\n";
    let found = ["one", "two", "three", "four"].map(|name| has_test(source, name));
    assert_eq!(found, [true, false, true, false]);
}
