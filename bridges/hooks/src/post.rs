//! Handlers of type `http`: the event's JSON is posted, and the body of a 2xx answer is what a command would have printed.

use crate::http;
use std::{collections::BTreeSet, ffi::OsString, sync::Arc};

/// What is sent, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Post {
    pub(crate) url: Arc<str>,
    /// As written: `$NAME` and `${NAME}` stand for variables.
    pub(crate) headers: Vec<(Arc<str>, Arc<str>)>,
    /// The variables that headers may have.
    pub(crate) variables: BTreeSet<Arc<str>>,
}

/// What the settings let handlers of type `http` do, all layers together. A list that nobody wrote is no limit.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Addresses, with `*` for any run.
    pub(crate) urls: Option<Vec<String>>,
    /// Variables that headers may have.
    pub(crate) variables: Option<Vec<String>>,
}

impl Bounds {
    /// Lists of several layers add up.
    pub(crate) fn add(&mut self, more: Bounds) {
        let both = |ours: &mut Option<Vec<String>>, more: Option<Vec<String>>| {
            if let Some(more) = more {
                ours.get_or_insert_default().extend(more);
            }
        };
        both(&mut self.urls, more.urls);
        both(&mut self.variables, more.variables);
    }

    /// May this address be asked?
    pub(crate) fn allow(&self, url: &str) -> bool {
        self.urls.as_ref().is_none_or(|urls| urls.iter().any(|pattern| like(pattern, url)))
    }
}

/// `*` is any run, the rest is literal.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Post {
    /// The request about an event, which is JSON. A variable that headers may not have is empty.
    pub(crate) fn request(
        &self,
        about: &[u8],
        bounds: &Bounds,
        env: &[(OsString, Option<OsString>)],
    ) -> http::Post {
        let value = |name: &str| {
            let listed = self.variables.contains(name);
            let bounded =
                bounds.variables.as_ref().is_none_or(|names| names.iter().any(|known| known == name));
            if listed && bounded { variable(name, env) } else { String::new() }
        };
        let headers = self.headers.iter().map(|(name, text)| (name.to_string(), fill(text, &value)));
        let body = about.strip_suffix(b"\n").unwrap_or(about).to_vec();
        http::Post { url: self.url.to_string(), headers: headers.collect(), body }
    }

    /// Variables that its headers name and may not have.
    pub(crate) fn unlisted(&self) -> BTreeSet<String> {
        let names = std::cell::RefCell::new(BTreeSet::new());
        for (_, text) in &self.headers {
            fill(text, &|name| {
                names.borrow_mut().insert(name.to_owned());
                String::new()
            });
        }
        let mut names = names.into_inner();
        names.retain(|name| !self.variables.contains(&**name));
        names
    }
}

/// As a hook's process would see it.
fn variable(name: &str, env: &[(OsString, Option<OsString>)]) -> String {
    let set = env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let value = set.unwrap_or_else(|| std::env::var_os(name));
    value.map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `$NAME` and `${NAME}` in a text, filled in once; anything else with a `$` stays.
fn fill(text: &str, value: &dyn Fn(&str) -> String) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let braced = rest.strip_prefix('{');
        let from = braced.unwrap_or(rest);
        let first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let end = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(from.len());
        let closed = braced.is_none() || from[end..].starts_with('}');
        if from.starts_with(first) && closed {
            out.push_str(&value(&from[..end]));
            rest = &from[end + usize::from(braced.is_some())..];
        } else {
            out.push('$');
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_once_and_nothing_else_is_touched() {
        let value = |name: &str| if name == "A" { "$B".into() } else { format!("<{name}>") };
        for (text, filled) in [
            ("v-$A ${B}", "v-$B <B>"),
            ("$A_1$C}", "<A_1><C>}"),
            ("$", "$"),
            ("$$A ${A $1 ${}", "$$B ${A $1 ${}"),
            ("é$É${é}", "é$É${é}"),
        ] {
            assert_eq!(fill(text, &value), filled, "{text}");
        }
    }

    #[test]
    fn a_star_is_any_run() {
        for (pattern, url, holds) in [
            ("https://a/*", "https://a/x/y", true),
            ("https://a/*", "https://ab/", false),
            ("*", "anything", true),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xb", false),
            ("ab*b", "ab", false),
            ("https://a", "https://a", true),
            ("https://a", "https://a/", false),
        ] {
            assert_eq!(like(pattern, url), holds, "{pattern} {url}");
        }
        let mut bounds = Bounds::default();
        assert!(bounds.allow("x"));
        bounds.add(Bounds { urls: Some(vec![]), variables: None });
        assert!(!bounds.allow("x"));
        bounds.add(Bounds { urls: Some(vec!["x".into()]), variables: None });
        assert!(bounds.allow("x"));
    }
}
