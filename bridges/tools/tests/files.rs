//! Read, Write and Edit: texts, values, limits.

mod common;
use common::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn what_is_written_is_read_back() {
    let desk = desk();
    let content = "fn main() {\n\t\"é😀\"\n}\n";
    let written =
        desk.done("Write", &format!(r#"{{"file_path":"a/b/new.rs","content":{}}}"#, quoted(content)));
    assert_eq!(written.0, "Created a/b/new.rs (3 lines, 24 bytes).");
    assert_eq!(
        written.1,
        format!(
            r#"{{"type":"create","filePath":"a/b/new.rs","content":{},"structuredPatch":[],"originalFile":null,"userModified":false}}"#,
            quoted(content)
        )
    );
    assert_eq!(desk.get("a/b/new.rs"), content);
    let (text, value) = desk.done("Read", r#"{"file_path":"a/b/new.rs"}"#);
    assert_eq!(text, "     1\tfn main() {\n     2\t\t\"é😀\"\n     3\t}");
    assert_eq!(
        value,
        format!(
            r#"{{"type":"text","file":{{"filePath":"a/b/new.rs","content":{},"numLines":4,"startLine":1,"totalLines":4}}}}"#,
            quoted(content)
        )
    );
}

#[test]
fn an_update_keeps_the_mode_and_tells_the_change() {
    let desk = desk();
    desk.put("run.sh", "a\nb\nc\n");
    std::fs::set_permissions(desk.path("run.sh"), PermissionsExt::from_mode(0o751)).expect("a mode");
    let (text, value) = desk.done("Write", r#"{"file_path":"run.sh","content":"a\nB\nc\n"}"#);
    assert_eq!(text, "Replaced run.sh (3 lines, 6 bytes).");
    assert_eq!(
        value,
        r#"{"type":"update","filePath":"run.sh","content":"a\nB\nc\n","structuredPatch":[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":3,"lines":[" a","-b","+B"," c"]}],"originalFile":"a\nb\nc\n","userModified":false}"#
    );
    let mode = std::fs::metadata(desk.path("run.sh")).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
    // Nothing is left of the passing name.
    assert_eq!(std::fs::read_dir(desk.workspace.root()).expect("a folder").count(), 1);
}

#[test]
fn a_write_takes_the_name_and_leaves_the_old_file_whole() {
    let desk = desk();
    desk.put("file", "old");
    std::fs::hard_link(desk.path("file"), desk.path("other")).expect("a second name");
    // As if another write, or a process with our number that was killed, had the first passing name.
    let taken = format!(".portcullis-{}-0.tmp", std::process::id());
    desk.put(&taken, "theirs");
    desk.done("Write", r#"{"file_path":"file","content":"new"}"#);
    assert_eq!(
        (desk.get("file"), desk.get("other"), desk.get(&taken)),
        ("new".into(), "old".into(), "theirs".into())
    );
}

#[test]
fn a_write_protected_file_is_for_those_who_may_write_it() {
    let desk = desk();
    desk.put("file", "old");
    std::fs::set_permissions(desk.path("file"), PermissionsExt::from_mode(0o444)).expect("a mode");
    let arguments = r#"{"file_path":"file","content":"new"}"#;
    if rustix::process::geteuid().is_root() {
        desk.done("Write", arguments);
        assert_eq!(desk.get("file"), "new");
    } else {
        assert_eq!(desk.refused("Write", arguments), "Permission denied: file");
        assert_eq!(desk.get("file"), "old");
    }
    let mode = std::fs::metadata(desk.path("file")).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o444);
}

#[test]
fn a_failed_write_changes_nothing() {
    let desk = desk();
    desk.put("file", "old");
    let long = quoted("x".repeat((2 << 20) + 1));
    let text = desk.refused("Write", &format!(r#"{{"file_path":"file","content":{long}}}"#));
    assert_eq!(text, "The content has 2097153 bytes; the limit is 2097152. Nothing was written.");
    assert!(desk.refused("Write", r#"{"file_path":"file/x","content":"x"}"#).contains("not a directory"));
    let name = "n".repeat(300);
    desk.refused("Write", &format!(r#"{{"file_path":"{name}","content":"x"}}"#));
    assert_eq!(desk.get("file"), "old");
    assert_eq!(std::fs::read_dir(desk.workspace.root()).expect("a folder").count(), 1);
}

#[test]
fn read_shows_a_part_and_says_how_to_go_on() {
    let desk = desk();
    desk.put("long", (1..=5000).map(|n| format!("line {n}\n")).collect::<String>());
    let (text, value) = desk.done("Read", r#"{"file_path":"long","offset":3,"limit":2}"#);
    assert_eq!(text, "     3\tline 3\n     4\tline 4\n\n[Lines 3 to 4 of 5000. Go on with offset 5.]");
    assert!(
        value.contains(r#""content":"line 3\nline 4","numLines":2,"startLine":3,"totalLines":5001"#),
        "{value}"
    );
    let (text, _) = desk.done("Read", r#"{"file_path":"long"}"#);
    assert!(text.ends_with("  2000\tline 2000\n\n[Lines 1 to 2000 of 5000. Go on with offset 2001.]"));
    let (text, _) = desk.done("Read", r#"{"file_path":"long","offset":5000}"#);
    assert_eq!(text, "  5000\tline 5000");
    let past = desk.refused("Read", r#"{"file_path":"long","offset":5001}"#);
    assert_eq!(past, "long has 5000 lines; there is nothing from line 5001 on.");
    desk.refused("Read", r#"{"file_path":"long","offset":18446744073709551615}"#);
}

#[test]
fn read_caps_lines_and_bytes() {
    let desk = desk();
    desk.put("wide", format!("{}\nshort\n", "é".repeat(3000)));
    let (text, _) = desk.done("Read", r#"{"file_path":"wide"}"#);
    assert!(text.contains("… [2000 bytes more]\n     2\tshort"), "{}", &text[text.len() - 80..]);
    desk.put("big", format!("{}\n", "x".repeat(999)).repeat(1000));
    let (text, value) = desk.done("Read", r#"{"file_path":"big"}"#);
    assert!(text.ends_with("[Lines 1 to 262 of 1000. Go on with offset 263.]") && value.len() < 300_000);
    desk.put("one-line", "x".repeat(1 << 20));
    let (text, value) = desk.done("Read", r#"{"file_path":"one-line"}"#);
    assert!(text.len() < 3000 && value.len() < 300_000);
    std::fs::File::create(desk.path("huge")).and_then(|file| file.set_len(20 << 20)).expect("a sparse file");
    assert_eq!(
        desk.refused("Read", r#"{"file_path":"huge"}"#),
        "huge has 20971520 bytes; the limit is 16777216."
    );
}

#[test]
fn odd_files_are_read_or_refused_in_words() {
    let desk = desk();
    desk.put("empty", "");
    let (text, value) = desk.done("Read", r#"{"file_path":"empty"}"#);
    assert_eq!(text, "The file is empty.");
    assert!(value.contains(r#""content":"","numLines":1,"startLine":1,"totalLines":1"#), "{value}");
    desk.put("latin1", b"caf\xe9\r\nend");
    let (text, value) = desk.done("Read", r#"{"file_path":"latin1"}"#);
    assert_eq!(
        text,
        "     1\tcaf\u{fffd}\n     2\tend\n\n[Some bytes are not UTF-8 and are shown as \u{fffd}.]"
    );
    assert!(value.contains("caf\u{fffd}\\r\\nend"), "{value}");
    desk.put("binary", b"\x7fELF\0\0");
    assert_eq!(
        desk.refused("Read", r#"{"file_path":"binary"}"#),
        "binary is a binary file of 6 bytes and cannot be shown as text."
    );
    let missing = desk.refused("Read", r#"{"file_path":"none"}"#);
    assert_eq!(missing, format!("none does not exist. The working directory is {}.", desk.cwd.display()));
    // What a person cannot see in the text may still be replaced; the value shows it as well as it can.
    let (_, value) = desk.done("Write", r#"{"file_path":"latin1","content":"end"}"#);
    assert!(value.contains(r#""type":"update""#) && desk.get("latin1") == "end", "{value}");
}

#[test]
fn edit_changes_one_place_or_all() {
    let desk = desk();
    desk.put("f.txt", "a\nb\nc\n");
    let (text, value) = desk.done("Edit", r#"{"file_path":"f.txt","old_string":"b","new_string":"B"}"#);
    assert_eq!(text, "Changed f.txt in one place.");
    assert_eq!(
        value,
        r#"{"filePath":"f.txt","oldString":"b","newString":"B","originalFile":"a\nb\nc\n","structuredPatch":[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":3,"lines":[" a","-b","+B"," c"]}],"userModified":false,"replaceAll":false}"#
    );
    desk.put("f.txt", "x x x");
    let twice = desk.refused("Edit", r#"{"file_path":"f.txt","old_string":"x","new_string":"y"}"#);
    assert!(twice.contains("occurs 3 times") && twice.ends_with("f.txt was not changed."), "{twice}");
    let (text, _) =
        desk.done("Edit", r#"{"file_path":"f.txt","old_string":"x","new_string":"y","replace_all":true}"#);
    assert_eq!(text, "Changed f.txt in 3 places.");
    assert_eq!(desk.get("f.txt"), "y y y");
}

#[test]
fn edit_refuses_what_it_cannot_do_exactly() {
    let desk = desk();
    desk.put("dos", "a\r\nb\r\n");
    let gone = desk.refused("Edit", r#"{"file_path":"dos","old_string":"a\nb","new_string":"c"}"#);
    assert!(gone.contains("does not occur") && gone.contains("carriage return"), "{gone}");
    let same = desk.refused("Edit", r#"{"file_path":"dos","old_string":"a","new_string":"a"}"#);
    assert!(same.contains("are the same"), "{same}");
    desk.put("latin1", b"caf\xe9");
    assert!(
        desk.refused("Edit", r#"{"file_path":"latin1","old_string":"c","new_string":"d"}"#)
            .contains("not UTF-8")
    );
    desk.put("many", "x".repeat(1 << 20));
    let grown = desk
        .refused("Edit", r#"{"file_path":"many","old_string":"x","new_string":"yyyy","replace_all":true}"#);
    assert!(grown.contains("more than 2097152 bytes"), "{grown}");
    assert_eq!(std::fs::read(desk.path("latin1")).expect("there"), b"caf\xe9");
    assert_eq!(desk.get("many").len(), 1 << 20);
}

// C-BRIDGE-1: hooks of the client's dialect get arguments in the order of the schema, with its defaults.
#[test]
fn schemas_have_the_clients_names_in_the_clients_order() {
    let desk = desk();
    for (tool, names, required, flags) in [
        ("Bash", "command timeout description run_in_background", 1, (false, false)),
        ("Read", "file_path offset limit", 1, (true, true)),
        ("Write", "file_path content", 2, (true, false)),
        ("Edit", "file_path old_string new_string replace_all", 3, (false, false)),
        ("Glob", "pattern path", 1, (true, true)),
        (
            "Grep",
            "pattern path glob output_mode -B -A -C context -n -i head_limit offset multiline",
            1,
            (true, true),
        ),
    ] {
        let spec = desk.tool(tool).spec();
        let root = spec.schema.root();
        let properties = root.get("properties").expect("properties");
        let found: Vec<_> = properties.entries().map(|(name, _)| name.into_owned()).collect();
        assert_eq!(found.join(" "), names);
        assert_eq!(root.get("required").expect("required").len(), required);
        assert_eq!((spec.idempotent, spec.concurrency_safe), flags, "{tool}");
        let unknown = portcullis_runtime::Frozen::arguments(r#"{"nonsense":1}"#).expect("JSON");
        assert!(spec.accepts(&unknown).is_err());
    }
    let edit = desk.tool("Edit").spec();
    let default = edit
        .schema
        .root()
        .get("properties")
        .and_then(|p| p.get("replace_all"))
        .and_then(|p| p.get("default"));
    assert_eq!(default.map(|value| value.text()), Some("false"));
}
