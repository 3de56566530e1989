//! Logs by name or by file, and two records beside each other, as a person reads them.

use super::import::archive;
use crate::{
    paint::{Paint, Tint, clean},
    problem::Problem,
    store::{Project, each_record},
    words::names,
};
use portcullis::{Frozen, Journal, Kind, Record, View, encode};
use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
};

/// How much of a value is shown beside another one.
const SHOWN: usize = 2000;

/// Where a log is.
pub(super) enum Source<'a> {
    /// In the project's journal.
    Session(&'a str),
    /// In an exported file.
    File(&'a Path),
}

impl Source<'_> {
    /// A file by a path; a session has no `/` in its name.
    pub(super) fn of(word: &str) -> Source<'_> {
        if word.contains('/') || word.ends_with(".jsonl") {
            Source::File(Path::new(word))
        } else {
            Source::Session(word)
        }
    }

    pub(super) async fn read(&self, project: &Project) -> Result<Vec<Arc<Record>>, Problem> {
        match self {
            Source::File(file) => match archive(file)?.into_iter().next() {
                Some(first) => Ok(first.records),
                None => Err(Problem::new(format!("{} has no session", file.display()))),
            },
            Source::Session(name) => {
                let journal = project.read()?;
                let heads = journal.sessions().await?;
                let session = super::find(project, &heads, name)?.session.clone();
                let mut records = Vec::new();
                each_record(&journal, &session, |record| records.push(record.clone())).await?;
                Ok(records)
            }
        }
    }
}

/// Shows two records: each by its number and type, with the first thing in which their data differ, or whole when one of
/// them is not there.
pub(super) fn sides(
    out: &mut impl Write,
    paint: &Paint,
    both: [(&str, Option<&Record>); 2],
) -> io::Result<()> {
    let lines = both.map(|(_, record)| record.and_then(|record| Frozen::parse(encode(record)).ok()));
    let path = match &lines {
        [Some(left), Some(right)] => difference(left.root(), right.root()),
        _ => None,
    };
    let path = path.unwrap_or_else(|| vec![Step::Key("data".into())]);
    let wide = both.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for ((name, record), line) in both.iter().zip(&lines) {
        let name = paint.tint(Tint::Name, &format!("  {:wide$}", clean(name)));
        let (Some(record), Some(line)) = (record, line) else {
            writeln!(out, "{name}  has nothing there")?;
            continue;
        };
        let shown = follow(line.root(), &path).map_or("is not there".into(), |view| shorten(view.text()));
        writeln!(out, "{name}  record {}, {}, {}: {shown}", record.seq, record.body.kind(), spell(&path))?;
    }
    Ok(())
}

/// A step into a JSON value.
#[derive(Debug, PartialEq)]
enum Step {
    Key(String),
    At(usize),
}

fn spell(path: &[Step]) -> String {
    path.iter().fold(String::new(), |text, step| match step {
        Step::Key(key) if text.is_empty() => clean(key),
        Step::Key(key) => format!("{text}.{}", clean(key)),
        Step::At(at) => format!("{text}[{at}]"),
    })
}

fn follow<'v>(value: View<'v>, path: &[Step]) -> Option<View<'v>> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::At(at) => value.at(*at),
    })
}

/// What two runs of one history have of their own, wherever it stands in a record.
const ASIDE: [&str; 9] = ["seq", "time", "ms", "usage", "tokens", "from", "takes", "dropped", "request"];

/// The way to the first value that differs.
fn difference(left: View<'_>, right: View<'_>) -> Option<Vec<Step>> {
    match (left.kind(), right.kind()) {
        (Kind::Object, Kind::Object) => {
            let keys = left.entries().chain(right.entries()).map(|(key, _)| key);
            // The name of a session, not of a call.
            let own_name = |key: &str| key == "id" && left.get("cwd").is_some();
            let mut keys = keys.filter(|key| !ASIDE.contains(&&**key) && !own_name(key));
            keys.find_map(|key| {
                let below = match (left.get(&key), right.get(&key)) {
                    (Some(left), Some(right)) => difference(left, right)?,
                    _ => Vec::new(),
                };
                Some([Step::Key(key.into_owned())].into_iter().chain(below).collect())
            })
        }
        (Kind::Array, Kind::Array) => (0..left.len().max(right.len())).find_map(|at| {
            let below = match (left.at(at), right.at(at)) {
                (Some(left), Some(right)) => difference(left, right)?,
                _ => Vec::new(),
            };
            Some([Step::At(at)].into_iter().chain(below).collect())
        }),
        _ => (left.compact() != right.compact()).then(Vec::new),
    }
}

fn shorten(text: &str) -> String {
    let text = clean(text);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({})", &text[..end], names(text.len() as u64, "byte")),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thing_that_differs_is_found() {
        let way = |left: &str, right: &str| {
            let (left, right) = (Frozen::parse(left).unwrap(), Frozen::parse(right).unwrap());
            let path = difference(left.root(), right.root())?;
            Some(spell(&path))
        };
        assert_eq!(way(r#"{"a":1,"time":1}"#, r#"{"a":1,"time":2}"#), None);
        assert_eq!(way(r#"{"a":[1,{"b":2}]}"#, r#"{"a":[1,{"b":3}]}"#).as_deref(), Some("a[1].b"));
        assert_eq!(way(r#"{"a":[1]}"#, r#"{"a":[1,2]}"#).as_deref(), Some("a[1]"));
        assert_eq!(way(r#"{"a":1}"#, r#"{"a":1,"c":null}"#).as_deref(), Some("c"));
    }
}
