//! C-BRIDGE-1: `CLAUDE_ENV_FILE`, where it is set, whose it is, and what of it counts.

mod support;

use portcullis_hooks::{ClaudeHooks, Moment};
use portcullis_runtime::*;
use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt, path::PathBuf};
use support::Project;

/// Writes what the tests look for, and where it did.
const EXPORT: &str = r#"echo "export $0=1" >> "$CLAUDE_ENV_FILE"; echo "$CLAUDE_ENV_FILE" >> places"#;

/// A hook in exec form that exports this name.
fn hook(name: &str) -> String {
    let command = serde_json::to_string(EXPORT).unwrap();
    format!(r#"{{"type":"command","command":"sh","args":["-c",{command},"{name}"]}}"#)
}

fn project() -> Project {
    Project::new(&format!(
        r#"{{"hooks":{{"SessionStart":[{{"matcher":"startup","hooks":[{},{}]}},{{"hooks":[{}]}}],
            "Stop":[{{"hooks":[{{"type":"command","command":"env > seen"}}]}}]}}}}"#,
        hook("A"),
        hook("B"),
        hook("C")
    ))
}

fn start(project: &Project, source: StartSource) {
    let seen = project.dispatch::<SessionStart>(Starting::new(project.scene(), source, None));
    assert!(seen.results.iter().all(|result| result.exit == Some(0)), "{:?}", seen.results);
}

fn written(project: &Project, session: &SessionInfo) -> Vec<PathBuf> {
    let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
    hooks.exports(session).unwrap()
}

#[test]
fn each_hook_that_runs_has_a_file_of_its_own_and_what_is_there_stays() {
    let project = project();
    start(&project, StartSource::Startup);
    let folder = project.path().join(".portcullis/session-env/s-1");
    let files: Vec<PathBuf> = (0..3).map(|n| folder.join(format!("sessionstart-hook-{n}.sh"))).collect();
    assert_eq!(project.read("places").lines().map(PathBuf::from).collect::<Vec<_>>(), files);
    // One runs when it is resumed; it is the first then, as in the client, and takes nothing from what was said before.
    start(&project, StartSource::Resume);
    assert_eq!(fs::read_to_string(&files[0]).unwrap(), "export A=1\nexport C=1\n");
    assert_eq!(written(&project, &project.scene().session), files);
    assert_eq!(written(&project, &project.inside("Explore").session), files, "subagents have the same");
    let other = SessionInfo::new(SessionId::new("s-2").unwrap(), project.path(), "test");
    assert!(written(&project, &other).is_empty());
    // For nobody but its owner.
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    // Other events have none.
    project.dispatch::<TurnContinuation>(Ending::new(project.scene(), 0, "".into()));
    assert!(!project.read("seen").contains("CLAUDE_ENV_FILE"));
}

#[test]
fn files_count_in_the_order_of_their_hooks_and_nothing_else_in_the_folder_does() {
    let project = project();
    let folder = project.path().join(".portcullis/session-env/s-1");
    fs::create_dir_all(folder.join("sessionstart-hook-5.sh")).unwrap();
    for name in
        ["sessionstart-hook-10.sh", "sessionstart-hook-2.sh", "sessionstart-hook-x.sh", "stop-hook-1.sh", "a"]
    {
        fs::write(folder.join(name), "").unwrap();
    }
    let names: Vec<PathBuf> = written(&project, &project.scene().session);
    let names: Vec<&OsStr> = names.iter().filter_map(|path| path.file_name()).collect();
    assert_eq!(names, ["sessionstart-hook-2.sh", "sessionstart-hook-10.sh"]);
    // What cannot be read is no empty environment.
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    let (hooks, _) = ClaudeHooks::load(project.path());
    assert!(hooks.exports(&project.scene().session).is_err());
}

// Explained and run: the same file, and explaining makes none.
#[test]
fn what_is_explained_is_what_is_set() {
    let project = project();
    let (hooks, _) = ClaudeHooks::load(project.path());
    for (source, runs) in [(StartSource::Startup, 3), (StartSource::Resume, 1)] {
        let moment = Moment::SessionStart(Starting::new(project.scene(), source, None));
        let explained = hooks.explain(&moment).unwrap();
        let running = explained.hooks.iter().filter(|one| one.why_not.is_none());
        let said: Vec<PathBuf> = running
            .flat_map(|one| one.env.iter().filter(|(name, _)| name == "CLAUDE_ENV_FILE"))
            .map(|(_, value)| value.clone().unwrap().into())
            .collect();
        assert_eq!(said.len(), runs);
        assert!(!project.path().join(".portcullis").exists());
        start(&project, source);
        assert_eq!(project.read("places").lines().map(PathBuf::from).collect::<Vec<_>>(), said);
        fs::remove_dir_all(project.path().join(".portcullis")).unwrap();
        fs::remove_file(project.path().join("places")).unwrap();
    }
}

// In shadow a hook works as ever, and nothing it says counts.
#[test]
fn what_a_hook_in_shadow_exports_reaches_nobody() {
    let project = project().options(|options| options.shadow(true));
    start(&project, StartSource::Startup);
    assert_eq!(project.lines("places"), 3);
    assert!(written(&project, &project.scene().session).is_empty());
    // The first hook makes the session's folder: for nobody but its owner, too.
    let folder = project.path().join(".portcullis/session-env/s-1");
    for folder in [folder.join("shadow"), folder] {
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
    }
}
