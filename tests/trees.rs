//! C-ID-4, C-PIPE-10, C-SUB: random trees of calls, nested calls and children, under random policies. The same in every
//! run.

mod support;

use futures::{StreamExt, future::LocalBoxFuture};
use portcullis::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};
use support::*;

/// SplitMix64: small, and enough for trees.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
    /// What a policy thinks of a call: the same whenever it is asked.
    fn of(seed: u64, id: u32, policy: u64, n: u64) -> u64 {
        Dice(seed ^ (u64::from(id) << 32) ^ policy.wrapping_mul(0x1000_0001)).below(n)
    }
}

/// One call, and what its body does: calls of its own, or an agent that makes them.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Node {
    id: u32,
    kids: Vec<Node>,
    tool: String,
    /// The body starts all its calls before it waits for any.
    at_once: bool,
}

fn grow(dice: &mut Dice, next: &mut u32, depth: u32) -> Node {
    let id = *next;
    *next += 1;
    let kids = if depth == 0 { 0 } else { dice.below(4) };
    let kids = (0..kids).map(|_| grow(dice, next, depth - 1)).collect();
    let tool = ["Work", "Work", "Safe", "Safe", "Delegate", "Nope"][dice.below(6) as usize].to_owned();
    Node { id, kids, tool, at_once: dice.below(2) == 0 }
}

/// What was seen of each call, by its id in the tree.
#[derive(Default)]
struct Seen {
    /// Its tokens, in the order of the gate.
    gated: BTreeMap<u32, TokenId>,
    guarded: BTreeSet<u32>,
    wrapped: BTreeMap<u32, u32>,
    ran: Vec<(u32, TokenId)>,
    observed: BTreeMap<u32, u32>,
    tokens: Vec<TokenId>,
    parents: BTreeMap<u32, Option<TokenId>>,
}

type Eyes = Arc<Mutex<Seen>>;

fn id_of(call: &Execution) -> u32 {
    call.arguments.decode::<Node>().expect("of the schema").id
}

struct Worker {
    name: &'static str,
    safe: bool,
    eyes: Eyes,
}

impl Tool for Worker {
    fn spec(&self) -> ToolSpec {
        let schema = Frozen::parse(r#"{"type":"object","required":["id","kids"]}"#).unwrap();
        let spec = ToolSpec::new(self.name, "Does what its arguments say.", schema).unwrap();
        if self.safe { spec.concurrency_safe() } else { spec }
    }

    fn call(&self, call: Execution, cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(async move {
            let node: Node = call.arguments.decode()?;
            self.eyes.lock().unwrap().ran.push((node.id, call.id));
            // Bodies that overlap take turns.
            for _ in 0..node.id % 3 {
                tokio::task::yield_now().await;
            }
            if self.name == "Delegate" && !node.kids.is_empty() {
                let prompt = Frozen::of(&node.kids)?.text().to_owned();
                let done = cx
                    .spawn(AgentSpec::new("worker", prompt))
                    .await
                    .map_err(|e| ToolError::new(e.to_string()))?;
                return Ok(Output::text(format!("#{} {}", node.id, done.end.name())));
            }
            let texts: Vec<String> = node
                .kids
                .iter()
                .map(|kid| Frozen::of(kid).map(|k| k.text().to_owned()))
                .collect::<Result<_, _>>()?;
            let kids = node.kids.iter().zip(&texts).map(|(kid, text)| {
                let cx = cx.clone();
                async move { (kid.id, cx.call(&kid.tool, text).await) }
            });
            let outcomes: Vec<(u32, Outcome)> = if node.at_once {
                futures::future::join_all(kids).await
            } else {
                futures::stream::iter(kids).then(|kid| kid).collect().await
            };
            for (kid, outcome) in outcomes {
                mine(kid, &outcome.ended, &outcome.for_model().0);
            }
            Ok(Output::text(format!("#{} done", node.id)))
        })
    }
}

/// A result that says whose it is says it to its own call.
fn mine(id: u32, ended: &Ended, content: &Content) {
    let text = content.to_text();
    match ended {
        Ended::Completed => assert!(text.starts_with(&format!("#{id} ")), "{id} was given {text}"),
        Ended::HookDeny { reason, .. } | Ended::GuardDeny { reason, .. } => {
            assert_eq!(reason.as_str(), format!("not {id}"));
        }
        _ => {}
    }
}

const GATE: u64 = 1;
const GUARD: u64 = 2;
const ASK: u64 = 4;

fn register(at: &mut Registrar<'_>, seed: u64, eyes: &Eyes) {
    let [gate, guard, wrap, observe] = [(); 4].map(|()| eyes.clone());
    at.rewrite("spacing", async move |call| {
        // Another text of the same call, for some.
        let text = call.so_far.text();
        match text.len() % 3 {
            0 => Ok::<_, Refused>(Proposal::arguments(Frozen::arguments(format!(" {text} "))?)),
            _ => Ok(Proposal::pass()),
        }
    });
    at.pre_execute("gate", async move |call| {
        let id = id_of(&call);
        {
            let mut eyes = gate.lock().unwrap();
            assert!(eyes.gated.insert(id, call.id).is_none(), "{id} is judged once");
            eyes.tokens.push(call.id);
            eyes.parents.insert(id, call.parent);
        }
        match Dice::of(seed, id, GATE, 8) {
            0 => Ok(Gate::deny(format!("not {id}"))),
            1 => Err("the gate is down"),
            _ => Ok(Gate::allow()),
        }
    });
    at.pre_execute("ask", async move |call| match Dice::of(seed, id_of(&call), ASK, 10) {
        0 => Gate::ask("sure?"),
        _ => Gate::allow(),
    });
    at.guard("guard", move |call| {
        let id = id_of(call);
        guard.lock().unwrap().guarded.insert(id);
        (Dice::of(seed, id, GUARD, 8) == 0).then(|| format!("not {id}").into())
    });
    at.wrap("again", async move |next| {
        let id = id_of(next.call());
        *wrap.lock().unwrap().wrapped.entry(id).or_default() += 1;
        next.run().await
    });
    at.result("observe", move |result| {
        // Denied, refused and unknown calls are observed like any other.
        if let Some(id) =
            result.content.to_text().strip_prefix('#').and_then(|t| t.split(' ').next()?.parse().ok())
        {
            *observe.lock().unwrap().observed.entry(id).or_default() += 1;
        }
    });
}

fn model() -> Says {
    Says::by_prompt(|prompt, said| {
        let Ok(nodes) = Frozen::parse(prompt).and_then(|p| p.decode::<Vec<Node>>()) else {
            return say("what?");
        };
        if said > 0 || nodes.is_empty() {
            return say("done");
        }
        let texts: Vec<(String, String)> =
            nodes.iter().map(|n| (n.tool.clone(), Frozen::of(n).unwrap().text().to_owned())).collect();
        calls(&texts.iter().map(|(tool, text)| (tool.as_str(), text.as_str())).collect::<Vec<_>>())
    })
}

/// Answers every question, by what is asked about; stops with its runtime.
fn answer_all(session: &Session, seed: u64) {
    let session = session.clone();
    let mut events = session.events(Seq(0));
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if let Event::Ask(ask) = event {
                let id = ask.arguments.decode::<Node>().expect("of the schema").id;
                let answer =
                    if Dice::of(seed, id, ASK + 1, 2) == 0 { Answer::Allow } else { Answer::Refuse(None) };
                // A cancel may have withdrawn it.
                let _ = session.answer(&ask, answer).await;
            }
        }
    });
}

/// What grew.
#[derive(Debug, Default)]
struct Forest {
    sessions: usize,
    calls: usize,
    nested: usize,
    bodies: usize,
    denied: usize,
    asks: usize,
    cut: usize,
}

/// Plays one tree and adds it to the forest.
async fn play(seed: u64, cancel: bool, forest: &mut Forest) {
    let mut dice = Dice(seed);
    let mut next = 1;
    let top = dice.below(4) + 1;
    let tree: Vec<Node> = (0..top).map(|_| grow(&mut dice, &mut next, 3)).collect();
    let eyes = Eyes::default();
    let journal = MemoryJournal::new();
    let tool = |name, safe| Arc::new(Worker { name, safe, eyes: eyes.clone() }) as Arc<dyn Tool>;
    let (session, count) = (Later::default(), Arc::new(Mutex::new(0)));
    let (later, counted, after) = (session.clone(), count.clone(), dice.below(12));
    let runtime = Runtime::builder(model())
        .journal(journal.clone())
        .tools([tool("Work", false), tool("Safe", true), tool("Delegate", dice.below(2) == 0)])
        .policy("house", |at| {
            register(at, seed, &eyes);
            at.post_execute("cancel", async move |_| {
                let mut counted = counted.lock().unwrap();
                *counted += 1;
                if cancel && *counted == after {
                    cancel_now(&later, Cause::User);
                }
                Review::accept()
            });
        })
        .arbiters(1)
        .start()
        .await
        .unwrap();
    let options = SessionOptions::new("/").approvals();
    let opened = runtime.open("s", options).await.unwrap();
    session.set(opened.clone()).unwrap();
    answer_all(&opened, seed);
    let prompt = Frozen::of(&tree).unwrap().text().to_owned();
    let end = within(within(opened.prompt(prompt)).await.unwrap().into_future()).await;
    let cancelled = matches!(end, EndReason::Aborted { .. });
    assert!(cancelled || end == EndReason::Completed, "seed {seed}: {end:?}");
    // Children leave memory before their parent's call returns, unless a cancel let go of the body.
    until(|| runtime.live_sessions().len() == 1).await;
    // A cancel that overlapping calls saw before it was on record is not replayed at that moment, but where it stands.
    if cancel {
        folds(&journal).await;
    } else {
        sound(&journal).await;
    }
    let tree = check_logs(seed, &journal, cancelled).await;
    forest.sessions += tree.sessions;
    forest.calls += tree.calls;
    forest.nested += tree.nested;
    forest.bodies += tree.bodies;
    forest.denied += tree.denied;
    forest.asks += tree.asks;
    forest.cut += usize::from(cancelled);
    check_eyes(seed, &eyes.lock().unwrap());
    assert!(runtime.live_calls().is_empty(), "seed {seed}");
    assert!(opened.asks().is_empty(), "seed {seed}");
    assert_eq!(within(runtime.shutdown(PATIENCE)).await.parked, [], "seed {seed}");
}

/// In every log, each call has one result, of its own.
async fn check_logs(seed: u64, journal: &MemoryJournal, cancelled: bool) -> Forest {
    let mut forest = Forest::default();
    for head in journal.sessions().await.unwrap() {
        forest.sessions += 1;
        let mut open: BTreeMap<String, u32> = BTreeMap::new();
        for record in journal.records(&head.session) {
            let key = || {
                format!(
                    "{}/{}/{:?}",
                    record.at.turn.unwrap_or(0),
                    record.at.step.unwrap_or(0),
                    record.at.call
                )
            };
            match &record.body {
                Body::ToolCall(call) => {
                    let text = match &call.arguments {
                        Arguments::Sealed { text } => text.text().to_owned(),
                        Arguments::Refused { raw, .. } => raw.to_string(),
                    };
                    let id = Frozen::parse(text).unwrap().decode::<Node>().unwrap().id;
                    assert_eq!(open.insert(key(), id), None, "seed {seed}: one call at a place");
                    forest.calls += 1;
                    forest.nested += usize::from(record.at.call.as_ref().is_some_and(|path| !path.is_top()));
                }
                Body::ToolResult(result) => {
                    let id =
                        open.remove(&key()).unwrap_or_else(|| panic!("seed {seed}: a result without a call"));
                    mine(id, &result.outcome, &result.content);
                    forest.denied += usize::from(!result.outcome.was_dispatched());
                    assert!(
                        cancelled || !result.outcome.name().starts_with("cancelled"),
                        "seed {seed}: {result:?}"
                    );
                }
                Body::ToolDispatched(_) => forest.bodies += 1,
                Body::InputRequested(_) => forest.asks += 1,
                _ => {}
            }
        }
        assert!(open.is_empty(), "seed {seed}: {open:?} have no result");
    }
    forest
}

/// No body ran that was not judged and guarded, under the very token that was; every token is its own.
fn check_eyes(seed: u64, seen: &Seen) {
    let mut once = BTreeSet::new();
    for (id, token) in &seen.ran {
        assert!(once.insert(*id), "seed {seed}: {id} ran twice");
        assert_eq!(seen.gated.get(id), Some(token), "seed {seed}: {id} ran ungated");
        assert!(seen.guarded.contains(id), "seed {seed}: {id} ran unguarded");
        assert_eq!(seen.wrapped.get(id), Some(&1), "seed {seed}: {id} ran unwrapped");
        assert!(Dice::of(seed, *id, GATE, 8) > 1, "seed {seed}: {id} was denied");
        assert!(Dice::of(seed, *id, GUARD, 8) > 0, "seed {seed}: {id} was denied by the guard");
        let refused = Dice::of(seed, *id, ASK, 10) == 0 && Dice::of(seed, *id, ASK + 1, 2) != 0;
        assert!(!refused, "seed {seed}: {id} was refused by a person");
    }
    let tokens: BTreeSet<String> = seen.tokens.iter().map(ToString::to_string).collect();
    assert_eq!(tokens.len(), seen.tokens.len(), "seed {seed}: tokens are unique");
    let known: BTreeSet<String> = seen.gated.values().map(ToString::to_string).collect();
    for (id, parent) in &seen.parents {
        if let Some(parent) = parent {
            assert!(
                known.contains(&parent.to_string()),
                "seed {seed}: {id} names a parent that nobody judged"
            );
        }
    }
    assert!(seen.observed.values().all(|times| *times == 1), "seed {seed}: {:?}", seen.observed);
}

// C-ID-4, C-PIPE-10: no body runs ungated, no result reaches the wrong call, every log folds and owes nothing.
#[tokio::test]
async fn random_trees_keep_every_call_apart() {
    let mut forest = Forest::default();
    for seed in 0..300 {
        play(seed, false, &mut forest).await;
    }
    println!("{forest:?}");
    let Forest { sessions, nested, bodies, denied, asks, cut, .. } = forest;
    let grown = sessions > 400 && nested > 500 && bodies > 1_000 && denied > 300 && asks > 100;
    assert!(
        grown && cut == 0,
        "{sessions} sessions, {nested} nested, {bodies} bodies, {denied} denied, {asks} asks"
    );
}

// C-TURN-9, C-LOG-4: the same while the turn is cancelled somewhere in the middle.
#[tokio::test]
async fn random_trees_that_are_cut() {
    let mut forest = Forest::default();
    for seed in 1_000..1_300 {
        play(seed, true, &mut forest).await;
    }
    println!("{forest:?}");
    assert!(forest.cut > 100 && forest.bodies > 500, "{forest:?}");
}
