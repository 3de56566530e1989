//! From Rust types to text: a serde serializer that, unlike serde_json's, refuses numbers that are not finite (instead of
//! writing null) and keeps the exact text of a [`Json`](super::Json).

use serde::ser::{
    Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::MAX_DEPTH;
use super::decode::JSON;
use super::refused::{Fault, Why};
use super::text::write_string;

/// Appends the compact text of a value. What comes out still has to be scanned, for keys that repeat.
pub(super) fn encode<T: Serialize + ?Sized>(value: &T, out: &mut String) -> Result<(), Fault> {
    value.serialize(Writer { out, depth: 0, exact: false })
}

struct Writer<'o> {
    out: &'o mut String,
    depth: usize,
    /// Inside a [`Json`](super::Json), whose only string is its text.
    exact: bool,
}

impl<'o> Writer<'o> {
    fn print(self, value: impl std::fmt::Display) -> Result<(), Fault> {
        self.out.push_str(&value.to_string());
        Ok(())
    }

    fn open(self, open: char, close: &'static str) -> Result<Compound<'o>, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::at(self.out.len(), Why::Depth));
        }
        self.out.push(open);
        Ok(Compound { out: self.out, depth: self.depth + 1, close, len: 0, key: String::new() })
    }

    /// `{"variant":` and the depth of what follows.
    fn variant(&mut self, variant: &str) -> Result<(), Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::at(self.out.len(), Why::Depth));
        }
        self.depth += 1;
        self.out.push('{');
        write_string(self.out, variant);
        self.out.push(':');
        Ok(())
    }
}

macro_rules! printed {
    ($($method:ident $type:ty)*) => {$(
        fn $method(self, value: $type) -> Result<(), Fault> {
            self.print(value)
        }
    )*};
}

macro_rules! floats {
    ($($method:ident $type:ty)*) => {$(
        fn $method(self, value: $type) -> Result<(), Fault> {
            if value.is_finite() {
                // Debug keeps the sign of zero and marks a double as one: `-0.0`, `1.0`, `1e300`.
                self.print(format_args!("{value:?}"))
            } else {
                Err(Fault::at(self.out.len(), Why::NotFinite))
            }
        }
    )*};
}

impl<'o> Serializer for Writer<'o> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Compound<'o>;
    type SerializeTuple = Compound<'o>;
    type SerializeTupleStruct = Compound<'o>;
    type SerializeTupleVariant = Compound<'o>;
    type SerializeMap = Compound<'o>;
    type SerializeStruct = Compound<'o>;
    type SerializeStructVariant = Compound<'o>;

    printed! {
        serialize_bool bool
        serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64 serialize_i128 i128
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64 serialize_u128 u128
    }

    floats! { serialize_f32 f32 serialize_f64 f64 }

    fn serialize_char(self, value: char) -> Result<(), Fault> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Fault> {
        if self.exact {
            self.out.push_str(value);
        } else {
            write_string(self.out, value);
        }
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Fault> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        self.print("null")
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Fault> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Fault> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        value.serialize(Writer { exact: name == JSON, ..self })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        self.variant(variant)?;
        let Writer { out, depth, .. } = self;
        value.serialize(Writer { out, depth, exact: false }).map_err(|fault| fault.in_key(variant))?;
        out.push('}');
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Compound<'o>, Fault> {
        self.open('[', "]")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Compound<'o>, Fault> {
        self.open('[', "]")
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'o>, Fault> {
        self.open('[', "]")
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'o>, Fault> {
        self.variant(variant)?;
        self.open('[', "]}")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Compound<'o>, Fault> {
        self.open('{', "}")
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Compound<'o>, Fault> {
        if name.starts_with("$serde_json::") {
            return Err(Fault::shape("serde_json's RawValue cannot be sealed; the type must use Json"));
        }
        self.open('{', "}")
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'o>, Fault> {
        self.variant(variant)?;
        self.open('{', "}}")
    }

    fn is_human_readable(&self) -> bool {
        // A Json hands a binary format its text, and that is what is wanted here.
        !self.exact
    }
}

struct Compound<'o> {
    out: &'o mut String,
    depth: usize,
    close: &'static str,
    /// Items or entries so far.
    len: usize,
    /// Of the entry being written, for the path of a refusal.
    key: String,
}

impl Compound<'_> {
    fn comma(&mut self) {
        if self.len > 0 {
            self.out.push(',');
        }
        self.len += 1;
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        value.serialize(Writer { out: &mut *self.out, depth: self.depth, exact: false })
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.comma();
        let index = self.len - 1;
        self.value(value).map_err(|fault| fault.in_index(index))
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Fault> {
        self.comma();
        write_string(self.out, key);
        self.out.push(':');
        self.value(value).map_err(|fault| fault.in_key(key))
    }

    fn close(self) -> Result<(), Fault> {
        self.out.push_str(self.close);
        Ok(())
    }
}

macro_rules! sequences {
    ($($compound:ident $method:ident)*) => {$(
        impl $compound for Compound<'_> {
            type Ok = ();
            type Error = Fault;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
                self.item(value)
            }

            fn end(self) -> Result<(), Fault> {
                self.close()
            }
        }
    )*};
}

sequences! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}

macro_rules! structs {
    ($($compound:ident)*) => {$(
        impl $compound for Compound<'_> {
            type Ok = ();
            type Error = Fault;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Fault> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), Fault> {
                self.close()
            }
        }
    )*};
}

structs! { SerializeStruct SerializeStructVariant }

impl SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        self.key.clear();
        key.serialize(Name(&mut self.key))?;
        self.comma();
        write_string(self.out, &self.key);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.out.push(':');
        self.value(value).map_err(|fault| fault.in_key(&self.key))
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

/// A map's key: strings as they are; numbers, booleans and variants without data as their text.
struct Name<'k>(&'k mut String);

fn no_key<T>() -> Result<T, Fault> {
    Err(Fault::shape("a map's key must be a string, an integer, a boolean or a variant without data"))
}

macro_rules! names {
    ($($method:ident $type:ty)*) => {$(
        fn $method(self, value: $type) -> Result<(), Fault> {
            self.0.push_str(&value.to_string());
            Ok(())
        }
    )*};
}

impl Serializer for Name<'_> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Impossible<(), Fault>;
    type SerializeTuple = Impossible<(), Fault>;
    type SerializeTupleStruct = Impossible<(), Fault>;
    type SerializeTupleVariant = Impossible<(), Fault>;
    type SerializeMap = Impossible<(), Fault>;
    type SerializeStruct = Impossible<(), Fault>;
    type SerializeStructVariant = Impossible<(), Fault>;

    names! {
        serialize_bool bool serialize_char char serialize_str &str
        serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64 serialize_i128 i128
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64 serialize_u128 u128
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Fault> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_f32(self, _: f32) -> Result<(), Fault> {
        no_key()
    }

    fn serialize_f64(self, _: f64) -> Result<(), Fault> {
        no_key()
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), Fault> {
        no_key()
    }

    fn serialize_none(self) -> Result<(), Fault> {
        no_key()
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        no_key()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Fault> {
        no_key()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Fault> {
        no_key()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Fault> {
        no_key()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Fault> {
        no_key()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Fault> {
        no_key()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Fault> {
        no_key()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Fault> {
        no_key()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Fault> {
        no_key()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Fault> {
        no_key()
    }
}
