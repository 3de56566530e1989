//! `portcullis hooks matrix`: the compatibility table, made of the vectors that the tests run.

use crate::problem::Problem;
use portcullis::hooks::{CLAUDE_VECTORS, ClaudeHooks};
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

/// Prints it.
pub(super) fn matrix() -> Result<ExitCode, Problem> {
    let vectors: Vec<Vector> = serde_json::from_str(CLAUDE_VECTORS)?;
    // Whoever closed stdout has the exit code.
    let _ = io::stdout().write_all(table(&vectors).as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn table(vectors: &[Vector]) -> String {
    let mut out = String::from(
        "# Compatibility with Claude Code\n\nPrinted by `portcullis hooks matrix` from `bridges/hooks/vectors/claude.json`; each row is a test. \
         *Exact* and *strict* are\nthe fidelities; bold is where one differs from the client.\n",
    );
    let mut group = "";
    for vector in vectors {
        if vector.group != group {
            group = &vector.group;
            // Writing to a String cannot fail.
            let _ = write!(out, "\n## {}{}\n\n", group[..1].to_uppercase(), &group[1..]);
            out.push_str("| event | situation | client | exact | strict | |\n|---|---|---|---|---|---|\n");
        }
        let shown = |own: &str| if own == vector.client { own.to_owned() } else { format!("**{own}**") };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            vector.event,
            vector.about.replace('|', "\\|"),
            vector.client,
            shown(&vector.exact),
            shown(&vector.strict),
            vector.note
        );
    }
    out.push_str("\n## Events\n\n| event | its hooks |\n|---|---|\n");
    for (event, runs) in ClaudeHooks::events() {
        let what = if runs { "run" } else { "are loaded, reported, and not run" };
        let _ = writeln!(out, "| {event} | {what} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-BRIDGE-4
    #[test]
    fn another_outcome_is_another_table() {
        let read = || serde_json::from_str::<Vec<Vector>>(CLAUDE_VECTORS).unwrap_or_default();
        let now = table(&read());
        for at in 0..read().len() {
            let changes: [fn(&mut Vector); 3] =
                [|v| v.client.push('x'), |v| v.exact.push('x'), |v| v.strict.push('x')];
            for change in changes {
                let mut vectors = read();
                change(&mut vectors[at]);
                assert_ne!(table(&vectors), now);
            }
        }
        assert!(now.contains("**"));
    }
}
