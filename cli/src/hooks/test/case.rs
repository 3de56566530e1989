//! A case as its folder says it: `case.json`, read field by field, so that nothing in it is passed over.

use crate::problem::Problem;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The fields of a JSON object, each as its text.
pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

/// One case.
#[derive(Debug)]
pub(super) struct Case {
    /// Its `id`, else the name of its folder.
    pub(super) id: String,
    pub(super) folder: PathBuf,
    fields: Fields,
    /// Why its file could not be read. It then fails where it would have been run, and the others are run.
    pub(super) unread: Option<String>,
}

impl Case {
    fn unreadable(folder: &Path, why: &Problem) -> Case {
        Case {
            id: named(folder),
            folder: folder.into(),
            fields: Fields::new(),
            unread: Some(why.sentence().into()),
        }
    }

    fn read(folder: &Path) -> Result<Case, Problem> {
        let file = folder.join("case.json");
        let unread = |why: &dyn std::fmt::Display| {
            Problem::new(format!("{} could not be read: {why}", file.display()))
                .next("docs/hook-cases.md describes the format")
        };
        let text = fs::read_to_string(&file).map_err(|error| unread(&error))?;
        let fields: Fields = serde_json::from_str(&text).map_err(|error| unread(&error))?;
        let mut case = Case { id: String::new(), folder: folder.into(), fields, unread: None };
        case.id = case.text("id").ok().flatten().unwrap_or_else(|| named(folder));
        Ok(case)
    }

    /// The names of its fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// A field's JSON text; `null` is as good as absent.
    pub(super) fn raw(&self, key: &str) -> Option<&str> {
        self.fields.get(key).map(|raw| raw.get()).filter(|text| *text != "null")
    }

    /// A field of a type.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, String> {
        self.raw(key).map(|text| typed(key, text)).transpose()
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.get(key)
    }

    /// A program that it requires and this machine does not have.
    pub(super) fn lacks(&self) -> Result<Option<String>, String> {
        let required: Vec<String> = self.get("requires")?.unwrap_or_default();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |name: &String| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
        Ok(required.into_iter().find(|name| !is_there(name)))
    }

    /// The fields of `expected`.
    pub(super) fn expected(&self) -> Result<Fields, String> {
        self.get("expected")?.ok_or_else(|| "the case has no `expected`, so there is nothing to judge".into())
    }

    /// Does a field have this value? Texts are compared as texts, anything else as it is written. Of a case that could
    /// not be read nobody knows, so no filter hides it.
    pub(super) fn is(&self, key: &str, value: &str) -> bool {
        if self.unread.is_some() {
            return true;
        }
        let Some(raw) = self.raw(key) else { return false };
        match serde_json::from_str::<String>(raw) {
            Ok(text) => text == value,
            Err(_) => raw == value,
        }
    }
}

fn named(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A JSON text of a type, with a sentence for when it is not.
pub(super) fn typed<T: DeserializeOwned>(key: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("the field `{key}` could not be read: {error}"))
}

/// The case in a folder, or the cases in the folders below it, by name.
pub(super) fn find(path: &Path) -> Result<Vec<Case>, Problem> {
    if path.join("case.json").is_file() {
        return Ok(vec![Case::read(path)?]);
    }
    let none = |why: &dyn std::fmt::Display| {
        Problem::new(format!("`{}` holds no case: {why}", path.display()))
            .next("give a folder with a case.json, or a folder of such folders")
    };
    let mut below = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| none(&error))? {
        let folder = entry.map_err(|error| none(&error))?.path();
        if folder.join("case.json").is_file() {
            below.push(folder);
        }
    }
    if below.is_empty() {
        return Err(none(&"there is no case.json in it or one level below"));
    }
    below.sort();
    let read = |folder: &PathBuf| Case::read(folder).unwrap_or_else(|why| Case::unreadable(folder, &why));
    Ok(below.iter().map(read).collect())
}
