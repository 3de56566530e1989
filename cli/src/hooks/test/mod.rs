//! `portcullis hooks test`: runs hook cases through the real runtime and judges every expectation.

mod case;
mod drive;
mod environment;
mod feed;
mod judge;
mod report;
mod scenario;
mod script;
mod seen;
mod stage;
mod tools;

use super::args::{FidelityArg, TestArgs};
use crate::problem::Problem;
use case::Case;
use report::{Format, Report, Verdict};
use std::process::ExitCode;

/// Runs the cases, one after another.
pub(super) async fn test(args: TestArgs) -> Result<ExitCode, Problem> {
    let mut cases = Vec::new();
    for path in &args.paths {
        cases.extend(case::find(path)?);
    }
    let found = cases.len();
    cases.retain(|case| args.filter.iter().all(|(key, value)| case.is(key, value)));
    if cases.is_empty() {
        let what = format!("none of the {found} cases is one that --filter lets through");
        return Err(Problem::new(what).next("a filter compares a field of case.json, such as dialect=claude"));
    }
    let mut report = Report::new(if args.json { Format::Json } else { Format::Lines });
    for case in &cases {
        let verdict = run(case, args.fidelity).await;
        report.add(case, verdict);
    }
    report.close();
    if let Some(file) = &args.junit {
        report.write_junit(file).map_err(|error| {
            Problem::new(format!("the JUnit report {} could not be written: {error}", file.display()))
        })?;
    }
    Ok(if report.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(case: &Case, fidelity: Option<FidelityArg>) -> Verdict {
    if let Some(why) = &case.unread {
        return Verdict::not_run(why.clone());
    }
    match case.lacks() {
        Ok(None) => {}
        Ok(Some(program)) => {
            return Verdict::skipped(format!("it requires {program}, which is not on PATH"));
        }
        Err(why) => return Verdict::not_run(why),
    }
    let feed = match feed::Feed::read(case) {
        Ok(feed) => feed,
        Err(why) => return Verdict::not_run(why),
    };
    let stage = match stage::Stage::set(case, &feed, fidelity.map(Into::into)) {
        Ok(stage) => stage,
        Err(why) => return Verdict::not_run(why),
    };
    match drive::drive(&stage, &feed).await {
        Ok(seen) => {
            let failures = judge::judge(case, &feed, &stage, &seen);
            Verdict { failures, skipped: None, seen: Some(seen) }
        }
        Err(why) => Verdict::not_run(why),
    }
}
