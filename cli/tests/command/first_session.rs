//! The example that the README begins with: it finishes alone, and does the same the second time.

use crate::support::{Project, example, kinds};
use std::{collections::BTreeMap, fs};

#[test]
fn it_tells_its_story_twice() {
    let project = Project::copy(&example());
    let first = project.run(&["--yes", "--json"]);
    assert_eq!(first.code, Some(0), "{}{}", first.out, first.err);
    assert!(!first.err.contains("settings.json"), "nothing in its settings is reported: {}", first.err);
    let file = |name| fs::read_to_string(project.path().join("workspace").join(name)).unwrap();
    let after = ["CHANGES.md", "NOTES.md", "published.md", "trash/app.o"];
    let left = after.map(file);
    assert_eq!(left[0], "# Changes\n\n- Moved the build folder to trash.\n- Published the notes.\n");
    assert_eq!(left[1], left[2]);

    let second = project.run(&["--yes", "--json"]);
    assert_eq!(second.code, Some(0), "{}{}", second.out, second.err);
    let records = first.records();
    assert_eq!(kinds(&records), kinds(&second.records()));
    assert_eq!(after.map(file), left, "the workspace was restored, and then changed in the same way");

    // C-LOG-1, C-LOG-4: no gaps; every call has its result; what opens closes.
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for (record, seq) in records.iter().zip(0..) {
        assert_eq!(record.seq, seq);
        *count.entry(&record.kind).or_default() += 1;
    }
    let pairs = [
        ("turn/start", "turn/end"),
        ("step/start", "step/end"),
        ("tool/call", "tool/result"),
        ("tool/dispatched", "tool/returned"),
        ("input/requested", "input/resolved"),
        ("hook/invoked", "hook/result"),
        ("hook/result", "decision/recorded"),
        ("model/requested", "assistant/message"),
    ];
    for (opens, closes) in pairs {
        assert!(count.contains_key(opens), "the story has a {opens}");
        assert_eq!(count.get(opens), count.get(closes), "{opens} and {closes}");
    }

    // One denied, one rewritten, one asked about, a check's output after a write, one refusal to stop.
    let of = |kind: &str| {
        records.iter().filter(|record| record.kind == kind).map(|record| record.data.get()).collect()
    };
    let has = |kind: &str, part: &str| {
        let data: Vec<&str> = of(kind);
        data.iter().filter(|data| data.contains(part)).count()
    };
    assert_eq!(has("tool/result", r#""kind":"hook_deny""#), 1);
    assert_eq!(has("tool/rewrite", "mv -n workspace/build"), 1);
    assert_eq!(has("input/resolved", r#""resolution":"allowed""#), 1);
    assert_eq!(has("context/message", "Lines that end in spaces"), 1);
    assert_eq!(has("steering/message", "before you stop"), 1);
    assert_eq!(has("steering/message", r#""kind":"user""#), 0, "C-LOG-7: never recorded as the user");
}

#[test]
fn the_timeline_says_who_decided_what_and_why() {
    let project = Project::copy(&example());
    let run = project.run(&["--yes"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    let line = |begins: &str, part: &str| {
        let found = run.out.lines().any(|line| line.trim_start().starts_with(begins) && line.contains(part));
        assert!(found, "there is no {begins} with {part:?} in\n{}", run.out);
    };
    line("you", "Clear out the stale build folder");
    line("+ context", "restore.sh (");
    line("Bash", "rm -rf workspace/build");
    line("✗ denied", "guard-rm.sh (");
    line("· passed", "guard-rm.sh (");
    line("~ changed", "mv -n workspace/build");
    line("? asks", "cannot be taken back");
    line("✓ allowed", "--yes");
    line("✓ done", "published 3 lines");
    line("+ context", "check-spaces.sh (");
    line("↻ goes on", "check-done.sh (");
    line("completed", "7 steps");
    line("run-1 completed", "portcullis log");
    assert!(run.out.lines().all(|line| line.chars().count() <= 100 || line.contains("portcullis log")));
    assert!(!run.out.contains('\x1b'), "no colours but on a terminal");

    // The log shows the same turn, but for who stood for the user.
    let log = project.log(&["run-1"]);
    let (shown, told) = (log.out.trim_end(), run.out.trim_end());
    let told = told.rsplit_once('\n').unwrap().0.replace("you, in advance (--yes)", "the user");
    assert_eq!((log.code, shown), (Some(0), told.as_str()));
}

// C-ASK-2: without a channel the call is denied, and the text says so. The example's script then says what it missed.
#[test]
fn without_anyone_to_ask_it_ends_otherwise() {
    let run = Project::copy(&example()).run(&[]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.out.contains("there is no one to ask; run on a terminal to be asked, or with --yes to allow"),
        "{}",
        run.out
    );
    assert!(run.last_line().starts_with("run-1 ended error in turn 1"), "{}", run.out);
}
