//! `portcullis log diff`: where two histories differ.

use super::beside::{Source, sides};
use crate::{
    log::args::DiffArgs,
    paint::{Paint, Tint},
    problem::Problem,
    store::Project,
    words::names,
};
use portcullis::{
    encode,
    history::{Comparison, compare},
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// What `--json` prints.
#[derive(Serialize)]
struct Row {
    same: u64,
    differing: u64,
    first: Option<First>,
}

#[derive(Serialize)]
struct First {
    place: String,
    left: Option<Box<RawValue>>,
    right: Option<Box<RawValue>>,
}

/// Compares.
pub(crate) async fn diff(args: &DiffArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let (left, right) = (Source::of(&args.left), Source::of(&args.right));
    let found = compare(&left.read(&project).await?, &right.read(&project).await?);
    let code = if found.differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let written = if args.json { json(&found) } else { print(&found, &args.left, &args.right) };
    super::shown(written, code)
}

fn json(found: &Comparison) -> io::Result<()> {
    let line = |record: &std::sync::Arc<portcullis::Record>| RawValue::from_string(encode(record));
    let first = match &found.first {
        None => None,
        Some(first) => Some(First {
            place: first.place.to_string(),
            left: first.left.as_ref().map(line).transpose()?,
            right: first.right.as_ref().map(line).transpose()?,
        }),
    };
    let row = Row { same: found.same, differing: found.differing, first };
    writeln!(io::stdout(), "{}", serde_json::to_string(&row)?)
}

fn print(found: &Comparison, left: &str, right: &str) -> io::Result<()> {
    let (mut out, paint) = (io::stdout().lock(), Paint::stdout());
    let Some(first) = &found.first else {
        let same = paint.tint(Tint::Good, "they say the same");
        return writeln!(out, "{same}, at {}", names(found.same, "place"));
    };
    let (differing, same) = (names(found.differing, "place"), found.same);
    let head = paint.tint(Tint::Bad, &format!("they differ at {differing}"));
    writeln!(out, "{head} and say the same at {same}; first at {}", first.place)?;
    sides(&mut out, &paint, [(left, first.left.as_deref()), (right, first.right.as_deref())])
}
