//! Which files count, in what order, and what closes them.

use super::*;
use crate::{
    PluginLayer,
    codex::config::{TrustStatus, layers::Closed},
};

/// All layers, with a hook in each.
fn everything() -> Machine {
    let machine = Machine::new().layers(|layers, root| {
        let plugin = PluginLayer::new("p@m", root.join("plugin"));
        let flags = toml_hook("Stop", "flags");
        layers.system(root.join("system")).flags(flags).plugin(plugin).bypass_trust().trust_project()
    });
    let dir = machine.path("managed");
    machine.put(
        "system/requirements.toml",
        &format!("[hooks]\nmanaged_dir = {dir:?}\n{}", toml_hook("Stop", "managed")),
    );
    for (folder, name) in [
        ("system", "system"),
        ("user", "user"),
        ("project/.codex", "root"),
        ("project/sub/deep/.codex", "deep"),
    ] {
        machine.put(&format!("{folder}/hooks.json"), &hook("Stop", &format!("{name}-json")));
        machine.put(&format!("{folder}/config.toml"), &toml_hook("Stop", &format!("{name}-toml")));
    }
    machine.write("plugin/hooks/hooks.json", &hook("Stop", "plugin"))
}

// C-BRIDGE-1
#[test]
fn the_layers_come_in_the_clients_order() {
    let machine = everything();
    let (loaded, reports) = machine.load_in("project/sub/deep");
    assert_eq!(
        running(&loaded).join(" "),
        "managed system-json system-toml user-json user-toml root-json root-toml deep-json deep-toml flags plugin"
    );
    assert_eq!(codes(&reports), ["hooks/two-files"; 4], "{reports:?}");
    let orders: Vec<usize> = loaded.handlers.iter().map(|placed| placed.order).collect();
    assert_eq!(orders, (0..11).collect::<Vec<_>>());
    let (first, flags, last) = (&loaded.handlers[0], &loaded.handlers[9], &loaded.handlers[10]);
    assert_eq!(first.key, format!("{}:stop:0:0", machine.path("managed").display()));
    assert_eq!(first.source.file, machine.path("system/requirements.toml"));
    assert_eq!(
        (&*flags.key, flags.source.named.to_str()),
        ("/<session-flags>/config.toml:stop:0:0", Some("/<session-flags>/config.toml"))
    );
    assert_eq!(last.key, "p@m:hooks/hooks.json:stop:0:0");
    let data = last.source.plugin.as_ref().unwrap().data.as_ref();
    assert_eq!(data, Some(&machine.path("user/plugins/data/p-m")));
    let root = &loaded.handlers[5];
    assert_eq!(root.key, format!("{}:stop:0:0", machine.path("project/.codex/hooks.json").display()));
}

// C-BRIDGE-1
#[test]
fn a_project_begins_at_the_nearest_marker() {
    let machine = everything();
    machine.put("project/sub/.git", "not a pointer");
    let (loaded, _) = machine.load_in("project/sub/deep");
    assert!(!running(&loaded).iter().any(|name| name.starts_with("root")), "{loaded:?}");
    machine.put("user/config.toml", "project_root_markers = [\"MARK\"]\n");
    machine.put("project/MARK", "");
    assert!(running(&machine.load_in("project/sub/deep").0).contains(&"root-json".to_owned()));
    // Without any marker above it, the working directory is the project.
    machine.put("user/config.toml", "project_root_markers = []\n");
    let names = running(&machine.load_in("project/sub/deep").0);
    assert!(names.contains(&"deep-json".to_owned()) && !names.contains(&"root-json".to_owned()));
    machine.put("user/config.toml", "project_root_markers = 5\n");
    assert!(codes(&machine.load().1).contains(&"hooks/bad-list"));
}

// C-BRIDGE-1
#[test]
fn hooks_of_a_project_count_once_its_user_trusts_it() {
    let machine = Machine::new()
        .write("project/.codex/hooks.json", &hook("Stop", "p"))
        .layers(|layers, _| layers.bypass_trust());
    let project = fs::canonicalize(machine.path("project")).unwrap();
    let say = |level: &str| {
        machine.put("user/config.toml", &format!("[projects.{project:?}]\ntrust_level = \"{level}\"\n"));
        machine.load()
    };
    for level in ["untrusted", "unheard"] {
        let (loaded, reports) = say(level);
        assert!(running(&loaded).is_empty());
        assert_eq!(loaded.untrusted_project.as_deref(), project.to_str());
        let report = only(&reports, "hooks/project-untrusted");
        assert_eq!(report.severity, Severity::Warning);
        assert!(report.hint.as_deref().unwrap().contains(project.to_str().unwrap()), "{report}");
        // It is there to be reviewed.
        assert_eq!(loaded.handlers[0].closed, Some(Closed::Project));
    }
    let (loaded, _) = say("trusted");
    assert_eq!((running(&loaded), loaded.untrusted_project), (vec!["p".to_owned()], None));
    // What is said of a folder inside counts before what is said of the project.
    machine.put("project/sub/.codex/hooks.json", &hook("Stop", "s"));
    let sub = project.join("sub");
    machine.put(
        "user/config.toml",
        &format!("[projects.{project:?}]\ntrust_level = \"trusted\"\n[projects.{sub:?}]\ntrust_level = \"untrusted\"\n"),
    );
    assert_eq!(running(&machine.load_in("project/sub").0), ["p"]);
}

#[test]
fn a_broken_file_of_an_untrusted_project_is_no_news() {
    let machine = Machine::new().write("project/.codex/hooks.json", "{");
    assert_eq!(codes(&machine.load().1), ["hooks/project-untrusted"]);
    // But to whoever reviews it.
    let (trust, reports) = crate::CodexTrust::review(machine.path("project"), &machine.layers);
    assert_eq!(codes(&reports), ["hooks/project-untrusted", "hooks/not-json"]);
    assert!(trust.hooks().is_empty() && reports[0].message.starts_with("nothing in this folder counts"));
    let machine = machine.layers(|layers, _| layers.trust_project());
    assert_eq!(codes(&machine.load().1), ["hooks/not-json"]);
}

// C-BRIDGE-1
#[test]
fn a_linked_worktree_has_the_hooks_of_its_repository() {
    let machine = Machine::new()
        .write("project/.codex/hooks.json", &hook("Stop", "of the repository"))
        .write("tree/.codex/hooks.json", &hook("Stop", "of the worktree"))
        .layers(|layers, _| layers.bypass_trust());
    machine.put("tree/.git", &format!("gitdir: {}\n", machine.path("project/.git/worktrees/tree").display()));
    let project = fs::canonicalize(machine.path("project")).unwrap();
    machine.put("user/config.toml", &format!("[projects.{project:?}]\ntrust_level = \"trusted\"\n"));
    let back = "project/.git/worktrees/tree/gitdir";
    for pointer in [machine.path("tree/.git").display().to_string(), "../../../../tree/.git".into()] {
        machine.put(back, &format!("{pointer}\n"));
        assert_eq!(running(&machine.load_in("tree").0), ["of the repository"], "{pointer}");
    }
    let (loaded, _) = machine.load_in("tree");
    assert_eq!(loaded.handlers[0].source.file, machine.path("project/.codex/hooks.json"));
}

// C-BRIDGE-1: what is trusted of a repository is not trusted of a folder that only says it belongs to it; its commands would run
// there.
#[test]
fn a_folder_that_no_repository_knows_is_no_worktree_of_it() {
    let machine = Machine::new()
        .write("project/.codex/hooks.json", &hook("Stop", "./of-the-repository.sh"))
        .write("tree/.codex/hooks.json", &hook("Stop", "of the stranger"))
        .layers(|layers, _| layers.bypass_trust());
    machine.put("tree/.git", &format!("gitdir: {}\n", machine.path("project/.git/worktrees/tree").display()));
    let project = fs::canonicalize(machine.path("project")).unwrap();
    machine.put("user/config.toml", &format!("[projects.{project:?}]\ntrust_level = \"trusted\"\n"));
    for other in [None, Some("other/.git"), Some("project/.git")] {
        if let Some(other) = other {
            let other = machine.path(other).display().to_string();
            machine.put("project/.git/worktrees/tree/gitdir", &other);
        }
        let (loaded, _) = machine.load_in("tree");
        assert!(running(&loaded).is_empty(), "{other:?}");
        let tree = fs::canonicalize(machine.path("tree")).unwrap();
        assert_eq!(loaded.untrusted_project.as_deref(), tree.to_str());
    }
}

// C-BRIDGE-1
#[cfg(unix)]
#[test]
fn a_way_up_leads_where_the_file_system_says() {
    let machine = Machine::new()
        .write("project/.codex/hooks.json", &hook("Stop", "before the link"))
        .write("other/in/side/.keep", "")
        .write("other/in/.codex/hooks.json", &hook("Stop", "behind the link"))
        .layers(|layers, _| layers.bypass_trust().trust_project());
    std::os::unix::fs::symlink(machine.path("other/in/side"), machine.path("project/link")).unwrap();
    assert_eq!(running(&machine.load_in("project/link/..").0), ["behind the link"]);
    assert_eq!(running(&machine.load_in("project/none/..").0), ["before the link"]);
}

// C-BRIDGE-1
#[cfg(target_os = "linux")]
#[test]
fn a_project_whose_path_is_no_text_is_not_the_one_that_looks_like_it() {
    use std::os::unix::ffi::OsStrExt;
    let machine = Machine::new().layers(|layers, _| layers.bypass_trust());
    let odd = machine.root.path().join(std::ffi::OsStr::from_bytes(b"p\xff"));
    fs::create_dir_all(odd.join(".codex")).unwrap();
    fs::write(odd.join(".codex/hooks.json"), hook("Stop", "x")).unwrap();
    let looks = fs::canonicalize(&odd).unwrap().to_string_lossy().into_owned();
    machine.put("user/config.toml", &format!("[projects.{looks:?}]\ntrust_level = \"trusted\"\n"));
    let loaded = load(&odd, &machine.layers, &mut Vec::new());
    assert!(running(&loaded).is_empty() && loaded.untrusted_project == Some(looks));
}

#[test]
fn the_users_own_folder_is_no_projects() {
    let machine = Machine::new()
        .layers(|layers, root| layers.user(root.join("project/.codex")).bypass_trust().trust_project());
    machine.put("project/.codex/hooks.json", &hook("Stop", "once"));
    assert_eq!(machine.running(), ["once"]);
}

// C-BRIDGE-1
#[test]
fn a_switch_turns_all_hooks_off() {
    for (file, text) in [
        ("user/config.toml", "[features]\nhooks = false\n"),
        ("user/config.toml", "[features]\ncodex_hooks = false\n"),
        ("project/.codex/config.toml", "features.hooks = false\n"),
        ("system/requirements.toml", "[features]\nhooks = false\n"),
    ] {
        let machine = everything().write(file, text);
        let (loaded, _) = machine.load();
        assert!(running(&loaded).is_empty(), "{file}");
        assert!(loaded.handlers.iter().all(|placed| placed.closed == Some(Closed::Off)));
    }
    // The last layer that says anything counts, and an administrator after all.
    let machine = everything()
        .write("user/config.toml", "[features]\nhooks = false\n")
        .write("project/.codex/config.toml", "features.hooks = true\n");
    assert!(!machine.running().is_empty());
    let machine = machine.write("system/requirements.toml", "features.hooks = false\n");
    assert!(machine.running().is_empty());
    let machine = Machine::new().write("user/config.toml", "[features]\nhooks = \"no\"\n");
    assert_eq!(gist(only(&machine.load().1, "hooks/bad-switch")), (Some(2), Severity::Error, true));
}

// C-BRIDGE-1
#[test]
fn an_administrator_may_let_only_managed_hooks_run() {
    let machine = everything();
    let requirements = fs::read_to_string(machine.path("system/requirements.toml")).unwrap();
    let machine = machine
        .write("system/requirements.toml", &format!("allow_managed_hooks_only = true\n{requirements}"));
    assert_eq!(machine.running(), ["managed", "system-json", "system-toml"]);
    let (loaded, _) = machine.load();
    let status = |at: usize| (loaded.handlers[at].status, loaded.handlers[at].closed);
    assert_eq!(status(0), (TrustStatus::Managed, None));
    assert_eq!(status(3), (TrustStatus::Untrusted, Some(Closed::ManagedOnly)));
    let elsewhere = Machine::new().write("user/config.toml", "allow_managed_hooks_only = true\n");
    assert_eq!(codes(&elsewhere.load().1), ["hooks/not-here"]);
}

// C-BRIDGE-5
#[test]
fn a_file_that_cannot_be_read_is_named_and_the_others_count() {
    let machine = everything();
    fs::remove_file(machine.path("user/hooks.json")).unwrap();
    fs::create_dir(machine.path("user/hooks.json")).unwrap();
    fs::write(machine.path("user/config.toml"), b"a = 1\nb = \"\xff\"\n").unwrap();
    fs::remove_dir_all(machine.path("plugin")).unwrap();
    let (loaded, reports) = machine.load();
    assert!(running(&loaded).iter().all(|name| !name.starts_with("user")), "{loaded:?}");
    let unreadable: Vec<_> = reports.iter().filter(|report| report.code == "hooks/unreadable").collect();
    let files: Vec<_> = unreadable.iter().map(|report| report.file.clone().unwrap()).collect();
    let expected =
        ["user/hooks.json", "user/config.toml", "plugin/hooks/hooks.json"].map(|file| machine.path(file));
    assert_eq!(files, expected);
    assert_eq!(unreadable[1].line, Some(2));
}
