//! Numbers of a file in the byte order of the host that recorded it. A number outside the file is
//! `None`: no offset in a file can cause a read beyond its end.

/// The byte order of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// Lowest byte first, as on x86 and most other architectures.
    #[default]
    Little,
    /// Highest byte first, as on s390.
    Big,
}

impl ByteOrder {
    /// The number of eight bytes at an offset.
    pub fn u64_at(self, bytes: &[u8], at: usize) -> Option<u64> {
        let eight = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(self.u64(eight))
    }

    /// The number of four bytes at an offset.
    pub fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match self {
            ByteOrder::Little => u32::from_le_bytes(four),
            ByteOrder::Big => u32::from_be_bytes(four),
        })
    }

    /// The number of two bytes at an offset.
    pub fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        let two = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(match self {
            ByteOrder::Little => u16::from_le_bytes(two),
            ByteOrder::Big => u16::from_be_bytes(two),
        })
    }

    /// All numbers of eight bytes.
    pub fn u64s(self, bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
        bytes.chunks_exact(8).map(move |eight| self.u64(eight.try_into().unwrap_or_default()))
    }

    /// Flags that are bit fields in C: compilers allocate them from the first byte's end.
    pub fn bits(self, flags: u64) -> u64 {
        match self {
            ByteOrder::Little => flags,
            ByteOrder::Big => flags.reverse_bits(),
        }
    }

    fn u64(self, eight: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(eight),
            ByteOrder::Big => u64::from_be_bytes(eight),
        }
    }
}
