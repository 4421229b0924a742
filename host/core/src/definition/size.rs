//! Limits the size of a definition as a tree. An alias stands for everything that it names, so a
//! short text can expand to more than the available memory.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};

/// The largest number of values, with aliases expanded.
const MAX_VALUES: usize = 50_000;

/// Parses a text without keeping its values.
///
/// # Errors
/// Returns an error if the text is not YAML, or has too many values.
pub(super) fn check(yaml: &str) -> Result<(), serde_norway::Error> {
    ValueCounter(&Cell::new(MAX_VALUES)).deserialize(serde_norway::Deserializer::from_str(yaml))
}

#[derive(Clone, Copy)]
struct ValueCounter<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for ValueCounter<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let left = self.0.get().checked_sub(1).ok_or_else(|| {
            D::Error::custom(format_args!("more than {MAX_VALUES} values, aliases written out"))
        })?;
        self.0.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueCounter<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key_seed(self)?.is_some() {
            fields.next_value_seed(self)?;
        }
        Ok(())
    }
    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom("tags are not allowed here"))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn aliases_count_as_their_expansion() {
        let items = |item: &str, count: usize| vec![item; count].join(",");
        let text = format!("a: &a [{}]\nb: [{}]\n", items("1", 9_000), items("*a", 9_000));
        let begun = std::time::Instant::now();
        let error = check(&text).unwrap_err().to_string();
        assert!(error.contains("more than 50000 values"), "{error}");
        assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
        check(&format!("a: &a [{}]\nb: [{}]\n", items("1", 90), items("*a", 90))).unwrap();
        for text in ["a: [1, 2.5, true, null, x, ~]\n", "", "- {a: {b: c}}\n", "a: 'x'\n"] {
            check(text).unwrap();
        }
        for deep in ["[".repeat(20_000), "{a: ".repeat(10_000), "- ".repeat(20_000)] {
            assert!(check(&deep).is_err());
        }
    }
}
