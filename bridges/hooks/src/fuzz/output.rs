//! What a process printed and how it ended, on every event: stdout, a line `--`, stderr.

use super::parts;
use crate::{
    answer::{Answer, Heard, Terms, Verdict},
    dialect::Dialect,
    event::Event,
    options::Fidelity,
};
use portcullis_process::{Ending, Finished, Status};
use portcullis_runtime::{Gate, Permit, Proposal, Submit};

/// How a process ends, beside what it prints.
#[derive(Debug, Clone, Copy)]
struct End {
    ending: Ending,
    status: Status,
    held: bool,
    cut: bool,
}

/// Every end of which something else follows.
fn ends() -> impl Iterator<Item = End> {
    let plain = End { ending: Ending::Exited, status: Status::Code(0), held: false, cut: false };
    let status = |code| End { status: Status::Code(code), ..plain };
    [
        plain,
        status(1),
        status(2),
        End { status: Status::Signal(9), ..plain },
        End { status: Status::Unknown, ..plain },
        End { held: true, ..plain },
        End { cut: true, ..plain },
        End { held: true, ..status(2) },
        End { cut: true, ..status(2) },
        End { ending: Ending::TimedOut, ..plain },
        End { ending: Ending::Cancelled, ..status(2) },
    ]
    .into_iter()
}

pub(super) fn run(dialect: &dyn Dialect, data: &[u8]) {
    let [stdout, stderr] = parts(data);
    for event in dialect.events().iter().copied() {
        for end in ends() {
            for (fidelity, setting) in [(Fidelity::Strict, None), (Fidelity::Exact, Some("onFailure"))] {
                let terms = Terms { event, command: "./hook.sh", fidelity, blocks_on_failure: setting };
                let ran = Ok(finished(end, stdout, stderr));
                let answer = dialect.read(terms, &ran);
                holds(&answer, terms, end);
                assert_eq!(dialect.read(terms, &ran), answer);
                means(dialect, event, answer);
            }
        }
        let terms =
            Terms { event, command: "./hook.sh", fidelity: Fidelity::Strict, blocks_on_failure: None };
        let text = String::from_utf8_lossy(stdout);
        let end = ends().next().expect("there are some");
        let told = dialect.told(terms, &text, false);
        assert_eq!(told, dialect.read(terms, &Ok(finished(end, stdout, b""))), "{event:?}");
        holds(&dialect.told(terms, &text, true), terms, End { cut: true, ..end });
    }
}

fn finished(end: End, stdout: &[u8], stderr: &[u8]) -> Finished {
    let mut finished = Finished::exited(end.status, stdout, stderr);
    finished.ending = end.ending;
    finished.pipe_held = end.held;
    finished.stdout.total += u64::from(end.cut);
    finished
}

/// What no output may bring about.
fn holds(answer: &Answer, terms: Terms<'_>, end: End) {
    let Terms { event, blocks_on_failure: setting, .. } = terms;
    let blocks = matches!(answer.verdict, Some(Verdict::Block(_)));
    let grants = answer.verdict == Some(Verdict::Allow) || answer.rewrite.is_some();
    let shown = || format!("{terms:?}, {end:?}: {answer:?}");
    if end.ending != Ending::Exited {
        // C-BRIDGE-7: what ran into its limit decides nothing, but for what its failure was said to mean.
        assert!(answer.failure.is_some() && !grants, "{}", shown());
        assert!(answer.halt.is_none() && answer.context.is_none() && answer.plain.is_none(), "{}", shown());
        assert_eq!(blocks, setting.is_some() && event.blocks_on_failure(), "{}", shown());
    }
    if answer.failure.is_some() {
        assert!(!grants && (answer.verdict.is_none() || blocks), "{}", shown());
        assert!(blocks || answer.context.is_none() && answer.output.is_none(), "{}", shown());
    }
    if end.status == Status::Code(2) {
        assert!(!grants && (answer.verdict.is_none() || blocks), "{}", shown());
    }
    // An answer that could be half of one grants nothing.
    if end.cut || end.held && matches!(event, Event::PreToolUse | Event::PermissionRequest) {
        assert!(!grants, "{}", shown());
    }
    assert!(!blocks || answer.rewrite.is_none(), "{}", shown());
    match answer.verdict {
        Some(Verdict::Ask(_) | Verdict::Defer(_)) => assert_eq!(event, Event::PreToolUse),
        Some(Verdict::Allow) => assert!(matches!(event, Event::PreToolUse | Event::PermissionRequest)),
        Some(Verdict::Block(_)) | None => {}
    }
    assert!(answer.rewrite.is_none() || matches!(event, Event::PreToolUse | Event::PermissionRequest));
}

/// What an answer comes to at its seam.
fn means(dialect: &dyn Dialect, event: Event, answer: Answer) {
    let blocks = matches!(answer.verdict, Some(Verdict::Block(_)));
    let allows = answer.verdict == Some(Verdict::Allow);
    let silent = answer.verdict.is_none() && answer.rewrite.is_none() && answer.halt.is_none();
    let heard = Heard {
        event,
        subject: "Bash".into(),
        command: "./hook.sh".into(),
        place: ("/p/hooks.json".into(), 0),
        answer,
        records: Vec::new(),
    };
    match event {
        Event::PreToolUse => {
            let proposal = dialect.proposal(heard).expect("an answer").decision;
            assert_eq!(matches!(proposal.carried, Some(Gate::Deny { .. })), blocks, "{proposal:?}");
            assert!(!silent || proposal == Proposal::pass(), "{proposal:?}");
        }
        Event::PermissionRequest => {
            let permit = dialect.permit(heard).expect("an answer").decision;
            assert!(!blocks || !matches!(permit, Permit::Allow | Permit::Abstain), "{permit:?}");
            assert!(allows || permit != Permit::Allow, "{permit:?}");
        }
        Event::UserPromptSubmit => {
            let submit = dialect.submit(heard).expect("an answer").decision;
            assert!(!blocks || submit != Submit::allow(), "{submit:?}");
        }
        Event::SessionStart | Event::SubagentStart => drop(dialect.started(heard).expect("an answer")),
        Event::PostToolUse | Event::PostToolUseFailure | Event::PermissionDenied => {
            drop(dialect.review(heard).expect("an answer"));
        }
        Event::PostToolBatch => drop(dialect.batched(heard).expect("an answer")),
        Event::Stop | Event::SubagentStop => drop(dialect.again(heard).expect("an answer")),
        Event::PreCompact => drop(dialect.compact(heard).expect("an answer")),
        Event::PostCompact => drop(dialect.noted(heard).expect("an answer")),
        Event::ConfigChange => assert_eq!(heard.block().is_some(), blocks),
        // Nothing that is said on these decides.
        Event::Notification | Event::StopFailure | Event::Interrupt | Event::SessionEnd => {}
    }
}
