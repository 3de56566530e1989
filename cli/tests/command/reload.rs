//! Files of hooks that change while their session goes on.

use crate::support::Project;

const MODEL: &str = r#"{"turns": [
    {"prompt": "one", "steps": [
        {"calls": [{"name": "Bash", "input": {"command": "sed -i s/first/second/ .claude/settings.json"}}]},
        {"text": "done"}]},
    {"prompt": "two", "steps": [{"text": "done"}]}
]}"#;

#[test]
fn a_change_counts_from_the_next_turn_on_and_the_timeline_says_so() {
    let project = Project::new(MODEL).hook("UserPromptSubmit", "echo the first");
    let run = project.run(&[]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    let (before, after) = run.out.split_once("completed   turn 1").unwrap();
    assert!(before.contains("success: the first") && !before.contains("other handlers"), "{}", run.out);
    assert!(after.contains("success: the second") && !after.contains("the first"), "{}", run.out);
    assert!(after.contains("changed     other handlers are in force from here on"), "{}", run.out);
    assert_eq!(run.out.matches("session ").count(), 1, "{}", run.out);
    assert!(run.err.contains("settings.json has changed"), "{}", run.err);
}
