//! What is fuzzed, and what has to hold for any input. No public API: it is there in a fuzzing build and in tests alone.
//!
//! A target takes any bytes and panics if something does not hold. `docs/fuzzing.md` says how they are run.

mod config;
mod json;
mod matcher;
mod output;
mod overlay;
mod payload;
mod transcript;

use crate::{claude::Claude, codex::Codex, report::Report};

/// A target, by the name of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 10] = [
    ("json", json::run),
    ("config_claude", config::claude),
    ("config_codex", config::codex),
    ("edit_codex", config::edit),
    ("overlay", overlay::run),
    ("output_claude", |data| output::run(&Claude, data)),
    ("output_codex", |data| output::run(&Codex, data)),
    ("matcher", matcher::run),
    ("payload", payload::run),
    ("transcript", transcript::run),
];

/// Runs a target.
///
/// # Panics
/// If something does not hold, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.into_iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("no target is called {name}"));
    target(data);
}

/// The parts of an input, with a line `--` between them. The last one has all that is left; those that are missing are empty.
fn parts<const N: usize>(mut data: &[u8]) -> [&[u8]; N] {
    const BETWEEN: &[u8] = b"\n--\n";
    std::array::from_fn(|place| {
        let end = data.windows(BETWEEN.len()).position(|window| window == BETWEEN).filter(|_| place + 1 < N);
        let (part, rest) = match end {
            Some(end) => (&data[..end], &data[end + BETWEEN.len()..]),
            None => (data, &[][..]),
        };
        data = rest;
        part
    })
}

/// A report has a place in its file and says something.
fn sound(reports: &[Report], data: &[u8]) {
    let lines = 1 + data.iter().filter(|byte| **byte == b'\n').count();
    for report in reports {
        assert!(!report.message.is_empty() && !report.code.is_empty(), "{report:?}");
        assert!(report.file.is_some() || report.line.is_none(), "{report:?}");
        assert!(report.line.is_none_or(|line| (1..=lines).contains(&line)), "{report:?} in {lines} lines");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    // C-BRIDGE-5: what the fuzzer once found, and what people write.
    #[test]
    fn the_corpus_holds() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let mut names: Vec<_> =
            fs::read_dir(&corpus).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let mut known: Vec<_> = TARGETS.iter().map(|(name, _)| std::ffi::OsString::from(name)).collect();
        names.sort();
        known.sort();
        assert_eq!(names, known, "each target has a corpus, and there is no other one");
        for (name, target) in TARGETS {
            let files: Vec<_> =
                fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(files.len() >= 5, "{name} has {} files", files.len());
            for file in files {
                // The harness shows it if the target panics.
                println!("{}", file.display());
                target(&fs::read(&file).unwrap());
            }
        }
    }

    #[test]
    fn an_input_is_taken_apart_at_its_lines() {
        assert_eq!(parts(b"a\n--\nb\n--\nc"), [&b"a"[..], b"b\n--\nc"]);
        assert_eq!(parts(b"a\n--"), [&b"a\n--"[..], b""]);
        assert_eq!(parts(b"\n--\n\n--\n"), [&b""[..], b"", b""]);
    }
}
