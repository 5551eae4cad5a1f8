//! Locks as their values, for serde. Serializing waits for the lock.

use crate::{Mutex, ReentrantLock, RwLock};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! as_their_values {
    ($($lock:ident: $take:ident),*) => { $(
        impl<T: ?Sized + Serialize> Serialize for $lock<T> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.$take().serialize(to)
            }
        }

        impl<'de, T: Deserialize<'de>> Deserialize<'de> for $lock<T> {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$lock<T>, D::Error> {
                T::deserialize(from).map($lock::new)
            }
        }
    )* };
}

as_their_values! { Mutex: lock, ReentrantLock: lock, RwLock: read }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let text =
            serde_json::to_string(&(Mutex::new(1), RwLock::new([2]), ReentrantLock::new("3")));
        assert_eq!(text.unwrap(), r#"[1,[2],"3"]"#);
        let back: (Mutex<u8>, RwLock<[u8; 1]>, ReentrantLock<String>) =
            serde_json::from_str(r#"[1,[2],"3"]"#).unwrap();
        assert_eq!((back.0.into_inner(), back.1.into_inner()), (1, [2]));
        assert_eq!(back.2.into_inner(), "3");
    }
}
