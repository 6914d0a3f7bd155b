//! The types that may lie in a region, and the names of their words.

use crate::{Atom, Field, Line, Value};

/// One word of an [`Image`].
#[derive(Clone, Debug)]
pub struct Word {
    /// Its path within the image: `.next`, `[1].tail`; empty if the image is the word itself.
    pub path: String,
    /// Bytes from the start of the image.
    pub offset: usize,
    /// Its length in bytes.
    pub size: usize,
    /// Says that the value names a CPU: it is 0, or a CPU's number plus one, shifted left by this
    /// many bits. `None`: the value names no CPU. The checker needs this to treat CPUs as
    /// interchangeable.
    pub cpu_shift: Option<u32>,
}

/// A part of an [`Image`] that is no word: several words that an access may use as one, or bits of a word.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its path within the image, as of a [`Word`].
    pub path: String,
    /// Bytes from the start of the image.
    pub offset: usize,
    /// Its length in bytes; of bits, that of the word that holds them.
    pub size: usize,
    /// Its first bit and its number of bits, if it is not whole bytes.
    pub bits: Option<(u8, u8)>,
}

/// A type that may lie in a [`Region`](crate::Region).
///
/// # Safety
/// All-zero bytes must be a valid value, every part must be an `Atom`, a `Field` or an `Image`,
/// and `words` must list every word at its offset. The macro `image!` guarantees that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `Image`, so it cannot lie in a region",
    note = "regions hold `Atom`, `Field`, `Line`, arrays of them, and structs made by `image!`"
)]
pub unsafe trait Image: Sync + 'static {
    /// The words of this type, ordered by offset.
    fn words() -> Vec<Word>;

    /// Further names of parts of this type, for messages.
    fn members() -> Vec<Member> {
        Vec::new()
    }
}

fn word<T: Value>() -> Vec<Word> {
    vec![Word { path: String::new(), offset: 0, size: size_of::<T>(), cpu_shift: None }]
}

// SAFETY: a word, valid when zero.
unsafe impl<T: Value> Image for Atom<T> {
    fn words() -> Vec<Word> {
        word::<T>()
    }
}

// SAFETY: a word, valid when zero.
unsafe impl<T: Value> Image for Field<T> {
    fn words() -> Vec<Word> {
        word::<T>()
    }
}

// SAFETY: only its content, which is an image.
unsafe impl<T: Image> Image for Line<T> {
    fn words() -> Vec<Word> {
        T::words()
    }
}

// SAFETY: no bytes and no words.
unsafe impl Image for () {
    fn words() -> Vec<Word> {
        Vec::new()
    }
}

// SAFETY: only its elements, which are images.
unsafe impl<T: Image, const N: usize> Image for [T; N] {
    fn words() -> Vec<Word> {
        let element = |i: usize| Word::inside::<T>(&format!("[{i}]"), i * size_of::<T>(), None);
        (0..N).flat_map(element).collect()
    }
}

impl Word {
    /// The words of a part of an image, where the part is called `name` and lies at `offset`.
    pub fn inside<T: Image>(name: &str, offset: usize, cpu_shift: Option<u32>) -> Vec<Word> {
        let within_image = |word: Word| Word {
            path: format!("{name}{}", word.path),
            offset: offset + word.offset,
            size: word.size,
            cpu_shift: cpu_shift.or(word.cpu_shift),
        };
        T::words().into_iter().map(within_image).collect()
    }
}

/// Declares structs that may lie in a region, laid out as in C. A field whose value names a
/// CPU (see [`Word::cpu_shift`]) has `#[cpu(SHIFT)]` after its doc comment.
#[macro_export]
macro_rules! image {
    ($(
        $(#[$meta:meta])*
        $visible:vis struct $name:ident $(<$parameter:ident: $bound:path>)? {
            $(
                $(#[doc = $doc:literal])*
                $(#[cpu($shift:literal)])?
                $field_visible:vis $field:ident: $type:ty,
            )*
        }
    )*) => { $(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug)]
        $visible struct $name $(<$parameter: $bound>)? {
            $( $(#[doc = $doc])* $field_visible $field: $type, )*
        }

        // SAFETY: every field is an image, as `Word::inside` requires, so zeroed bytes are valid.
        unsafe impl $(<$parameter: $bound>)? $crate::Image for $name $(<$parameter>)? {
            fn words() -> Vec<$crate::Word> {
                let mut words = Vec::new();
                $(
                    let shift: Option<u32> = None $(.or(Some($shift)))?;
                    words.extend($crate::Word::inside::<$type>(
                        concat!(".", stringify!($field)),
                        $crate::offset_of!(Self, $field),
                        shift,
                    ));
                )*
                words
            }
        }
    )* };
}
