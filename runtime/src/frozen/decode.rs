//! From a view into Rust types: a serde deserializer that never sees text again.

use std::borrow::Cow;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::number;
use super::refused::Fault;
use super::view::{Entries, Items, Kind, View};

/// The name under which [`Json`](super::Json) asks for the exact text. It is the name of a *type* that is asked for;
/// nothing in a text is ever compared with it.
pub(super) const JSON: &str = "$portcullis::Json";

pub(super) fn decode<'de, T: Deserialize<'de>>(view: View<'de>) -> Result<T, Fault> {
    T::deserialize(Cursor(view)).map_err(|fault| fault.or_at(view.start()))
}

struct Cursor<'de>(View<'de>);

impl<'de> Cursor<'de> {
    fn mismatch(&self, expected: &dyn Expected) -> Fault {
        let text = self.0.as_str();
        let found = match self.0.kind() {
            Kind::Null => Unexpected::Other("null"),
            Kind::Bool => Unexpected::Bool(self.0.as_bool() == Some(true)),
            Kind::Number => Unexpected::Other("a number"),
            Kind::String => Unexpected::Str(text.as_deref().unwrap_or_default()),
            Kind::Array => Unexpected::Seq,
            Kind::Object => Unexpected::Map,
        };
        Fault::invalid_type(found, expected)
    }

    fn seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut items = Sequence { items: self.0.items(), index: 0 };
        let value = visitor.visit_seq(&mut items)?;
        match items.items.len() {
            0 => Ok(value),
            left => Err(Fault::shape(format!("{left} items more than expected"))),
        }
    }

    fn map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut entries = Object { entries: self.0.entries(), entry: None };
        let value = visitor.visit_map(&mut entries)?;
        match entries.entries.len() {
            0 => Ok(value),
            left => Err(Fault::shape(format!("{left} entries more than expected"))),
        }
    }

    /// Where the type does not say what it wants. Anything that none of serde's numbers holds exactly is refused, but
    /// fractions, which are doubles everywhere.
    fn any_number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let literal = self.0.text();
        if literal != "-0" && number::is_integer_literal(literal) {
            return self.integer(visitor);
        }
        self.double(visitor)
    }

    fn integer<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Some(literal) = self.0.number_text() else { return Err(self.mismatch(&visitor)) };
        if let Some(integer) = number::signed(literal) {
            if let Ok(integer) = u64::try_from(integer) {
                return visitor.visit_u64(integer);
            }
            return match i64::try_from(integer) {
                Ok(integer) => visitor.visit_i64(integer),
                Err(_) => visitor.visit_i128(integer),
            };
        }
        match number::unsigned(literal) {
            Some(integer) => visitor.visit_u128(integer),
            None if number::is_integer_literal(literal) => {
                Err(Fault::invalid_value(Unexpected::Other("an integer of more than 128 bits"), &visitor))
            }
            None => self.double(visitor),
        }
    }

    fn double<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Some(literal) = self.0.number_text() else { return Err(self.mismatch(&visitor)) };
        match number::finite(literal) {
            Some(double) => visitor.visit_f64(double),
            None => Err(Fault::invalid_value(
                Unexpected::Other("an integer beyond the range of doubles"),
                &visitor,
            )),
        }
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.integer(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Cursor<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.kind() {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool => visitor.visit_bool(self.0.as_bool() == Some(true)),
            Kind::Number => self.any_number(visitor),
            Kind::String => string(self.0, visitor),
            Kind::Array => self.seq(visitor),
            Kind::Object => self.map(visitor),
        }
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.number_text().and_then(number::signed) {
            Some(integer) => visitor.visit_i128(integer),
            None => self.integer(visitor),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.number_text().and_then(number::unsigned) {
            Some(integer) => visitor.visit_u128(integer),
            None => self.integer(visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        // From the literal and not from its double: rounding twice can land on the wrong neighbour.
        let single = self.0.number_text().and_then(|literal| literal.parse::<f32>().ok());
        match single {
            Some(single) if single.is_finite() => visitor.visit_f32(single),
            Some(_) => {
                Err(Fault::invalid_value(Unexpected::Other("a number beyond the range of f32"), &visitor))
            }
            None => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.double(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == JSON {
            visitor.visit_bytes(self.0.text().as_bytes())
        } else {
            visitor.visit_newtype_struct(self)
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        // serde's structs would take an array too; the schema a model was shown says object.
        if self.0.kind() == Kind::Object { self.map(visitor) } else { Err(self.mismatch(&visitor)) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0.kind() {
            Kind::String => visitor.visit_enum(Variant { name: self.0, value: None }),
            Kind::Object if self.0.len() == 1 => match self.0.entries().next_with_key() {
                Some((name, value)) => visitor.visit_enum(Variant { name, value: Some(value) }),
                None => Err(self.mismatch(&visitor)),
            },
            Kind::Object => {
                Err(Fault::shape("an object with exactly one key, the variant's name, was expected"))
            }
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map identifier
    }
}

fn string<'de, V: Visitor<'de>>(view: View<'de>, visitor: V) -> Result<V::Value, Fault> {
    match view.as_str().unwrap_or_default() {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

struct Sequence<'de> {
    items: Items<'de>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Sequence<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        seed.deserialize(Cursor(item)).map(Some).map_err(|fault| fault.or_at(item.start()).in_index(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Object<'de> {
    entries: Entries<'de>,
    entry: Option<(View<'de>, View<'de>)>,
}

impl<'de> MapAccess<'de> for Object<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.entry = self.entries.next_with_key();
        let Some((key, _)) = self.entry else { return Ok(None) };
        let name = key.as_str().unwrap_or_default();
        if means_something_to_serde_json::<K>(&name) {
            return Err(Fault::shape(
                "this key cannot be read into a serde_json value; the type must use Json",
            )
            .or_at(key.start())
            .in_key(&name));
        }
        seed.deserialize(Key(key)).map(Some).map_err(|fault| fault.or_at(key.start()).in_key(&name))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((key, value)) = self.entry.take() else {
            return Err(Fault::shape("a value was asked for before its key"));
        };
        seed.deserialize(Cursor(value))
            .map_err(|fault| fault.or_at(value.start()).in_key(&key.as_str().unwrap_or_default()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A second fence. `serde_json::Value` in a type *is* serde_json's parser and unwraps its own keys whatever hands it the
/// map. Such types are not allowed in this workspace; should an embedder's tool have one, these keys are refused. The
/// name of a seed type is not guaranteed to stay, so a test watches it.
fn means_something_to_serde_json<K>(key: &str) -> bool {
    key.starts_with("$serde_json::") && std::any::type_name::<K>().contains("serde_json::")
}

/// A key as a value: text, or what is written in it where a map is keyed by numbers or booleans.
struct Key<'de>(View<'de>);

macro_rules! parsed_keys {
    ($($method:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let text = self.0.as_str().unwrap_or_default();
            match text.parse() {
                // Only one spelling is a key, or "1" and "+1" would be two entries that become one.
                Ok(key) if ToString::to_string(&key) == text => visitor.$visit(key),
                _ => Err(Fault::invalid_type(Unexpected::Str(&text), &visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        string(self.0, visitor)
    }

    parsed_keys! {
        deserialize_bool visit_bool
        deserialize_i8 visit_i8 deserialize_i16 visit_i16 deserialize_i32 visit_i32
        deserialize_i64 visit_i64 deserialize_i128 visit_i128
        deserialize_u8 visit_u8 deserialize_u16 visit_u16 deserialize_u32 visit_u32
        deserialize_u64 visit_u64 deserialize_u128 visit_u128
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_enum(Variant { name: self.0, value: None })
    }

    forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// `"Name"` or `{"Name": value}`.
struct Variant<'de> {
    name: View<'de>,
    value: Option<View<'de>>,
}

impl<'de> Variant<'de> {
    /// The value, which must be of the given kind when there is one.
    fn value(&self, kind: Option<Kind>) -> Result<View<'de>, Fault> {
        let name = self.name.as_str().unwrap_or_default();
        match (self.value, kind) {
            (None, _) => Err(Fault::shape(format!("the variant `{name}` needs a value"))),
            (Some(value), Some(kind)) if value.kind() != kind => {
                let message = format!("the variant `{name}` needs {kind}, not {}", value.kind());
                Err(Fault::shape(message).or_at(value.start()).in_key(&name))
            }
            (Some(value), _) => Ok(value),
        }
    }

    fn within<T>(&self, value: View<'de>, outcome: Result<T, Fault>) -> Result<T, Fault> {
        outcome.map_err(|fault| fault.or_at(value.start()).in_key(&self.name.as_str().unwrap_or_default()))
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let value = seed.deserialize(Key(self.name)).map_err(|fault| fault.or_at(self.name.start()))?;
        Ok((value, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.value {
            None => Ok(()),
            Some(_) => self.value(Some(Kind::Null)).map(drop),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let value = self.value(None)?;
        self.within(value, seed.deserialize(Cursor(value)))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Fault> {
        let value = self.value(Some(Kind::Array))?;
        self.within(value, Cursor(value).seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let value = self.value(Some(Kind::Object))?;
        self.within(value, Cursor(value).map(visitor))
    }
}
