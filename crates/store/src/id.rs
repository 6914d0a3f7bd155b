//! Ids of records.

/// A record's id: the time of its start and random digits, such as `20261120-115530-7f3a9c`. Ids sort
/// by time, and hosts need no coordination.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(String);

impl Id {
    /// An id for a record that starts now.
    pub fn new(now: jiff::Timestamp, random: u32) -> Id {
        let time = now.strftime("%Y%m%d-%H%M%S");
        Id(format!("{time}-{:06x}", random & 0xff_ffff))
    }

    /// Parses an id.
    pub fn read(text: &str) -> Option<Id> {
        let mut parts = text.split('-');
        let mut part = |length, digit: fn(&char) -> bool| {
            parts
                .next()
                .is_some_and(|p| p.chars().count() == length && p.chars().all(|c| digit(&c)))
        };
        let decimal = |c: &char| c.is_ascii_digit();
        let hexadecimal = |c: &char| c.is_ascii_hexdigit();
        let ok = part(8, decimal) && part(6, decimal) && part(6, hexadecimal);
        (ok && parts.next().is_none()).then(|| Id(text.to_string()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id after this one, of the same second.
    pub(crate) fn next(&self) -> Id {
        let (time, digits) = self.0.split_at(16);
        let number = u32::from_str_radix(digits, 16).unwrap_or_default();
        Id(format!("{time}{:06x}", (number + 1) & 0xff_ffff))
    }

    /// The name of the record's shard: a folder with 1/256 of all records.
    pub(crate) fn shard(&self) -> &str {
        &self.0[16..18]
    }
}

#[cfg(test)]
mod tests {
    use super::Id;

    #[test]
    fn ids_of_one_second_follow_each_other() {
        let next = |id: &str| Id::read(id).unwrap().next();
        assert_eq!(next("20261120-115530-7f3a9c").as_str(), "20261120-115530-7f3a9d");
        assert_eq!(next("20261120-115530-ffffff").as_str(), "20261120-115530-000000");
        assert_eq!(next("20261120-115530-7f3aff").shard(), "7f");
    }
}
