//! One table of keys, from which types, reading, writing and the reference are made.
//!
//! `section!` makes a struct whose fields are the keys of a TOML table; `choice!` makes an enum of
//! which each variant has a name and keys of its own. The doc comment of a field is its
//! description in the reference, so that neither can go stale.

use super::read::{Cx, Item, Reader};
use super::value::{Mention, Out};

/// What is known of one key.
#[derive(Clone, Copy)]
pub(super) struct Key {
    /// Its name.
    pub(super) name: &'static str,
    /// The lines of its description.
    pub(super) about: &'static [&'static str],
    /// What values it takes, in full.
    pub(super) kind: fn() -> String,
    /// The same in a word or two.
    pub(super) short: &'static str,
    /// The keys of the table that is its value, if it is one.
    pub(super) keys: fn() -> &'static [Key],
    /// Whether it must be given, and what holds if it is not.
    pub(super) need: Need,
    /// A value, as TOML.
    pub(super) example: &'static str,
}

/// Whether a key must be given.
#[derive(Clone, Copy)]
pub(super) enum Need {
    Required,
    Optional,
    Default(fn() -> Out),
}

/// What is known of one variant of a choice.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    /// Its name.
    pub(super) name: &'static str,
    /// The lines of its description.
    pub(super) about: &'static [&'static str],
    /// Its own keys.
    pub(super) keys: &'static [Key],
}

/// The value of a key.
pub(super) trait Value: Sized {
    /// What values there are, in a word or two.
    const SHORT: &'static str;
    /// Says what values there are, for people.
    fn kind() -> String;
    /// The keys, if it is a table.
    fn keys() -> &'static [Key] {
        &[]
    }
    /// Reads it; what is wrong is told to the context.
    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self>;
    /// Writes it.
    fn write(&self) -> Out;
    /// Shows what it mentions: nodes, partitions, labels.
    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        let _ = (path, see);
    }
}

/// A set of keys in a table, which may have others.
pub(super) trait Section: Sized {
    /// Its keys.
    const KEYS: &'static [Key];
    /// Reads its keys.
    fn read_from(reader: &Reader<'_>) -> Option<Self>;
    /// Writes its keys, without those that have their default value.
    fn write_to(&self, out: &mut Vec<(&'static str, Out)>);
    /// Shows what it mentions.
    fn visit_in(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>));
}

/// One of several named sets of keys.
pub(super) trait Choice: Sized {
    /// All of them.
    const VARIANTS: &'static [Variant];
    /// Reads the keys of the one with that name, which must be one of them.
    fn read_named(name: &str, reader: &Reader<'_>) -> Option<Self>;
    /// Its name.
    fn name(&self) -> &'static str;
    /// Writes its keys, without those that have their default value.
    fn write_to(&self, out: &mut Vec<(&'static str, Out)>);
    /// Shows what it mentions.
    fn visit_in(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>));
}

macro_rules! field_type {
    (opt $ty:ty) => { Option<$ty> };
    ($mode:ident $ty:ty) => { $ty };
}

macro_rules! field_need {
    (req) => {
        $crate::scenario::table::Need::Required
    };
    (opt) => {
        $crate::scenario::table::Need::Optional
    };
    (def $ty:ty = $default:expr) => {
        $crate::scenario::table::Need::Default(|| {
            $crate::scenario::table::Value::write(&{
                let value: $ty = $default;
                value
            })
        })
    };
}

macro_rules! field_read {
    ($reader:ident, $key:literal, req $ty:ty) => {
        $reader.required::<$ty>($key)
    };
    ($reader:ident, $key:literal, opt $ty:ty) => {
        $reader.optional::<$ty>($key)
    };
    ($reader:ident, $key:literal, def $ty:ty = $default:expr) => {
        $reader.optional::<$ty>($key).map(|given| given.unwrap_or_else(|| $default))
    };
}

macro_rules! field_write {
    ($out:ident, $key:literal, $field:expr, req $ty:ty) => {
        $out.push(($key, $crate::scenario::table::Value::write($field)));
    };
    ($out:ident, $key:literal, $field:expr, opt $ty:ty) => {
        if let Some(value) = $field {
            $out.push(($key, $crate::scenario::table::Value::write(value)));
        }
    };
    ($out:ident, $key:literal, $field:expr, def $ty:ty = $default:expr) => {
        if *$field != {
            let value: $ty = $default;
            value
        } {
            $out.push(($key, $crate::scenario::table::Value::write($field)));
        }
    };
}

macro_rules! field_visit {
    ($path:ident, $see:ident, $key:literal, $field:expr, opt) => {
        if let Some(value) = $field {
            $crate::scenario::table::Value::visit(value, &format!("{}.{}", $path, $key), $see);
        }
    };
    ($path:ident, $see:ident, $key:literal, $field:expr, $mode:ident) => {
        $crate::scenario::table::Value::visit($field, &format!("{}.{}", $path, $key), $see);
    };
}

macro_rules! key_of {
    ($($doc:literal)+, $key:literal, $example:literal, $mode:ident $ty:ty $(= $default:expr)?) => {
        $crate::scenario::table::Key {
            name: $key,
            about: &[$($doc),+],
            kind: <$ty as $crate::scenario::table::Value>::kind,
            short: <$ty as $crate::scenario::table::Value>::SHORT,
            keys: <$ty as $crate::scenario::table::Value>::keys,
            need: $crate::scenario::table::field_need!($mode $($ty = $default)?),
            example: $example,
        }
    };
}

/// Makes a struct of keys: `"key" field: req|opt|def Type [= default] => "example as TOML";`
macro_rules! section {
    ($(#[doc = $about:literal])+ pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $key:literal $field:ident : $mode:ident $ty:ty $(= $default:expr)? => $example:literal;)*
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $crate::scenario::table::field_type!($mode $ty),)*
        }

        impl $crate::scenario::table::Section for $name {
            const KEYS: &'static [$crate::scenario::table::Key] = &[
                $($crate::scenario::table::key_of!($($doc)+, $key, $example, $mode $ty $(= $default)?),)*
            ];

            fn read_from(reader: &$crate::scenario::read::Reader<'_>) -> Option<Self> {
                $(let $field = $crate::scenario::table::field_read!(reader, $key, $mode $ty $(= $default)?);)*
                Some(Self { $($field: $field?),* })
            }

            fn write_to(&self, out: &mut Vec<(&'static str, $crate::scenario::value::Out)>) {
                $($crate::scenario::table::field_write!(out, $key, &self.$field, $mode $ty $(= $default)?);)*
            }

            fn visit_in(
                &self,
                path: &str,
                see: &mut dyn FnMut(&str, $crate::scenario::value::Mention<'_>),
            ) {
                $($crate::scenario::table::field_visit!(path, see, $key, &self.$field, $mode);)*
            }
        }

        impl $crate::scenario::table::Value for $name {
            const SHORT: &'static str = "table";

            fn kind() -> String {
                "a table".to_owned()
            }

            fn keys() -> &'static [$crate::scenario::table::Key] {
                <Self as $crate::scenario::table::Section>::KEYS
            }

            fn read(
                cx: &$crate::scenario::read::Cx<'_>,
                item: &$crate::scenario::read::Item<'_>,
                path: &str,
            ) -> Option<Self> {
                let reader = $crate::scenario::read::Reader::open(cx, item, path)?;
                let read = <Self as $crate::scenario::table::Section>::read_from(&reader);
                reader.finish().and(read)
            }

            fn write(&self) -> $crate::scenario::value::Out {
                let mut out = Vec::new();
                $crate::scenario::table::Section::write_to(self, &mut out);
                $crate::scenario::value::Out::Table(out)
            }

            fn visit(
                &self,
                path: &str,
                see: &mut dyn FnMut(&str, $crate::scenario::value::Mention<'_>),
            ) {
                $crate::scenario::table::Section::visit_in(self, path, see);
            }
        }
    };
}

/// Makes an enum of named sets of keys.
macro_rules! choice {
    ($(#[doc = $about:literal])+ pub enum $name:ident {
        $($(#[doc = $says:literal])+ $word:literal $variant:ident {
            $($(#[doc = $doc:literal])+ $key:literal $field:ident : $mode:ident $ty:ty $(= $default:expr)? => $example:literal;)*
        })*
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[doc = $says])+ $variant {
                $($(#[doc = $doc])+ $field: $crate::scenario::table::field_type!($mode $ty),)*
            },)*
        }

        impl $crate::scenario::table::Choice for $name {
            const VARIANTS: &'static [$crate::scenario::table::Variant] = &[
                $($crate::scenario::table::Variant {
                    name: $word,
                    about: &[$($says),+],
                    keys: &[$($crate::scenario::table::key_of!($($doc)+, $key, $example, $mode $ty $(= $default)?),)*],
                },)*
            ];

            fn read_named(
                name: &str,
                reader: &$crate::scenario::read::Reader<'_>,
            ) -> Option<Self> {
                match name {
                    $($word => {
                        $(let $field = $crate::scenario::table::field_read!(reader, $key, $mode $ty $(= $default)?);)*
                        reader.knows(&[$($key),*]);
                        Some(Self::$variant { $($field: $field?),* })
                    })*
                    _ => None,
                }
            }

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $word,)*
                }
            }

            fn write_to(&self, out: &mut Vec<(&'static str, $crate::scenario::value::Out)>) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        $($crate::scenario::table::field_write!(out, $key, $field, $mode $ty $(= $default)?);)*
                    })*
                }
                let _ = out;
            }

            fn visit_in(
                &self,
                path: &str,
                see: &mut dyn FnMut(&str, $crate::scenario::value::Mention<'_>),
            ) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        $($crate::scenario::table::field_visit!(path, see, $key, $field, $mode);)*
                    })*
                }
                let _ = (path, see);
            }
        }
    };
}

/// Makes an enum of words: `Variant = "word"`.
macro_rules! words {
    ($(#[$about:meta])+ pub enum $name:ident {
        $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+
    }) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the word that files have for it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Returns what a word means, if it is one of these.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().find(|known| known.word() == word).copied()
            }
        }

        impl $crate::scenario::table::Value for $name {
            const SHORT: &'static str = "word";

            fn kind() -> String {
                let says = [$(($word, [$($doc),+].concat())),+];
                says.map(|(word, says)| format!("\"{word}\" ({})", says.trim().trim_end_matches('.')))
                    .join(", ")
            }

            fn read(
                cx: &$crate::scenario::read::Cx<'_>,
                item: &$crate::scenario::read::Item<'_>,
                path: &str,
            ) -> Option<Self> {
                let words = [$($word),+];
                let word = cx.word(item, path, &words)?;
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn write(&self) -> $crate::scenario::value::Out {
                $crate::scenario::value::Out::Text(self.word().to_owned())
            }
        }
    };
}

pub(super) use {
    choice, field_need, field_read, field_type, field_visit, field_write, key_of, section, words,
};
