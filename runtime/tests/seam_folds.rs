//! What the decisions of each seam come to, as tables over orders.

mod common;

use common::handler;
use portcullis_runtime::*;

const FAILURE: Failure = Failure::Deadline { limit_ms: 10 };

fn by<D>(name: &str, decision: D) -> Decided<D> {
    Decided { by: handler(name), decision, failure: None }
}

fn failed<S: Seam>(name: &str) -> Decided<S::Decision> {
    Decided { by: handler(name), decision: S::failed(&FAILURE), failure: Some(FAILURE) }
}

/// Every order of up to four things.
fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    (0..items.len())
        .flat_map(|i| {
            let mut rest = items.to_vec();
            let first = rest.remove(i);
            orders(&rest).into_iter().map(move |mut tail| {
                tail.insert(0, first.clone());
                tail
            })
        })
        .collect()
}

fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Open => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Deferred { .. } => 2,
        Verdict::Closed { .. } => 3,
    }
}

// C-PIPE-2, C-SEAM-1, C-BRIDGE-9: deny beats defer beats ask beats allow, whatever the order.
#[test]
fn the_most_restrictive_gate_wins_in_every_order() {
    let gates = [
        (Gate::allow(), 0),
        (Gate::ask("a"), 1),
        (Gate::Ask { reason: None }, 1),
        (Gate::defer("l"), 2),
        (Gate::Defer { reason: None }, 2),
        (Gate::deny("d"), 3),
    ];
    let mut tried = 0;
    for a in &gates {
        for b in &gates {
            for c in &gates {
                let most = a.1.max(b.1).max(c.1);
                let three = [by("a", a.0.clone()), by("b", b.0.clone()), by("c", c.0.clone())];
                for order in orders(&three) {
                    assert_eq!(rank(&PreExecute::fold(&order)), most, "{order:?}");
                    tried += 1;
                }
            }
        }
    }
    assert_eq!(tried, 216 * 6);
    assert_eq!(PreExecute::fold(&[]), Verdict::Open);
}

// C-ASK-1: one ask, with everyone who wants it and every reason that was given, in order.
#[test]
fn asks_are_collected() {
    let asks = [
        by("a", Gate::ask("x")),
        by("b", Gate::allow()),
        by("c", Gate::Ask { reason: None }),
        by("d", Gate::ask("y")),
    ];
    let expected = Verdict::Ask {
        by: vec![handler("a"), handler("c"), handler("d")],
        reasons: vec!["x".into(), "y".into()],
    };
    assert_eq!(PreExecute::fold(&asks), expected);
}

// C-BRIDGE-9: the wait names who defers and why, and not who would have asked.
#[test]
fn deferrals_are_collected_without_the_asks() {
    let several = [
        by("a", Gate::ask("x")),
        by("b", Gate::Defer { reason: None }),
        by("c", Gate::allow()),
        by("d", Gate::defer("later")),
    ];
    let expected = Verdict::Deferred { by: vec![handler("b"), handler("d")], reasons: vec!["later".into()] };
    assert_eq!(PreExecute::fold(&several), expected);
    // A failure denies, and a denial is final.
    let failed = [by("b", Gate::defer("later")), failed::<PreExecute>("f")];
    assert!(matches!(PreExecute::fold(&failed), Verdict::Closed { failure: Some(_), .. }));
}

// C-PIPE-3: a failure denies; a reason that was stated says more than it. The model never reads a failure's details.
#[test]
fn a_stated_denial_speaks_before_a_failure() {
    let stated = by("stated", Gate::deny("no"));
    for order in
        orders(&[failed::<PreExecute>("f1"), stated, by("ask", Gate::ask("x")), failed::<PreExecute>("f2")])
    {
        let closed = Verdict::Closed { by: handler("stated"), reason: "no".into(), failure: None };
        assert_eq!(PreExecute::fold(&order), closed, "{order:?}");
    }
    for order in orders(&[failed::<PreExecute>("f1"), by("ask", Gate::ask("x")), by("ok", Gate::allow())]) {
        let Verdict::Closed { by, reason, failure } = PreExecute::fold(&order) else { panic!("{order:?}") };
        assert_eq!((by, failure), (handler("f1"), Some(FAILURE)));
        assert!(!reason.as_str().contains("10"), "{reason}");
    }
    // Of several who say why, the last one.
    let two = [by("a", Gate::deny("1")), by("b", Gate::deny("2"))];
    let Verdict::Closed { by, .. } = PreExecute::fold(&two) else { panic!("open") };
    assert_eq!(by, handler("b"));
}

// C-SEAM-1: only a deny ends the native chain.
#[test]
fn what_ends_a_chain() {
    assert!(PreExecute::ends_chain(&Gate::deny("d")));
    assert!(!PreExecute::ends_chain(&Gate::ask("a")));
    assert!(!PreExecute::ends_chain(&Gate::defer("l")));
    assert!(!PreExecute::ends_chain(&Gate::allow()));
    assert!(PromptSubmit::ends_chain(&Submit::block("b")));
    assert!(!PromptSubmit::ends_chain(&Submit::replace("x")));
    assert!(!Rewrite::ends_chain(&Proposal::pass()));
    assert!(!PostExecute::ends_chain(&Review::block("f")));
    assert!(!TurnContinuation::ends_chain(&Continue::again("x")));
}

fn arguments(n: u32) -> Frozen {
    Frozen::arguments(format!(r#"{{"n":{n}}}"#)).expect("an object")
}

// C-PIPE-9: the last proposal in order wins; a rewrite beside a carried deny is dropped, in every order.
#[test]
fn the_last_rewrite_wins_unless_a_deny_is_carried() {
    let one = by("one", Proposal::arguments(arguments(1)));
    let two = by("two", Proposal::arguments(arguments(2)));
    let pass = by("pass", Proposal::pass());
    for order in orders(&[one.clone(), two.clone(), pass.clone()]) {
        let last = order.iter().rfind(|d| d.decision.arguments.is_some()).expect("two propose");
        let folded = Rewrite::fold(&order);
        assert_eq!(
            folded.effective,
            Some((last.by.clone(), last.decision.arguments.clone().expect("it does")))
        );
        assert!(folded.carried.is_empty());
    }
    for (gate, dropped) in [(Gate::allow(), false), (Gate::ask("a"), false), (Gate::deny("d"), true)] {
        let carries = by("carries", Proposal::pass().carrying(gate.clone()));
        let both = by("both", Proposal::arguments(arguments(3)).carrying(gate.clone()));
        for order in orders(&[one.clone(), carries, both, pass.clone()]) {
            let folded = Rewrite::fold(&order);
            assert_eq!(folded.effective.is_none(), dropped, "{order:?}");
            assert_eq!(folded.carried.len(), 2);
            assert!(folded.carried.iter().all(|d| d.decision == gate));
        }
    }
    // A rewriter that fails denies, named, so no one else's rewrite runs either.
    for order in orders(&[one, failed::<Rewrite>("f")]) {
        let folded = Rewrite::fold(&order);
        assert!(folded.effective.is_none());
        let Verdict::Closed { by, failure, .. } = PreExecute::fold(&folded.carried) else { panic!("open") };
        assert_eq!((by, failure), (handler("f"), Some(FAILURE)));
    }
    assert!(Rewrite::fold(&[]).effective.is_none());
}

// C-TURN-2, 3: any block blocks, in every order; the last reason stated stands, before that of a failure; the last
// replacement is taken.
#[test]
fn prompts_are_blocked_by_anyone() {
    let replace = by("r", Submit::replace("other"));
    let allow = by("a", Submit::allow());
    let block = by("b", Submit::block("no"));
    let fail = failed::<PromptSubmit>("f");
    for order in orders(&[replace.clone(), allow.clone(), block.clone(), fail.clone()]) {
        assert_eq!(PromptSubmit::fold(&order), Judged::Blocked("no".into()), "{order:?}");
    }
    for order in orders(&[replace.clone(), allow.clone(), fail]) {
        let Judged::Blocked(reason) = PromptSubmit::fold(&order) else { panic!("{order:?}") };
        assert!(!reason.as_str().contains("10"), "{reason}");
    }
    for order in orders(&[replace, allow.clone()]) {
        assert_eq!(PromptSubmit::fold(&order), Judged::Pass(Some("other".into())));
    }
    let twice = [by("1", Submit::replace("1")), by("2", Submit::replace("2")), allow.clone()];
    assert_eq!(PromptSubmit::fold(&twice), Judged::Pass(Some("2".into())));
    assert_eq!(PromptSubmit::fold(&[allow]), Judged::Pass(None));
    let blocks = [block, by("c", Submit::block("nor that"))];
    assert_eq!(PromptSubmit::fold(&blocks), Judged::Blocked("nor that".into()));
}

// C-PIPE-3, 6: feedback replaces the content, each on a line; a failed review lets the result stand.
#[test]
fn feedback_beats_replacement() {
    let accept = by("a", Review::accept());
    let replace = by("r", Review::replace("other"));
    let block = by("b", Review::block("fix"));
    for order in orders(&[accept.clone(), replace.clone(), block.clone(), failed::<PostExecute>("f")]) {
        assert_eq!(PostExecute::fold(&order), Reviewed::Blocked("fix".into()), "{order:?}");
    }
    for order in orders(&[accept.clone(), replace, failed::<PostExecute>("f")]) {
        assert_eq!(PostExecute::fold(&order), Reviewed::Replaced("other".into()), "{order:?}");
    }
    for order in orders(&[accept, failed::<PostExecute>("f")]) {
        assert_eq!(PostExecute::fold(&order), Reviewed::Stands, "{order:?}");
    }
    let two = [block, by("c", Review::block("and that"))];
    assert_eq!(PostExecute::fold(&two), Reviewed::Blocked("fix\nand that".into()));
    let later = [by("1", Review::replace("1")), by("2", Review::replace("2"))];
    assert_eq!(PostExecute::fold(&later), Reviewed::Replaced("2".into()));
}

// C-TURN-7, C-PIPE-3: anyone may continue; a failure stops.
#[test]
fn anyone_may_continue() {
    let none = by("n", Continue::Abstain);
    let again = by("a", Continue::again("more"));
    let bare = by("b", Continue::Again { reason: None });
    for order in orders(&[none.clone(), again.clone(), bare, failed::<TurnContinuation>("f")]) {
        let mut folded = TurnContinuation::fold(&order);
        let expected: Vec<&HandlerId> =
            order.iter().filter(|d| d.decision != Continue::Abstain).map(|d| &d.by).collect();
        assert_eq!(folded.iter().map(|(by, _)| by).collect::<Vec<_>>(), expected, "in order");
        folded.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert_eq!(folded, [(handler("a"), Some("more".into())), (handler("b"), None)]);
    }
    assert!(TurnContinuation::fold(&[none, failed::<TurnContinuation>("f")]).is_empty());
    let mut seen = Ending::new(
        Scene::new(std::sync::Arc::new(SessionInfo::new(common::session(), "/w".into(), "cli")), 1, 1, None),
        0,
        "".into(),
    );
    TurnContinuation::advance(&mut seen, &handler("a"), &again.decision, true);
    assert_eq!(seen.decided, [(handler("a"), Continue::again("more"))]);
}

/// Of every seam: a decision goes into a record and comes back; another point's does not.
fn round<S: Seam>(decision: S::Decision)
where
    S::Decision: PartialEq + std::fmt::Debug,
{
    let recorded = S::record(decision.clone());
    assert_eq!(S::recall(&recorded), Some(&decision));
    let other = match S::POINT {
        Point::Continuation => Decision::SessionStart(Started {}),
        _ => Decision::Continuation(Continue::Abstain),
    };
    assert_eq!(S::recall(&other), None);
}

// C-DUR-1: the decision that was recorded is the one that recovery reads.
#[test]
fn decisions_survive_their_record() {
    round::<SessionStart>(Started {});
    round::<PromptSubmit>(Submit::replace("x"));
    round::<PromptSubmit>(Submit::block("x"));
    round::<Rewrite>(Proposal::arguments(arguments(1)).carrying(Gate::ask("x")));
    round::<PreExecute>(Gate::deny("x"));
    round::<Permission>(Permit::deny("x"));
    round::<PostExecute>(Review::block("x"));
    round::<ToolBatch>(Batched {});
    round::<TurnContinuation>(Continue::again("x"));
    round::<TurnStop>(StopTurn::Stop);
    round::<Compaction>(Compact::keeping("x"));
    round::<Compaction>(Compact::skip("x"));
}

// C-PIPE-2: one that skips wins, whatever the order; instructions keep that of their handlers.
#[test]
fn a_skipped_compaction_wins_and_instructions_keep_their_order() {
    let by = |name: &str, decision| Decided { by: HandlerId::new("p", name), decision, failure: None };
    let (a, b) = (by("a", Compact::keeping("one")), by("b", Compact::keeping("two")));
    let (quiet, skip) = (by("c", Compact::keeping(" ")), by("d", Compact::skip("no")));
    let go = Compacted::Go(vec!["one".into(), "two".into()]);
    assert_eq!(Compaction::fold(&[a.clone(), quiet, b.clone()]), go);
    assert_eq!(Compaction::fold(&[]), Compacted::Go(vec![]));
    for order in [[&a, &skip, &b], [&skip, &a, &b], [&a, &b, &skip]] {
        let decided: Vec<_> = order.into_iter().cloned().collect();
        assert_eq!(Compaction::fold(&decided), Compacted::Left(HandlerId::new("p", "d"), "no".into()));
    }
}

// C-PIPE-2: deny beats allow beats no answer, whatever the order; a denial that was meant stands before a failure's.
#[test]
fn a_denied_question_wins_in_any_order() {
    let (silent, allow) = (by("silent", Permit::Abstain), by("allow", Permit::Allow));
    let (deny, mut failed) = (by("deny", Permit::deny("no")), by("failed", Permission::failed(&FAILURE)));
    failed.failure = Some(FAILURE);
    assert_eq!(Permission::fold(std::slice::from_ref(&silent)), Permitted::Open);
    for order in orders(&[silent.clone(), allow.clone()]) {
        assert_eq!(Permission::fold(&order), Permitted::Allowed(handler("allow")));
    }
    let denied = |name: &str, reason: &str, failure: Option<Failure>| Permitted::Denied {
        by: handler(name),
        reason: reason.into(),
        failure,
    };
    for order in orders(&[silent.clone(), allow.clone(), deny, failed.clone()]) {
        assert_eq!(Permission::fold(&order), denied("deny", "no", None));
    }
    let generic = "A policy check failed, so this call was not run.";
    for order in orders(&[silent, allow, failed]) {
        assert_eq!(Permission::fold(&order), denied("failed", generic, Some(FAILURE)));
    }
}

// C-PIPE-3: what a failure means, per seam.
#[test]
fn each_seam_has_its_failure_rule() {
    assert!(matches!(PreExecute::failed(&FAILURE), Gate::Deny { .. }));
    assert!(matches!(Rewrite::failed(&FAILURE).carried, Some(Gate::Deny { .. })));
    assert!(matches!(Permission::failed(&FAILURE), Permit::Deny { .. }));
    assert!(matches!(PromptSubmit::failed(&FAILURE), Submit::Block { .. }));
    assert_eq!(PostExecute::failed(&FAILURE), Review::accept());
    assert_eq!(TurnContinuation::failed(&FAILURE), Continue::Abstain);
    assert_eq!(SessionStart::failed(&FAILURE), Started {});
    assert_eq!(TurnStop::failed(&FAILURE), StopTurn::Stop);
    assert!(matches!(Compaction::failed(&FAILURE), Compact::Skip { .. }));
}

// An empty reason becomes a sentence: the model and the person never read nothing.
#[test]
fn no_reason_is_empty() {
    assert_eq!(Gate::deny(" "), Gate::deny(Reason::GENERIC));
    assert_eq!(Review::block(""), Review::block(Reason::GENERIC));
}

/// Of every seam: what says nothing can be left out anywhere, and the decisions come to the same.
fn silent<S: Seam>(silent: S::Decision, others: &[S::Decision])
where
    S::Folded: std::fmt::Debug,
{
    assert!(S::says_nothing(&silent));
    assert!(others.iter().all(|other| !S::says_nothing(other)));
    for order in orders(others) {
        let told: Vec<Decided<S::Decision>> =
            order.iter().enumerate().map(|(n, d)| by(&format!("h{n}"), d.clone())).collect();
        for place in 0..=told.len() {
            let mut with = told.clone();
            with.insert(place, by("silent", silent.clone()));
            assert_eq!(format!("{:?}", S::fold(&with)), format!("{:?}", S::fold(&told)), "{}", S::POINT);
        }
    }
}

// C-SEAM-1: the law folds only what was said.
#[test]
fn what_says_nothing_changes_no_fold() {
    silent::<PromptSubmit>(Submit::allow(), &[Submit::replace("x"), Submit::block("y"), Submit::block("z")]);
    let new = Proposal::arguments(arguments(1));
    let asks = Proposal::pass().carrying(Gate::ask("a"));
    silent::<Rewrite>(Proposal::pass(), &[new.clone(), asks.clone(), new.clone().carrying(Gate::allow())]);
    silent::<Rewrite>(Proposal::pass(), &[new, asks, Proposal::pass().carrying(Gate::deny("d"))]);
    let loud = [Gate::ask("a"), Gate::Ask { reason: None }, Gate::Defer { reason: None }, Gate::deny("d")];
    silent::<PreExecute>(Gate::allow(), &loud);
    silent::<Permission>(Permit::Abstain, &[Permit::Allow, Permit::deny("d")]);
    silent::<PostExecute>(
        Review::accept(),
        &[Review::replace("x"), Review::replace("y"), Review::block("z")],
    );
    silent::<TurnContinuation>(Continue::Abstain, &[Continue::again("a"), Continue::again("b")]);
    silent::<TurnStop>(StopTurn::Abstain, &[StopTurn::Stop]);
    silent::<Compaction>(Compact::proceed(), &[Compact::keeping("x"), Compact::skip("y")]);
}

// C-PIPE-2: a verdict that a rewriter carries and that objects to nothing is as silent as the gate's own.
#[test]
fn a_carried_allow_says_nothing() {
    let allows = Proposal::pass().carrying(Gate::allow());
    assert!(Rewrite::says_nothing(&allows));
    for other in [Gate::ask("a"), Gate::deny("d")] {
        let other = by("other", Proposal::pass().carrying(other));
        let alone = Rewrite::fold(std::slice::from_ref(&other));
        for both in orders(&[other, by("allows", allows.clone())]) {
            let both = Rewrite::fold(&both);
            assert_eq!(both.effective, alone.effective);
            assert_eq!(PreExecute::fold(&both.carried), PreExecute::fold(&alone.carried));
        }
    }
}
