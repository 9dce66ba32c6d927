//! The objects of a batch.

use std::hash::Hash;

use foldhash::{HashMap, HashMapExt as _};

/// Objects by number, in the order of insertion, so that the order of writes is deterministic. They are
/// stored contiguously, because they are large and processed in that order.
pub(super) struct Arena<I, T> {
    places: HashMap<I, u32>,
    all: Vec<(I, Option<T>)>,
}

impl<I, T> Default for Arena<I, T> {
    fn default() -> Self {
        Arena { places: HashMap::new(), all: Vec::new() }
    }
}

impl<I: Copy + Eq + Hash, T> Arena<I, T> {
    pub(super) fn reserve(&mut self, more: usize) {
        self.places.reserve(more);
        self.all.reserve(more);
    }

    pub(super) fn get(&self, id: &I) -> Option<&T> {
        self.all.get(*self.places.get(id)? as usize)?.1.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: &I) -> Option<&mut T> {
        self.all.get_mut(*self.places.get(id)? as usize)?.1.as_mut()
    }

    /// Replaces the object with the same number, or appends a new one.
    pub(super) fn insert(&mut self, id: I, object: T) {
        match self.places.get(&id).and_then(|place| self.all.get_mut(*place as usize)) {
            Some((_, place)) => *place = Some(object),
            None => {
                self.places.insert(id, self.all.len() as u32);
                self.all.push((id, Some(object)));
            }
        }
    }

    /// Removes an object; its index stays unused.
    pub(super) fn remove(&mut self, id: &I) {
        if let Some((_, place)) = self.places.get(id).and_then(|place| self.all.get_mut(*place as usize)) {
            *place = None;
        }
    }

    /// The number of indexes, including unused ones.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// All objects.
    pub(super) fn all(&self) -> impl Iterator<Item = (I, &T)> {
        self.all.iter().filter_map(|(id, object)| Some((*id, object.as_ref()?)))
    }

    /// All objects, by value.
    pub(super) fn into_all(self) -> impl Iterator<Item = (I, T)> {
        self.all.into_iter().filter_map(|(id, object)| Some((id, object?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_keep_their_places() {
        let mut arena = Arena::default();
        for (id, object) in [(7, "a"), (3, "b"), (9, "c"), (7, "d")] {
            arena.insert(id, object);
        }
        arena.remove(&3);
        arena.remove(&4);
        assert_eq!((arena.get(&3), arena.get(&7)), (None, Some(&"d")));
        arena.insert(3, "e");
        if let Some(object) = arena.get_mut(&9) {
            *object = "f";
        }
        assert_eq!(arena.into_all().collect::<Vec<_>>(), [(7, "d"), (3, "e"), (9, "f")]);
    }
}
