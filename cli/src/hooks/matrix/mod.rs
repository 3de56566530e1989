//! `portcullis hooks matrix`: the compatibility tables, made of the vectors that the tests run.

mod claude;
mod codex;

use super::args::{DialectArg, MatrixArgs};
use crate::problem::Problem;
use portcullis::hooks::{CLAUDE_VECTORS, CODEX_VECTORS, ClaudeHooks, CodexHooks};
use serde::Deserialize;
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

/// What the table needs of a vector.
#[derive(Deserialize)]
struct Vector {
    group: String,
    about: String,
    event: String,
    client: String,
    exact: String,
    strict: String,
    #[serde(default)]
    note: String,
}

/// What something is about, what the client does, what is done here.
type Difference = (&'static str, &'static str, &'static str);

/// All that is said of one client.
struct Client {
    name: &'static str,
    /// The file of its vectors, and what is in it.
    file: &'static str,
    vectors: &'static str,
    differences: &'static [Difference],
    /// Each of its events, with why none of its hooks run.
    events: Vec<(&'static str, Option<&'static str>)>,
}

impl Client {
    fn of(dialect: DialectArg) -> Client {
        match dialect {
            DialectArg::Claude => Client {
                name: "Claude Code",
                file: "claude.json",
                vectors: CLAUDE_VECTORS,
                differences: claude::DIFFERENCES,
                events: ClaudeHooks::events().collect(),
            },
            DialectArg::Codex => Client {
                name: "Codex",
                file: "codex.json",
                vectors: CODEX_VECTORS,
                differences: codex::DIFFERENCES,
                events: CodexHooks::events().collect(),
            },
        }
    }
}

/// Prints them.
pub(super) fn matrix(args: &MatrixArgs) -> Result<ExitCode, Problem> {
    let mut out = String::from(
        "# Compatibility\n\nPrinted by `portcullis hooks matrix` from the vectors in `bridges/hooks/vectors`; each row with outcomes is \
         a test. *Exact*\nand *strict* are the fidelities; bold is where one differs from the client.\n",
    );
    for dialect in &args.dialect {
        let client = Client::of(*dialect);
        let vectors: Vec<Vector> = serde_json::from_str(client.vectors)?;
        out.push_str(&part(&client, &vectors));
    }
    // Whoever closed stdout has the exit code.
    let _ = io::stdout().write_all(out.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// A text in a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn part(client: &Client, vectors: &[Vector]) -> String {
    let mut out = format!("\n## {}\n\nThe vectors: `{}`.\n", client.name, client.file);
    let mut group = "";
    // Writing to a String cannot fail.
    for vector in vectors {
        if vector.group != group {
            group = &vector.group;
            let _ = write!(out, "\n### {}{}\n\n", group[..1].to_uppercase(), &group[1..]);
            out.push_str("| event | situation | client | exact | strict | |\n|---|---|---|---|---|---|\n");
        }
        let shown = |own: &str| if own == vector.client { own.to_owned() } else { format!("**{own}**") };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            vector.event,
            cell(&vector.about),
            vector.client,
            shown(&vector.exact),
            shown(&vector.strict),
            cell(&vector.note)
        );
    }
    out.push_str("\n### What is no decision\n\n| about | client | here |\n|---|---|---|\n");
    for (about, client, here) in client.differences {
        let _ = writeln!(out, "| {about} | {client} | {here} |");
    }
    out.push_str("\n### Events\n\n| event | its hooks |\n|---|---|\n");
    for (event, silent) in &client.events {
        let what = silent.map_or_else(|| "run".into(), |why| format!("are reported and do not run: {why}"));
        let _ = writeln!(out, "| {event} | {what} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::collections::HashSet;

    // C-BRIDGE-4
    #[test]
    fn another_outcome_is_another_table() {
        for dialect in DialectArg::value_variants() {
            let client = Client::of(*dialect);
            let mut vectors: Vec<Vector> = serde_json::from_str(client.vectors).unwrap();
            let now = part(&client, &vectors);
            let outcomes: [fn(&mut Vector) -> &mut String; 3] =
                [|v| &mut v.client, |v| &mut v.exact, |v| &mut v.strict];
            for at in 0..vectors.len() {
                for outcome in outcomes {
                    outcome(&mut vectors[at]).push('x');
                    assert_ne!(part(&client, &vectors), now);
                    outcome(&mut vectors[at]).pop();
                }
            }
            assert_eq!(part(&client, &vectors), now);
            assert!(now.contains("**"), "{}", client.name);
        }
    }

    #[test]
    fn a_group_is_one_table_and_a_difference_is_told_once() {
        for dialect in DialectArg::value_variants() {
            let client = Client::of(*dialect);
            let vectors: Vec<Vector> = serde_json::from_str(client.vectors).unwrap();
            let groups: HashSet<&str> = vectors.iter().map(|vector| &*vector.group).collect();
            let tables = part(&client, &vectors).matches("| event | situation |").count();
            assert_eq!(tables, groups.len(), "{}", client.name);
            let about: HashSet<&str> = client.differences.iter().map(|(about, ..)| *about).collect();
            assert_eq!(about.len(), client.differences.len());
        }
    }
}
