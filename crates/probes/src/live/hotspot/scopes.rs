//! Which methods a place of compiled code belongs to: the compilers put methods into those that call them, and record
//! that for each call (src/hotspot/share/code/{pcDesc,scopeDesc,debugInfo,compressedStream}.cpp).

use super::code_cache::Blob;
use super::memory::{Members, Memory};
use super::vm_structs::VmStructs;

/// More methods than the compilers put into each other.
const DEPTH_MAX: usize = 64;
/// More bytes than the places of one method take.
const PLACES_MAX: u64 = 1 << 20;
/// The first version whose numbers avoid zero bytes (JDK-8292758).
const WITHOUT_ZEROS: i32 = 20;

/// Reads what compilers recorded.
pub struct Scopes {
    memory: Memory,
    method: u64,
    compile_id: u64,
    tables: Tables,
    place_bytes: u64,
    place_offset: u64,
    place_scope: u64,
    /// What is taken from each byte of a number.
    excess: u32,
}

/// Where a compiled method has its tables, as offsets in its header.
enum Tables {
    /// Before JDK 23: places, methods and the end of places by their offsets in the method, scopes by address.
    Inside { places: u64, places_end: u64, scopes: u64, methods: u64 },
    /// Outside of the code cache.
    Outside { immutable: u64, places: u64, scopes: u64, mutable: u64, relocations: u64 },
}

/// The tables of one method, as addresses.
struct Found {
    places: u64,
    places_end: u64,
    scopes: u64,
    methods: u64,
}

/// Which place of the code is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum At {
    /// A call returns here. A call of the virtual machine's own may have no record.
    Return,
    /// Any instruction: the next place with a record tells about it.
    Instruction,
}

impl Scopes {
    /// # Errors
    /// Names what the virtual machine does not describe.
    pub fn new(memory: Memory, structs: &VmStructs, version: i32) -> Result<Scopes, String> {
        let inside = || -> Result<Tables, String> {
            Ok(Tables::Inside {
                places: structs.member("nmethod._scopes_pcs_offset")?,
                places_end: structs.member("nmethod._dependencies_offset")?,
                scopes: structs.member("CompiledMethod._scopes_data_begin")?,
                methods: structs.member("nmethod._metadata_offset")?,
            })
        };
        let outside = || -> Result<Tables, String> {
            Ok(Tables::Outside {
                immutable: structs.member("nmethod._immutable_data")?,
                places: structs.member("nmethod._scopes_pcs_offset")?,
                scopes: structs.member("nmethod._scopes_data_offset")?,
                mutable: structs.member("CodeBlob._mutable_data")?,
                relocations: structs.member("CodeBlob._relocation_size")?,
            })
        };
        Ok(Scopes {
            memory,
            method: structs.one_of(&["nmethod._method", "CompiledMethod._method"])?,
            compile_id: structs.member("nmethod._compile_id")?,
            tables: inside().or_else(|_| outside())?,
            place_bytes: structs.size("PcDesc")?,
            place_offset: structs.member("PcDesc._pc_offset")?,
            place_scope: structs.member("PcDesc._scope_decode_offset")?,
            excess: u32::from(version >= WITHOUT_ZEROS),
        })
    }

    /// The method that was compiled.
    pub fn compiled(&self, blob: &Blob) -> Option<u64> {
        blob.header.word_at(self.method).filter(|method| *method != 0)
    }

    /// Tells compilations apart, those of one method, too.
    pub fn compile_id(&self, blob: &Blob) -> Option<i32> {
        blob.header.int_at(self.compile_id)
    }

    /// The methods at an address of compiled code, innermost first; `None` where there is no record of it.
    pub fn at(&self, blob: &Blob, address: u64, at: At) -> Option<Vec<u64>> {
        let tables = self.tables.find(blob)?;
        let bytes = tables.places_end.checked_sub(tables.places).filter(|n| *n <= PLACES_MAX)?;
        let places = self.memory.bytes(tables.places, usize::try_from(bytes).ok()?)?;
        let wanted = i32::try_from(address.checked_sub(blob.code.start)?).ok()?;
        let mut places = places.chunks_exact(usize::try_from(self.place_bytes).ok()?);
        // The first and the last bound the others.
        let place = places.find(|place| match place.int_at(self.place_offset) {
            Some(offset) if at == At::Return => offset == wanted,
            Some(offset) => offset >= wanted && offset != i32::MAX,
            None => false,
        })?;
        let mut scope = place.int_at(self.place_scope)?;
        let mut methods = Vec::new();
        while scope > 0 && methods.len() < DEPTH_MAX {
            let (outer, method) = self.scope(&tables, scope)?;
            methods.push(method);
            // Scopes are written from the outermost on.
            scope = Some(outer).filter(|outer| *outer < scope)?;
        }
        (!methods.is_empty()).then_some(methods)
    }

    /// The scope around one, 0 if there is none, and its method.
    fn scope(&self, tables: &Found, offset: i32) -> Option<(i32, u64)> {
        /// Two numbers have no more bytes.
        const BYTES_MAX: usize = 10;
        let address = tables.scopes.checked_add(u64::try_from(offset).ok()?)?;
        let bytes = self.memory.prefix(address, BYTES_MAX);
        let (outer, length) = number(&bytes, self.excess)?;
        let (method, _) = number(&bytes[length..], self.excess)?;
        let index = u64::from(method.checked_sub(1)?);
        let method = self.memory.word(tables.methods.checked_add(8 * index)?)?;
        Some((i32::try_from(outer).ok()?, method))
    }
}

impl Tables {
    fn find(&self, blob: &Blob) -> Option<Found> {
        let header = blob.header.as_slice();
        let offset = |member: u64| u64::try_from(header.int_at(member)?).ok();
        match *self {
            Tables::Inside { places, places_end, scopes, methods } => Some(Found {
                places: blob.address.checked_add(offset(places)?)?,
                places_end: blob.address.checked_add(offset(places_end)?)?,
                scopes: header.word_at(scopes)?,
                methods: blob.address.checked_add(offset(methods)?)?,
            }),
            Tables::Outside { immutable, places, scopes, mutable, relocations } => {
                let immutable = header.word_at(immutable)?;
                let scopes = immutable.checked_add(offset(scopes)?)?;
                Some(Found {
                    places: immutable.checked_add(offset(places)?)?,
                    places_end: scopes,
                    scopes,
                    methods: header.word_at(mutable)?.checked_add(offset(relocations)?)?,
                })
            }
        }
    }
}

/// A number in the format UNSIGNED5 (src/hotspot/share/utilities/unsigned5.hpp), and how many bytes it has: bytes from 192 on
/// are followed by more, of 6 bits more each.
fn number(bytes: &[u8], excess: u32) -> Option<(u32, usize)> {
    const FOLLOWED: u8 = 192;
    const LENGTH_MAX: usize = 5;
    let mut sum = 0_u32;
    for (index, byte) in bytes.iter().take(LENGTH_MAX).enumerate() {
        let digit = u32::from(*byte).checked_sub(excess)?;
        sum = sum.wrapping_add(digit.wrapping_shl(6 * index as u32));
        if *byte < FOLLOWED || index == LENGTH_MAX - 1 {
            return Some((sum, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_read_in_both_formats() {
        assert_eq!(number(&[5, 9], 0), Some((5, 1)));
        assert_eq!(number(&[191], 0), Some((191, 1)));
        assert_eq!(number(&[192, 0], 0), Some((192, 2)));
        assert_eq!(number(&[200, 3], 0), Some((200 + (3 << 6), 2)));
        assert_eq!(number(&[6, 9], 1), Some((5, 1)));
        assert_eq!(number(&[192, 1], 1), Some((191, 2)));
        assert_eq!(number(&[0], 1), None);
        assert_eq!(number(&[200], 0), None);
        assert_eq!(number(&[255, 255, 255, 255, 255, 7], 0).map(|(_, length)| length), Some(5));
    }
}
