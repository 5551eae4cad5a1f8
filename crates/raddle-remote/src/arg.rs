//! [`Arg`]: what goes to a task and comes back from it, and how it is made bytes of.

use std::any::type_name;
use std::cell::Cell;
use std::mem::ManuallyDrop;

use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::RemoteError;

/// What can be sent to a task and back: whatever serde can write and read. There is nothing to implement.
///
/// On the way it is [postcard](https://docs.rs/postcard), which does not say what it holds. So what serde can read only where the
/// format tells does not arrive: fields that are `flatten`ed, enums that are `untagged` or have a `tag`, and fields that
/// `skip_serializing_if` leaves out. Tasks with such arguments or results fail with [`Encode`](RemoteError::Encode) or
/// [`Decode`](RemoteError::Decode), or get other values than were sent.
///
/// serde takes a `Vec<u8>` byte by byte, which for many megabytes is several times slower than a `String`. With
/// [serde_bytes](https://docs.rs/serde_bytes) it goes as a whole.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent to a task, or back from one",
    label = "neither an argument nor a result of tasks",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it; it has to be `Send`, too, and to borrow nothing"
)]
pub trait Arg: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Arg for T {}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, RemoteError> {
    encode_after(Vec::new(), value)
}

/// Appends the bytes of a value.
pub(crate) fn encode_after<T: Serialize>(
    bytes: Vec<u8>,
    value: &T,
) -> Result<Vec<u8>, RemoteError> {
    said();
    postcard::serialize_with_flavor(value, Tail(bytes)).map_err(|error| RemoteError::Encode {
        type_name: type_name::<T>().to_owned(),
        reason: reason(&error),
    })
}

thread_local! {
    /// Why raddle's own types have refused last: postcard keeps no texts of errors. Without a destructor, as other locals of the
    /// thread may spawn tasks when they go.
    static SAID: Cell<ManuallyDrop<Option<String>>> = const { Cell::new(ManuallyDrop::new(None)) };
}

fn said() -> Option<String> {
    ManuallyDrop::into_inner(SAID.take())
}

/// Keeps for `encode` and `decode` why they are to fail.
pub(crate) fn because(why: &str) {
    said();
    SAID.set(ManuallyDrop::new(Some(why.to_owned())));
}

fn reason(error: &postcard::Error) -> String {
    said().unwrap_or_else(|| error.to_string())
}

/// The end of a vector. (postcard's own for that takes bytes one by one.)
struct Tail(Vec<u8>);

impl Flavor for Tail {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RemoteError> {
    let error =
        |reason: String| RemoteError::Decode { type_name: type_name::<T>().to_owned(), reason };
    said();
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(error(format!("{} bytes are left over", rest.len()))),
        Err(why) => Err(error(reason(&why))),
    }
}
