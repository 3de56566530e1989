//! The table: order, names, matches, and what `introspect()` shows of them.

mod common;

use common::session;
use futures::future::LocalBoxFuture;
use portcullis_runtime::{plan::TableError, *};
use std::{sync::Arc, time::Duration};

fn scene() -> Scene {
    let info = SessionInfo::new(session(), "/w".into(), "cli");
    Scene::new(Arc::new(info), 1, 1, None)
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(name, "", Frozen::parse(r#"{"type":"object"}"#).expect("JSON")).expect("a sound spec")
}

struct Named(&'static str);

impl Tool for Named {
    fn spec(&self) -> ToolSpec {
        spec(self.0)
    }
    fn call(&self, _: Execution, _: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(async { Ok("ok".into()) })
    }
}

fn proposed(tool: &str) -> Proposed {
    let key = CallKey { turn: 1, step: 1, call: CallPath::top(0) };
    Proposed::new(scene(), key, "c".into(), Arc::new(spec(tool)), Frozen::arguments("").expect("an object"))
}

fn names<S: Seam>(table: &Table, input: &S::Input) -> Vec<String> {
    table.plan::<S>(input).iter().map(|planned| planned.id.to_string()).collect()
}

// C-SEAM-3: `*` matches any run, the rest is literal.
#[test]
fn tool_matches() {
    let cases = [
        ("*", "", true),
        ("*", "Bash", true),
        ("", "", true),
        ("", "Bash", false),
        ("Bash", "Bash", true),
        ("Bash", "bash", false),
        ("Bash", "BashOutput", false),
        ("Bash*", "BashOutput", true),
        ("Bash*", "Bash", true),
        ("*Edit", "MultiEdit", true),
        ("*Edit", "Edits", false),
        ("mcp__*__read", "mcp__fs__read", true),
        ("mcp__*__read", "mcp__read", false),
        ("mcp__*__read", "mcp____read", true),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("ab*ba", "aba", false),
        ("**", "x", true),
        ("a**b", "ab", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "acb", false),
        ("*a*a*", "a", false),
        ("*é*", "café au lait", true),
        ("B.sh", "Bash", false),
        ("[A-Z]*", "Bash", false),
        ("Ba?h", "Bash", false),
    ];
    for (pattern, name, matches) in cases {
        assert_eq!(ToolMatch::new(pattern).matches(name), matches, "`{pattern}` on `{name}`");
    }
    assert_eq!(ToolMatch::any().as_str(), "*");
}

// C-SEAM-3: a match costs no more than the name, however many stars.
#[test]
fn a_hostile_pattern_is_cheap() {
    let pattern = format!("{}b", "a*".repeat(2_000));
    assert!(!ToolMatch::new(&pattern).matches(&"a".repeat(100_000)));
}

/// A bridge that contributes two handlers, for tools that begin with `B`.
struct Bridge;

impl HandlerSource<Rewrite> for Bridge {
    fn plan(&self, input: &Proposed, out: &mut Vec<Planned<Rewrite>>) {
        if input.tool.name.starts_with('B') {
            for name in ["hook-0", "hook-1"] {
                out.push(Planned {
                    id: HandlerId::new("bridge", name),
                    deadline: Duration::from_secs(60),
                    run: Arc::new(async |_: Proposed| Proposal::pass()),
                    native: false,
                });
            }
        }
    }
    fn describe(&self) -> Vec<Registered> {
        let limit = Some(Duration::from_secs(60));
        ["hook-0", "hook-1"]
            .map(|name| {
                Registered::new(
                    Point::Rewrite,
                    HandlerId::new("bridge", name),
                    "B.*",
                    "proceeds",
                    limit,
                    false,
                )
            })
            .into()
    }
}

fn table() -> Table {
    let mut table = Table::new();
    table.register("first", |at| {
        at.rewrite("early", async |_: Proposed| Proposal::pass());
        at.tools("Bash*", |at| {
            at.within(Duration::from_millis(250), |at| {
                at.rewrite("narrow", async |_: Proposed| Proposal::pass());
            });
            at.guard("guard", |_: &Execution| None);
        });
        at.result("seen", |_: &Committed| {});
    });
    table.register("bridge", |at| {
        at.source::<Rewrite>(Arc::new(Bridge));
    });
    table.register("last", |at| {
        at.rewrite("early", async |_: Proposed| Proposal::pass());
        at.turn_continuation("more", async |_: Ending| Continue::Abstain);
        at.session_start("hello", async |_: Starting| Started {});
        at.prompt_submit("check", async |_: Submitted| Submit::allow());
        at.pre_execute("gate", async |_: Execution| Gate::allow());
        at.post_execute("review", async |_: Returned| Review::accept());
    });
    table
}

// C-SEAM-1: registration order within an owner, owners in mount order; C-SEAM-3: who does not match is not planned.
#[test]
fn plans_follow_the_order_of_registration() {
    let table = table();
    assert_eq!(table.check(), Ok(()));
    let all = ["first/early", "first/narrow", "bridge/hook-0", "bridge/hook-1", "last/early"];
    assert_eq!(names::<Rewrite>(&table, &proposed("Bash")), all);
    assert_eq!(names::<Rewrite>(&table, &proposed("Read")), ["first/early", "last/early"]);
    let planned = table.plan::<Rewrite>(&proposed("BashOutput"));
    let limits: Vec<(u128, bool)> = planned.iter().map(|p| (p.deadline.as_millis(), p.native)).collect();
    assert_eq!(limits, [(10_000, true), (250, true), (60_000, false), (60_000, false), (10_000, true)]);
    assert!(Table::new().is_bare::<Rewrite>() && !table.is_bare::<Rewrite>());
}

// C-SEAM-6: introspection is read from the dispatcher's own table.
#[test]
fn introspection_shows_what_the_dispatcher_reads() {
    let table = table();
    let rows = table.introspect();
    let shown: Vec<String> = rows
        .iter()
        .map(|r| {
            let limit = r.limit_ms.map_or("-".into(), |ms| ms.to_string());
            format!("{} {} {} {} {limit} {} {}", r.point, r.order, r.id, r.matches, r.native, r.on_failure)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "agent/session-start 0 last/hello * 10000 true reported",
            "agent/prompt-submit 0 last/check * 10000 true blocks the prompt",
            "tools/rewrite 0 first/early * 10000 true denies",
            "tools/rewrite 1 first/narrow Bash* 250 true denies",
            "tools/rewrite 2 bridge/hook-0 B.* 60000 false proceeds",
            "tools/rewrite 3 bridge/hook-1 B.* 60000 false proceeds",
            "tools/rewrite 4 last/early * 10000 true denies",
            "tools/pre-execute 0 last/gate * 10000 true denies",
            "tools/guard 0 first/guard Bash* - true denies",
            "tools/post-execute 0 last/review * 10000 true result stands, reported",
            "tools/result 0 first/seen * - true reported",
            "agent/turn-continuation 0 last/more * 10000 true stops",
        ]
    );
    let planned = names::<Rewrite>(&table, &proposed("Bash"));
    let rewriters: Vec<String> =
        rows.iter().filter(|r| r.point == Point::Rewrite).map(|r| r.id.to_string()).collect();
    assert_eq!(planned, rewriters);
    let points: Vec<Point> = rows.iter().map(|r| r.point).collect();
    assert!(points.is_sorted(), "in the order in which a turn meets them");
}

// C-PIPE-3, C-DUR-1: a name is half of a durable key, so two of one point are a start error; of two points they are not.
#[test]
fn a_name_twice_at_one_point_is_refused() {
    let mut table = Table::new();
    table.register("o", |at| {
        at.pre_execute("same", async |_: Execution| Gate::allow());
        at.post_execute("same", async |_: Returned| Review::accept());
        at.guard("same", |_: &Execution| None);
        at.result("same", |_: &Committed| {});
    });
    assert_eq!(table.check(), Ok(()));
    // Also when the second is for other tools, or comes with a second mount of the owner.
    table.register("o", |at| {
        at.tools("Other", |at| {
            at.guard("same", |_: &Execution| None);
        });
    });
    let error = TableError::DuplicateHandler { point: Point::Guard, id: HandlerId::new("o", "same") };
    assert_eq!(table.check(), Err(error.clone()));
    assert!(error.to_string().contains("tools/guard") && error.to_string().contains("o/same"));
}

// A tool's name names one tool.
#[test]
fn two_tools_of_one_name_are_refused() {
    let mut table = Table::new();
    table.tool(Arc::new(Named("Bash"))).expect("the first");
    table.tool(Arc::new(Named("Read"))).expect("another");
    for name in ["Bash", "Read"] {
        assert_eq!(&*table.find(name).expect("registered").0.name, name);
    }
    assert!(table.find("bash").is_none());
    let twice = table.tool(Arc::new(Named("Bash")));
    assert_eq!(twice, Err(TableError::DuplicateTool("Bash".into())));
    assert_eq!(table.tools().map(|t| t.name.to_string()).collect::<Vec<_>>(), ["Bash", "Read"]);
}
