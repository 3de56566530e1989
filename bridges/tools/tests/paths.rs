//! No path leads out of the root, and nothing but regular files is opened.

mod common;
use common::*;
use portcullis_runtime::Cancel;
use std::os::unix::fs::symlink;

/// Every file tool refuses `path` with a text that contains `why`.
fn all_refuse(desk: &Desk, path: &str, why: &str) {
    let path = quoted(path);
    for (tool, rest) in
        [("Read", ""), ("Write", r#","content":"x""#), ("Edit", r#","old_string":"secret","new_string":"x""#)]
    {
        let text = desk.refused(tool, &format!(r#"{{"file_path":{path}{rest}}}"#));
        assert!(text.contains(why), "{tool} {path}: {text}");
    }
    assert_eq!(std::fs::read_to_string(desk.outer.path().join("secret")).expect("there"), "secret\n");
}

// C-PIPE-2's promise needs bodies that keep to what was judged: a path is what it says, beneath the root.
#[test]
fn paths_out_of_the_root_are_refused() {
    let desk = desk();
    std::fs::create_dir(desk.path("sub")).expect("a folder");
    let secret = desk.outer.path().join("secret");
    // A neighbour whose name begins with the root's.
    std::fs::write(desk.outer.path().join("root2"), "secret\n").expect("written");
    for path in [
        "../secret",
        "sub/../../secret",
        "missing/../../secret",
        "./.././secret",
        "../../../../../../../../etc/passwd",
        "/etc/passwd",
        "../root2",
        &secret.display().to_string(),
        &format!("{}/../secret", desk.workspace.root().display()),
        &format!("{}2", desk.workspace.root().display()),
    ] {
        all_refuse(&desk, path, "outside of the workspace");
    }
    all_refuse(&desk, "a\0b", "no path");
    all_refuse(&desk, &"a/".repeat(3000), "no path");
    all_refuse(&desk, "", "empty");
}

#[test]
fn links_out_of_the_root_are_refused() {
    let desk = desk();
    let outer = desk.outer.path();
    symlink(outer.join("secret"), desk.path("absolute")).expect("a link");
    symlink("../secret", desk.path("relative")).expect("a link");
    symlink("..", desk.path("up")).expect("a link");
    symlink("relative", desk.path("chain")).expect("a link");
    for path in ["absolute", "relative", "up/secret", "chain", "up/root2/new"] {
        all_refuse(&desk, path, "through a symbolic link, which is not allowed");
    }
    // A link to a place that does not exist yet would create the file outside.
    symlink(outer.join("new"), desk.path("dangling")).expect("a link");
    symlink(outer.join("new-folder"), desk.path("dangling-folder")).expect("a link");
    symlink("circle", desk.path("circle")).expect("a link");
    for path in ["dangling", "dangling-folder/file", "circle", "circle/file"] {
        all_refuse(&desk, path, "a symbolic link that cannot be followed");
    }
    assert!(!outer.join("new").exists() && !outer.join("new-folder").exists());
}

#[test]
fn links_inside_the_root_and_absolute_paths_work() {
    let mut desk = desk();
    std::fs::create_dir(desk.path("sub")).expect("a folder");
    desk.put("sub/file", "text\n");
    symlink(desk.path("sub"), desk.path("link")).expect("a link");
    symlink("sub/file", desk.path("to-file")).expect("a link");
    let absolute = desk.path("link/file").display().to_string();
    for path in ["sub/file", "link/file", "to-file", "sub/./../sub/file", "nothing/../sub/file", &absolute] {
        let (text, _) = desk.done("Read", &format!(r#"{{"file_path":{}}}"#, quoted(path)));
        assert_eq!(text, "     1\ttext", "{path}");
    }
    desk.done("Write", r#"{"file_path":"to-file","content":"new\n"}"#);
    assert_eq!(desk.get("sub/file"), "new\n");
    assert!(std::fs::symlink_metadata(desk.path("to-file")).expect("there").is_symlink());
    // Relative paths count from the session's directory, `..` from there stays inside.
    desk.cwd = desk.path("sub");
    desk.done("Read", r#"{"file_path":"file"}"#);
    desk.done("Read", r#"{"file_path":"../to-file"}"#);
    all_refuse(&desk, "../../secret", "outside of the workspace");
    // A root that was named through a link is known by both names.
    let alias = desk.outer.path().join("alias");
    symlink(desk.workspace.root(), &alias).expect("a link");
    desk.workspace = portcullis_tools::Workspace::new(&alias).expect("a workspace");
    let path = quoted(alias.join("sub/file").display().to_string());
    desk.done("Read", &format!(r#"{{"file_path":{path}}}"#));
}

#[test]
fn a_session_outside_of_the_workspace_is_refused() {
    let mut desk = desk();
    desk.put("file", "x");
    desk.cwd = desk.outer.path().to_owned();
    all_refuse(&desk, "file", "is not inside the workspace");
    assert!(desk.refused("Bash", r#"{"command":"pwd"}"#).contains("is not inside the workspace"));
    desk.cwd = desk.path("gone");
    all_refuse(&desk, "file", "does not exist");
}

// C-RUN-2: a FIFO that nobody writes to must not hold the call, nor a thread.
#[test]
fn special_files_are_refused_without_being_opened() {
    let desk = desk();
    let (made, _) = desk.done("Bash", r#"{"command":"mkfifo pipe && echo made"}"#);
    assert_eq!(made, "made");
    symlink("pipe", desk.path("to-pipe")).expect("a link");
    all_refuse(&desk, "pipe", "is a FIFO");
    all_refuse(&desk, "to-pipe", "is a FIFO");
    let _socket = std::os::unix::net::UnixListener::bind(desk.path("socket")).expect("a socket");
    all_refuse(&desk, "socket", "is a socket");
    std::fs::create_dir(desk.path("sub")).expect("a folder");
    all_refuse(&desk, "sub", "is a directory");
    all_refuse(&desk, ".", "is a directory");
    desk.put("file", "x");
    all_refuse(&desk, "file/below", "not a directory");
}

#[test]
fn devices_are_refused_where_the_root_has_some() {
    let mut desk = desk();
    desk.workspace = portcullis_tools::Workspace::new("/dev").expect("a workspace");
    desk.cwd = "/dev".into();
    for tool in [r#"Read {"file_path":"null"}"#, r#"Write {"file_path":"zero","content":""}"#] {
        let (name, arguments) = tool.split_once(' ').expect("two parts");
        let error = desk.call_until(name, arguments, Cancel::new()).expect_err("refused");
        assert!(error.to_string().contains("is a device"), "{error}");
    }
}

#[test]
fn a_root_must_be_a_directory() {
    let desk = desk();
    for path in [desk.outer.path().join("secret"), desk.outer.path().join("missing")] {
        let error = portcullis_tools::Workspace::new(path).expect_err("refused");
        assert_eq!(error.code(), "workspace_root");
        assert!(error.to_string().contains("cannot be a workspace"));
    }
}
