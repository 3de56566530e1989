//! `portcullis log show`, `export` and `import`.

use crate::support::{Project, done, portcullis, records};
use portcullis::{
    AgentKind, Journal, Runtime, ScriptedModel, SessionOptions, agent_tool, sqlite::SqliteJournal,
    tools::Workspace,
};
use std::{fs, time::Duration};

const MODEL: &str = r#"{"turns": [
    {"prompt": "first", "steps": [{"calls": [{"name": "Bash", "input": {"command": "printf 'a\\tb'"}}]}, {"text": "one"}]},
    {"prompt": "second", "steps": [{"text": "two"}]}
]}"#;

/// A session `root` that has a subagent.
async fn family(project: &Project) {
    let model = r#"{"turns": [
        {"prompt": "delegate", "steps": [
            {"calls": [{"name": "Agent", "input": {"description": "dig", "prompt": "dig"}}]}, {"text": "done"}
        ]},
        {"prompt": "dig", "steps": [{"text": "dug"}]}
    ]}"#;
    let journal = SqliteJournal::open(project.path().join(".portcullis/journal.db")).unwrap();
    let runtime = Runtime::builder(ScriptedModel::from_json(model).unwrap())
        .journal(journal)
        .tools(Workspace::new(project.path()).unwrap().tools())
        .tool(agent_tool(vec![AgentKind::new("digger", "Digs.")]).unwrap())
        .start()
        .await
        .unwrap();
    let session = runtime.open("root", SessionOptions::new(project.path())).await.unwrap();
    assert!(session.prompt("delegate").await.unwrap().await.is_success());
    runtime.shutdown(Duration::from_secs(60)).await;
}

#[test]
fn show_is_what_log_shows() {
    let project = Project::new(MODEL);
    project.run(&[]);
    for args in [&["run-1"][..], &["run-1", "--json"]] {
        let shown = project.logs("show", args);
        assert_eq!((shown.code, &shown.out), (Some(0), &project.log(args).out));
    }
    project.logs("show", &["run-7"]).refused(&["no session `run-7`"]);
}

#[test]
fn an_export_holds_the_stored_lines_and_goes_into_another_journal() {
    let project = Project::new(MODEL);
    assert_eq!(project.run(&[]).code, Some(0));
    let stored = project.stored("run-1");
    let file = project.path().join("run-1.jsonl");
    let exported = project.logs("export", &["run-1", "-o", file.to_str().unwrap()]);
    assert_eq!((exported.code, exported.out.as_str()), (Some(0), ""), "{}", exported.err);
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let first = format!(
        r#"{{"portcullis":"log","v":1,"sessions":[{{"session":"run-1","records":{}}}]}}"#,
        stored.len()
    );
    assert_eq!(lines[0], first);
    assert_eq!(lines[1..], stored, "the very lines that the journal keeps");
    assert_eq!(project.logs("export", &["run-1"]).out, text);
    project
        .logs("export", &["run-1", "-o", file.to_str().unwrap()])
        .refused(&["cannot be written", "name another file"]);

    let other = Project::new(MODEL);
    let imported = other.logs("import", &[file.to_str().unwrap()]);
    assert_eq!(imported.code, Some(0), "{}", imported.err);
    assert_eq!(imported.out, format!("run-1  {} records\n", stored.len()));
    assert_eq!(other.stored("run-1"), stored);
    assert_eq!(other.log(&["run-1"]).out, project.log(&["run-1"]).out);
    other
        .logs("import", &[file.to_str().unwrap()])
        .refused(&["has a session `run-1` already", "nothing was"]);
}

#[test]
fn a_damaged_file_is_refused_whole() {
    let project = Project::new(MODEL);
    project.run(&[]);
    let text = project.logs("export", &["run-1"]).out;
    let file = project.path().join("cut.jsonl");
    let name = file.to_str().unwrap();
    let cut: String = text.split_inclusive('\n').take(5).collect();
    fs::write(&file, cut).unwrap();
    let other = Project::new(MODEL);
    other.logs("import", &[name]).refused(&["no whole exported log", "ends after line 5"]);
    fs::write(&file, text.replacen("\"kind\":\"prompt\"", "\"kind\":\"wish\"", 1)).unwrap();
    other.logs("import", &[name]).refused(&["no whole exported log", "line 4", "prompt/queued"]);
    other.log(&[]).refused(&["no sessions yet"]);
    other.logs("import", &["nowhere.jsonl"]).refused(&["nowhere.jsonl cannot be read"]);
}

// C-SUB-1: a subagent's log is its own; it belongs to the one that started it.
#[tokio::test]
async fn a_tree_goes_whole_and_a_subagent_not_alone() {
    let project = Project::new(MODEL);
    family(&project).await;
    let child = "root.1-1-0-0";
    let alone = project.logs("export", &["root"]).out;
    assert!(alone.starts_with(r#"{"portcullis":"log","v":1,"sessions":[{"session":"root","#), "{alone}");
    assert!(!alone.lines().next().unwrap().contains(child), "{alone}");
    let tree = project.logs("export", &["root", "--tree"]).out;
    let lines = project.stored("root").len() + project.stored(child).len();
    assert_eq!(tree.lines().count(), 1 + lines);

    let (other, file) = (Project::new(MODEL), project.path().join("tree.jsonl"));
    fs::write(&file, project.logs("export", &[child]).out).unwrap();
    other.logs("import", &[file.to_str().unwrap()]).refused(&["a subagent's of `root`", "--tree"]);
    fs::write(&file, &tree).unwrap();
    let mut piped = portcullis();
    piped.args(["log", "import"]).arg(other.path()).arg("-").stdin(fs::File::open(&file).unwrap());
    let imported = done(&mut piped);
    assert_eq!(imported.code, Some(0), "{}", imported.err);
    assert_eq!(other.logs("export", &["root", "--tree"]).out, tree);
    let journal = SqliteJournal::read_only(other.path().join(".portcullis/journal.db")).unwrap();
    assert_eq!(journal.sessions().await.unwrap().len(), 2);
    drop(journal);

    // Cut off between the two, it is done again; not over a subagent's log that says something else.
    let name = file.to_str().unwrap();
    other.damage("DELETE FROM records WHERE session = 'root'");
    other.damage("DELETE FROM sessions WHERE session = 'root'");
    let again = other.logs("import", &[name]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert_eq!(other.logs("export", &["root", "--tree"]).out, tree);
    other.damage("DELETE FROM records WHERE session = 'root'");
    other.damage("DELETE FROM sessions WHERE session = 'root'");
    fs::write(&file, tree.replace("dug", "dig")).unwrap();
    other.logs("import", &[name]).refused(&["has a session `root.1-1-0-0` already", "nothing was"]);
}

// C-DUR-9: a log that cannot be read leaves no half of itself behind.
#[test]
fn an_export_that_fails_leaves_no_file() {
    let project = Project::new(MODEL);
    project.run(&[]);
    project.damage("UPDATE records SET record = 'x' WHERE seq = 5");
    let file = project.path().join("half.jsonl");
    let failed = project.logs("export", &["run-1", "-o", file.to_str().unwrap()]);
    failed.refused(&["record 5"]);
    assert!(!file.exists());
}

// C-ASK-3: a question that waits, waits there, too.
#[test]
fn a_parked_session_goes_on_where_it_was_imported() {
    let project = Project::new(MODEL).hook(
        "PreToolUse",
        r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"}}'"#,
    );
    assert_eq!(project.run(&["--detach-on-ask"]).code, Some(3));
    let file = project.path().join("parked.jsonl");
    project.logs("export", &["run-1", "-o", file.to_str().unwrap()]);
    let other = Project::new(MODEL);
    other.logs("import", &[file.to_str().unwrap()]);
    let waits = other.log(&["--json"]).out;
    assert!(waits.contains(r#""waits":["run-1:1/1/0"]"#), "{waits}");
    let answered = done(&mut other.command("answer", &["run-1:1/1/0", "allow", "--json"]));
    assert_eq!(answered.code, Some(0), "{}{}", answered.out, answered.err);
    assert!(records(&answered.out).iter().any(|record| record.kind == "tool/returned"));
}
