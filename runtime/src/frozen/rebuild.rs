//! Text from what a foreign deserializer hands over.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::MAX_DEPTH;
use super::text::write_string;

/// The compact text of the value. It still has to be scanned: a foreign deserializer may repeat keys.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let mut out = String::new();
    deserializer.deserialize_any(Rebuild { out: &mut out, depth: 0 })?;
    Ok(out)
}

struct Rebuild<'t> {
    out: &'t mut String,
    depth: usize,
}

impl Rebuild<'_> {
    fn deeper<E: Error>(&self) -> Result<usize, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> DeserializeSeed<'de> for Rebuild<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! printed {
    ($($visit:ident $type:ty)*) => {$(
        fn $visit<E: Error>(self, value: $type) -> Result<(), E> {
            self.out.push_str(&value.to_string());
            Ok(())
        }
    )*};
}

impl<'de> Visitor<'de> for Rebuild<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value that JSON can express")
    }

    printed! { visit_bool bool visit_i64 i64 visit_u64 u64 visit_i128 i128 visit_u128 u128 }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom("a number is not finite, which JSON cannot express"));
        }
        // Debug keeps the sign of zero and marks the double as one: `-0.0`, `1.0`, `1e300`.
        self.out.push_str(&format!("{value:?}"));
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        write_string(self.out, value);
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.out.push_str("null");
        Ok(())
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let depth = self.deeper()?;
        self.out.push('[');
        let start = self.out.len();
        loop {
            let before = self.out.len();
            if before > start {
                self.out.push(',');
            }
            if items.next_element_seed(Rebuild { out: &mut *self.out, depth })?.is_none() {
                self.out.truncate(before);
                break;
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let depth = self.deeper()?;
        self.out.push('{');
        let start = self.out.len();
        while let Some(key) = entries.next_key::<String>()? {
            if self.out.len() > start {
                self.out.push(',');
            }
            write_string(self.out, &key);
            self.out.push(':');
            entries.next_value_seed(Rebuild { out: &mut *self.out, depth })?;
        }
        self.out.push('}');
        Ok(())
    }
}
