//! Races that the author of the code accepts, by line: see [`Options::exempt`](super::Options).

use machine::CodeSite;

use super::trace::{How, Race, RacingAccess};
use super::views::Author;
use super::world::World;

impl World {
    /// Whether the atomic accesses at this place race with nothing.
    pub fn is_exempt(&self, site: CodeSite) -> bool {
        !self.exempt.is_empty() && self.exempt.contains(&site.source_line())
    }

    /// Whether the races of a plain read with the atomic writes that it is not ordered after are accepted. If not, notes the
    /// last of them.
    pub fn accepts_old_read(&mut self, task: usize, offset: u32, size: u8, site: CodeSite) -> bool {
        let unread = self.unread(task, offset, size);
        let is_exempt =
            |write: &Option<Author>| write.is_some_and(|Author { site, .. }| self.is_exempt(site));
        let Some(write) = unread.into_iter().find(|write| !is_exempt(write)) else { return true };
        if let Some(trace) = &mut self.trace {
            let writes = |Author { site, .. }| {
                let how = trace.past.iter().rfind(|access| access.site == site);
                let how = how.map_or(How::Writes, |access| access.how);
                RacingAccess { site, how, is_plain: false }
            };
            let earlier = write.map(writes);
            let last = RacingAccess { site, how: How::Reads, is_plain: true };
            trace.race.get_or_insert(Race { earlier, last });
        }
        false
    }

    /// The writes that a task may not have read, the newest of each word first.
    fn unread(&self, task: usize, offset: u32, size: u8) -> Vec<Option<Author>> {
        let (views, mut unread) = (&self.state.views, Vec::new());
        for word in self.layout.touched(offset, size) {
            let (target, mut readable) = (self.layout.target_of(word), Vec::new());
            views.readable(&[task], &target, &mut readable);
            readable.pop();
            let cell = &views.messages[views.cell(target.cell)];
            unread.extend(readable.iter().map(|&read| cell[usize::from(read)].author));
        }
        unread
    }
}
