//! How results are told: a line a case, JSON, JUnit.

use super::case::Case;
use super::seen::Seen;
use serde::Serialize;
use serde_json::value::RawValue;
use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::Path,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Lines,
    Json,
}

/// What came of one case.
#[derive(Debug)]
pub(super) struct Verdict {
    /// Why it failed; nothing if it passed.
    pub(super) failures: Vec<String>,
    /// Why it was passed over; nothing if it was not.
    pub(super) skipped: Option<String>,
    pub(super) seen: Option<Seen>,
}

impl Verdict {
    /// It could not be run, so nothing was tested.
    pub(super) fn not_run(why: String) -> Verdict {
        Verdict { failures: vec![why], skipped: None, seen: None }
    }

    /// This machine lacks what it needs.
    pub(super) fn skipped(why: String) -> Verdict {
        Verdict { failures: Vec::new(), skipped: Some(why), seen: None }
    }
}

/// The results so far.
pub(super) struct Report {
    format: Format,
    /// The id of each case, and what came of it.
    results: Vec<(String, Result<(), Not>)>,
}

/// Why a case has not passed.
enum Not {
    Run(String),
    Passed(String),
}

#[derive(Serialize)]
struct Line<'r> {
    id: &'r str,
    passed: bool,
    failures: &'r [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<&'r str>,
    expected: Option<Box<RawValue>>,
    seen: &'r Option<Seen>,
}

#[derive(Serialize)]
struct Total {
    passed: usize,
    failed: usize,
    #[serde(skip_serializing_if = "is_none")]
    skipped: usize,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

impl Report {
    pub(super) fn new(format: Format) -> Report {
        Report { format, results: Vec::new() }
    }

    pub(super) fn add(&mut self, case: &Case, verdict: Verdict) {
        let result = match &verdict.skipped {
            Some(why) => Err(Not::Run(one_line(why))),
            None if verdict.failures.is_empty() => Ok(()),
            None => Err(Not::Passed(one_line(&verdict.failures.join("; ")))),
        };
        match (self.format, &result) {
            (Format::Json, _) => {
                let line = Line {
                    id: &case.id,
                    passed: result.is_ok(),
                    failures: &verdict.failures,
                    skipped: verdict.skipped.as_deref(),
                    expected: case.raw("expected").and_then(on_one_line),
                    seen: &verdict.seen,
                };
                say_json(&line);
            }
            (Format::Lines, Ok(())) => say(&format!("ok {}", case.id)),
            (Format::Lines, Err(Not::Passed(why))) => say(&format!("FAIL {} {why}", case.id)),
            (Format::Lines, Err(Not::Run(why))) => say(&format!("skip {} {why}", case.id)),
        }
        self.results.push((case.id.clone(), result));
    }

    pub(super) fn close(&self) {
        let (failed, skipped) = self.counts();
        let total = Total { passed: self.results.len() - failed - skipped, failed, skipped };
        let passed_over = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        match self.format {
            Format::Json => say_json(&total),
            Format::Lines => say(&format!("{} passed, {} failed{passed_over}", total.passed, total.failed)),
        }
    }

    /// How many failed, and how many were not run.
    fn counts(&self) -> (usize, usize) {
        let count = |wanted: fn(&Not) -> bool| {
            self.results.iter().filter(|(_, result)| result.as_ref().err().is_some_and(wanted)).count()
        };
        (count(|why| matches!(why, Not::Passed(_))), count(|why| matches!(why, Not::Run(_))))
    }

    pub(super) fn all_passed(&self) -> bool {
        self.counts().0 == 0
    }

    pub(super) fn write_junit(&self, file: &Path) -> io::Result<()> {
        let (failed, skipped) = self.counts();
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let count = self.results.len();
        // Writing to a String cannot fail.
        let _ = writeln!(xml, "<testsuites tests=\"{count}\" failures=\"{failed}\" skipped=\"{skipped}\">");
        let _ = writeln!(
            xml,
            "  <testsuite name=\"hook cases\" tests=\"{count}\" failures=\"{failed}\" skipped=\"{skipped}\">"
        );
        for (id, result) in &self.results {
            let id = escaped(id);
            let _ = match result {
                Ok(()) => writeln!(xml, "    <testcase classname=\"hooks\" name=\"{id}\"/>"),
                Err(Not::Run(why)) => writeln!(
                    xml,
                    "    <testcase classname=\"hooks\" name=\"{id}\"><skipped message=\"{}\"/></testcase>",
                    escaped(why)
                ),
                Err(Not::Passed(why)) => writeln!(
                    xml,
                    "    <testcase classname=\"hooks\" name=\"{id}\"><failure message=\"{}\"/></testcase>",
                    escaped(why)
                ),
            };
        }
        xml.push_str("  </testsuite>\n</testsuites>\n");
        fs::write(file, xml)
    }
}

fn say(line: &str) {
    // Whoever closed stdout has the exit code.
    let _ = writeln!(io::stdout(), "{line}");
}

fn say_json(line: &impl Serialize) {
    match serde_json::to_string(line) {
        Ok(line) => say(&line),
        Err(error) => eprintln!("portcullis: a result could not be written as JSON: {error}"),
    }
}

/// JSON on one line: a line break in it can only be white space.
fn on_one_line(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.replace(['\n', '\r'], " ")).ok()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// For an XML attribute; characters that XML has no way to say become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
