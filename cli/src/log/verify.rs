//! `portcullis log verify`: is every record as it was written?

use crate::{
    log::args::VerifyArgs,
    paint::{Paint, Tint},
    problem::Problem,
    store::Project,
};
use portcullis::{Journal, SessionId};
use serde::Serialize;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// What was found in a session.
#[derive(Debug, Serialize)]
struct Row {
    session: String,
    /// How many records are sound, from the first on.
    records: u64,
    /// How many of these have a hash.
    chained: u64,
    damage: Option<Damage>,
}

/// The first thing that is wrong.
#[derive(Debug, Serialize)]
struct Damage {
    /// The record.
    at: u64,
    why: String,
}

/// Verifies all sessions, or one.
pub(crate) async fn verify(args: &VerifyArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let journal = project.read()?;
    let heads = journal.sessions().await?;
    let mut names: Vec<&SessionId> = match &args.session {
        None => heads.iter().map(|head| &head.session).collect(),
        Some(name) => vec![&super::find(&project, &heads, name)?.session],
    };
    names.sort_by(|a, b| super::natural(a.as_str()).cmp(&super::natural(b.as_str())));
    let mut sound = true;
    let mut written = Ok(());
    for name in names {
        let found = journal.verify(name).await?;
        let row = Row {
            session: name.to_string(),
            records: found.records,
            chained: found.chained,
            damage: found.damage.map(|damage| Damage { at: damage.at.0, why: damage.why }),
        };
        sound &= row.damage.is_none();
        if written.is_ok() {
            written = print(&row, args.json);
        }
    }
    super::shown(written, if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(row: &Row, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        return writeln!(out, "{}", serde_json::to_string(row)?);
    }
    let paint = Paint::stdout();
    let Row { session, records, chained, damage } = row;
    match damage {
        None => {
            write!(out, "{session}  {}, {records} records", paint.tint(Tint::Good, "sound"))?;
            match records - chained {
                0 => writeln!(out),
                old => writeln!(out, ", {old} of them from before there were hashes"),
            }
        }
        Some(Damage { at, why }) => {
            let found = paint.tint(Tint::Bad, &format!("damaged at record {at}"));
            writeln!(out, "{session}  {found}: {why}; the {records} records before it are sound")
        }
    }
}
