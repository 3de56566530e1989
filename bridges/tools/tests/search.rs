//! Glob and Grep.

mod common;
use common::*;
use portcullis_runtime::{Cancel, Cause};
use std::os::unix::fs::symlink;

fn tree() -> Desk {
    let desk = desk();
    for folder in ["src/inner", "docs", ".git"] {
        std::fs::create_dir_all(desk.path(folder)).expect("a folder");
    }
    desk.put("f.txt", "first\nneedle\n");
    desk.put("src/main.rs", "fn main() {}\n// Needle here\n");
    desk.put("src/inner/lib.rs", "needle\nx\nneedle");
    desk.put("docs/a.md", "nothing\n");
    desk.put(".git/config", "needle\n");
    desk.put(".hidden", "needle\n");
    desk.put("binary", b"needle\0");
    symlink(desk.outer.path(), desk.path("out")).expect("a link");
    symlink("f.txt", desk.path("link.txt")).expect("a link");
    desk
}

fn glob(desk: &Desk, arguments: &str) -> String {
    desk.done("Glob", arguments).0.replace('\n', " ")
}

#[test]
fn glob_names_files_in_order() {
    let mut desk = tree();
    assert_eq!(glob(&desk, r#"{"pattern":"**/*.rs"}"#), "src/main.rs src/inner/lib.rs");
    assert_eq!(glob(&desk, r#"{"pattern":"./*.txt"}"#), "f.txt", "no link, no other folder");
    assert_eq!(glob(&desk, r#"{"pattern":"{docs,src}/*.{md,rs}"}"#), "docs/a.md src/main.rs");
    assert_eq!(glob(&desk, r#"{"pattern":"*.rs","path":"src"}"#), "src/main.rs");
    assert_eq!(glob(&desk, r#"{"pattern":"**/secret"}"#), "No file matches.");
    assert_eq!(glob(&desk, r#"{"pattern":"**/config"}"#), "No file matches.");
    let (_, value) = desk.done("Glob", r#"{"pattern":"*.txt"}"#);
    assert!(value.starts_with(r#"{"filenames":["f.txt"],"durationMs":"#), "{value}");
    assert!(
        value.ends_with(r#","numFiles":1,"truncated":false,"totalMatches":1,"countIsComplete":true}"#),
        "{value}"
    );
    desk.cwd = desk.path("src");
    assert_eq!(glob(&desk, r#"{"pattern":"**"}"#), "main.rs inner/lib.rs");
    assert_eq!(
        glob(&desk, r#"{"pattern":"*.md","path":"../docs"}"#),
        desk.path("docs/a.md").display().to_string()
    );
}

#[test]
fn searches_do_not_leave_the_root() {
    let desk = tree();
    for (tool, arguments, why) in [
        ("Glob", r#"{"pattern":"*","path":".."}"#, "outside of the workspace"),
        ("Glob", r#"{"pattern":"*","path":"out"}"#, "through a symbolic link"),
        ("Glob", r#"{"pattern":"../*"}"#, "without `..`"),
        ("Glob", r#"{"pattern":"/etc/*"}"#, "must be relative"),
        ("Glob", r#"{"pattern":"*","path":"none"}"#, "does not exist"),
        ("Glob", r#"{"pattern":"a[b"}"#, "is not valid"),
        ("Grep", r#"{"pattern":"secret","path":"../secret"}"#, "outside of the workspace"),
        ("Grep", r#"{"pattern":"secret","path":"out/secret"}"#, "through a symbolic link"),
        ("Grep", r#"{"pattern":"a(b"}"#, "is not valid"),
        ("Grep", r#"{"pattern":"a","glob":"{a"}"#, "is not valid"),
    ] {
        let text = desk.refused(tool, arguments);
        assert!(text.contains(why), "{tool} {arguments}: {text}");
    }
    assert_eq!(desk.done("Grep", r#"{"pattern":"secret"}"#).0, "Nothing matches.");
}

#[test]
fn glob_says_what_it_leaves_out() {
    let desk = desk();
    for n in 0..105 {
        desk.put(&format!("{n:03}"), "");
    }
    let (text, value) = desk.done("Glob", r#"{"pattern":"*"}"#);
    assert!(text.ends_with("099\n[5 more files match; make the pattern narrower.]"), "{text}");
    assert!(value.contains(r#""numFiles":100,"truncated":true,"totalMatches":105"#), "{value}");
}

#[test]
fn grep_lists_files_lines_and_counts() {
    let desk = tree();
    let (text, value) = desk.done("Grep", r#"{"pattern":"needle"}"#);
    assert_eq!(text, ".hidden\nf.txt\nsrc/inner/lib.rs");
    assert_eq!(
        value,
        r#"{"mode":"files_with_matches","filenames":[".hidden","f.txt","src/inner/lib.rs"],"numFiles":3,"totalFiles":3}"#
    );
    let (text, value) =
        desk.done("Grep", r#"{"pattern":"^NEEDLE$","-i":true,"output_mode":"content","glob":"*.rs"}"#);
    assert_eq!(text, "src/inner/lib.rs:1:needle\nsrc/inner/lib.rs:3:needle");
    assert!(value.contains(r#""mode":"content","filenames":[],"numFiles":1,"content":"src"#), "{value}");
    assert!(value.ends_with(r#""numLines":2}"#), "{value}");
    let (text, value) = desk.done("Grep", r#"{"pattern":"needle","output_mode":"count","glob":"src/**"}"#);
    assert_eq!(text, "src/inner/lib.rs:2");
    assert!(value.contains(r#""numMatches":2"#), "{value}");
    let (text, _) =
        desk.done("Grep", r#"{"pattern":"needle","path":"f.txt","output_mode":"content","-n":false,"-B":1}"#);
    assert_eq!(text, "f.txt-first\nf.txt:needle");
    let (text, _) = desk.done("Grep", r#"{"pattern":"first.needle","multiline":true}"#);
    assert_eq!(text, "f.txt");
}

#[test]
fn grep_shows_a_part_and_says_how_to_go_on() {
    let desk = desk();
    desk.put("long", "x\n".repeat(1000));
    let (text, _) = desk.done("Grep", r#"{"pattern":"x","output_mode":"content"}"#);
    assert!(text.ends_with("long:250:x\n[750 more; go on with offset 250.]"), "{text}");
    let (text, _) =
        desk.done("Grep", r#"{"pattern":"x","output_mode":"content","head_limit":2,"offset":998}"#);
    assert_eq!(text, "long:999:x\nlong:1000:x");
    let (text, _) = desk.done("Grep", r#"{"pattern":"x","offset":1}"#);
    assert_eq!(text, "There are only 1 to show, and `offset` leaves them out.");
    desk.put("wide", format!("{}\n", "y".repeat(1900)).repeat(100));
    let (text, value) = desk.done("Grep", r#"{"pattern":"y","output_mode":"content"}"#);
    assert!(text.chars().count() < 30_100 && value.len() < 31_000);
    assert!(text.contains("bytes more are not shown"));
    std::fs::File::create(desk.path("huge")).and_then(|file| file.set_len(20 << 20)).expect("a sparse file");
    let (text, _) = desk.done("Grep", r#"{"pattern":"z"}"#);
    assert_eq!(text, "Nothing matches.\n[1 files are too large and were passed over.]");
}

// C-TURN-9.
#[test]
fn a_cancelled_search_stops() {
    let desk = tree();
    let cancel = Cancel::new();
    cancel.cancel(Cause::User);
    let error = desk.call_until("Grep", r#"{"pattern":"x"}"#, cancel).expect_err("cancelled");
    assert!(error.to_string().contains("cancelled"));
}

// C-RUN-2: a search passes a FIFO by without opening it.
#[test]
fn special_files_are_passed_over() {
    let desk = desk();
    desk.done("Bash", r#"{"command":"mkfifo pipe"}"#);
    assert_eq!(desk.done("Grep", r#"{"pattern":"x"}"#).0, "Nothing matches.");
    assert!(desk.refused("Grep", r#"{"pattern":"x","path":"pipe"}"#).contains("is a FIFO"));
}

#[test]
fn many_matches_in_many_files_stop_the_search_and_say_so() {
    let desk = desk();
    for name in ["a", "b", "c"] {
        desk.put(name, "x\n".repeat(15_000));
    }
    let (text, _) = desk.done("Grep", r#"{"pattern":"x","output_mode":"content","head_limit":1}"#);
    assert_eq!(
        text,
        "a:1:x\n[19999 more; go on with offset 1.]\n[There is too much; not everything was searched. Narrow it down.]"
    );
}
