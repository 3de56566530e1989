//! What the hook bridge costs around the processes it starts. Bars `match-1000` and `payload-5mb`.
//!
//! `match-1000`: which hooks are on a call, asked again for a tool that was called before, in a project of 1,000 handlers and
//! in one of 10; as many match in both, so that what is compared is the search and not the list that comes of it. A note
//! beside it has them all match. `payload-5mb`: a call with arguments of 5 MB whose hook answers with as many, and with ten
//! times less: bytes may cost what they are, not more the more there are.

mod support;

use portcullis::{
    CallKey, CallPath, Extension, Frozen, Planned, Proposed, Rewrite, Scene, Seq, SessionId, SessionInfo,
    Table, ToolSpec, hooks::ClaudeHooks,
};
use std::{fs, hint::black_box, path::Path, process::ExitCode, sync::Arc, time::Instant};
use support::{Bars, thread_ns};

/// Handlers that match, where not all do.
const FEW: usize = 5;
/// Dispatches in one side of a pair.
const ASKED: u32 = 2_000;

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    if bars.wants("match-1000") {
        let small = Project::new(&many(10, FEW));
        let large = Project::new(&many(1000, FEW));
        let pairs = bars.pairs(60);
        bars.steady_ratio("match-1000", 20.0, "ns", || asked(&large, &small, FEW, FEW, pairs));
        let small = Project::new(&many(10, 10));
        let large = Project::new(&many(1000, 1000));
        bars.note("match-1000-all", "ns", &asked(&large, &small, 1000, 10, 7));
    }
    if bars.wants("payload-5mb") {
        let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (small, large) = (Echo::new(500_000), Echo::new(5_000_000));
        let mut pairs = Vec::new();
        for pair in 0..=bars.pairs(40) {
            let taken = tokio::task::LocalSet::new().block_on(&rt, async {
                let subject = large.time().await;
                let mut floor = 0.0;
                for _ in 0..10 {
                    floor += small.time().await;
                }
                (subject, floor)
            });
            // The first warms up.
            if pair > 0 {
                pairs.push(taken);
            }
        }
        bars.ratio("payload-5mb", 1.3, "ns", &pairs);
    }
    bars.finish()
}

/// A project with these hooks, mounted.
struct Project {
    dir: tempfile::TempDir,
    table: Table,
}

impl Project {
    fn new(settings: &str) -> Project {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join(".claude")).expect("a folder");
        fs::write(dir.path().join(".claude/settings.json"), settings).expect("a file");
        let (hooks, reports) = ClaudeHooks::load(dir.path());
        assert!(reports.is_empty(), "{reports:?}");
        let mut table = Table::new();
        table.register(hooks.owner(), |at| hooks.clone().register(at));
        Project { dir, table }
    }

    fn plan(&self, input: &Proposed) -> Vec<Arc<Planned<Rewrite>>> {
        self.table.plan::<Rewrite>(input)
    }
}

/// The time of one question in each, side by side.
fn asked(large: &Project, small: &Project, most: usize, least: usize, pairs: usize) -> Vec<(f64, f64)> {
    let input = |project: &Project| call(project.dir.path(), r#"{"command":"ls"}"#);
    let (of_large, of_small) = (input(large), input(small));
    assert_eq!((large.plan(&of_large).len(), small.plan(&of_small).len()), (most, least));
    let time = |project: &Project, input: &Proposed| {
        let start = thread_ns();
        for _ in 0..ASKED {
            black_box(project.plan(black_box(input)));
        }
        (thread_ns() - start) / f64::from(ASKED)
    };
    (0..pairs).map(|_| (time(large, &of_large), time(small, &of_small))).collect()
}

/// So many handlers, of which so many are on Bash. The others have matchers of each kind, all different.
fn many(count: usize, matching: usize) -> String {
    let groups: Vec<String> = (0..count)
        .map(|n| {
            let matcher = match n % 3 {
                _ if n < matching => "Bash".to_owned(),
                0 => format!("Tool{n}|Other{n}"),
                1 => format!("^Tool{n}$"),
                _ => format!("mcp__server{n}__.*"),
            };
            format!(r#"{{"matcher":"{matcher}","hooks":[{{"type":"command","command":"true {n}"}}]}}"#)
        })
        .collect();
    format!(r#"{{"hooks":{{"PreToolUse":[{}]}}}}"#, groups.join(","))
}

fn call(project: &Path, arguments: &str) -> Proposed {
    let id = SessionId::new("bench").expect("a name");
    let scene = Scene::new(Arc::new(SessionInfo::new(id, project.into(), "bench")), 1, 1, Some(Seq(1)));
    let schema = Frozen::parse(r#"{"type":"object"}"#).expect("a schema");
    let spec = Arc::new(ToolSpec::new("Bash", "", schema).expect("a tool"));
    let key = CallKey { turn: 1, step: 1, call: CallPath::top(0) };
    Proposed::new(scene, key, "toolu_1".into(), spec, Frozen::arguments(arguments).expect("arguments"))
}

/// A hook that reads a payload of a size and answers with new arguments of that size.
struct Echo {
    project: Project,
    input: Proposed,
}

impl Echo {
    fn new(bytes: usize) -> Echo {
        let project = Project::new(
            r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"cat >/dev/null; cat answer.json"}]}]}}"#,
        );
        // Lines with quotes, as a file that is written has them: escapes are work, too.
        let content = "let it = \"be\";\\n".repeat(bytes / 16).replace('"', "\\\"");
        let arguments = format!(r#"{{"command":"{content}"}}"#);
        let answer = format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{arguments}}}}}"#
        );
        fs::write(project.dir.path().join("answer.json"), answer).expect("a file");
        let input = call(project.dir.path(), &arguments);
        Echo { project, input }
    }

    /// By the wall clock: a host waits for its hooks.
    async fn time(&self) -> f64 {
        let start = Instant::now();
        let planned = self.project.plan(&self.input);
        let reply = planned[0].run.decide(self.input.clone()).await.expect("an answer");
        let taken = start.elapsed().as_nanos() as f64;
        assert!(reply.decision.arguments.is_some_and(|arguments| arguments == self.input.so_far));
        taken
    }
}
