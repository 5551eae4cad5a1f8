//! [`Arg`]: what goes to a task and comes back from it, and how it is made bytes of.

use std::any::type_name;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::RemoteError;

/// What can be sent to a task and back: whatever serde can write and read. There is nothing to implement.
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
    postcard::to_extend(value, bytes).map_err(|error| RemoteError::Encode {
        type_name: type_name::<T>().to_owned(),
        reason: error.to_string(),
    })
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RemoteError> {
    let error =
        |reason: String| RemoteError::Decode { type_name: type_name::<T>().to_owned(), reason };
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(error(format!("{} bytes are left over", rest.len()))),
        Err(reason) => Err(error(reason.to_string())),
    }
}
