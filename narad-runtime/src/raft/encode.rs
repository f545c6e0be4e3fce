//! Puts messages into bytes.
//!
//! Most of what a cluster says are heartbeats and their answers: every read barrier is a round of
//! them. They have a handful of fields, which are written here without the generality of the
//! library's encoder; the bytes are the same.

use ::raft::eraftpb::{Message, MessageType};
use protobuf::{Message as _, ProtobufEnum as _, ProtobufResult};

/// The most bytes of a number and the tag before it.
const FIELD_BYTES_MAX: usize = 11;
/// The wire type of a number.
const NUMBER: u8 = 0;
/// That of bytes.
const BYTES: u8 = 2;

/// Encodes a message.
pub(super) fn encode(message: &Message) -> ProtobufResult<Vec<u8>> {
    if !is_plain(message) {
        return message.write_to_bytes();
    }
    let plain = encode_plain(message);
    debug_assert_eq!(message.write_to_bytes().ok().as_ref(), Some(&plain), "{message:?}");
    Ok(plain)
}

/// Whether a message is a heartbeat or an answer to one, and has nothing but what these have.
fn is_plain(message: &Message) -> bool {
    let numbers = [
        message.get_log_term(),
        message.get_index(),
        message.get_reject_hint(),
        message.get_request_snapshot(),
        message.get_deprecated_priority(),
        message.get_priority().cast_unsigned(),
    ];
    let kind = message.get_msg_type();
    matches!(kind, MessageType::MsgHeartbeat | MessageType::MsgHeartbeatResponse)
        && numbers.iter().all(|number| *number == 0)
        && !message.get_reject()
        && message.get_entries().is_empty()
        && !message.has_snapshot()
        && message.get_unknown_fields().fields.is_none()
}

/// Writes the fields in the order in which the library does.
fn encode_plain(message: &Message) -> Vec<u8> {
    let context = message.get_context();
    let mut bytes = Vec::with_capacity(7 * FIELD_BYTES_MAX + context.len());
    put_number(&mut bytes, 1, u64::from(message.get_msg_type().value().cast_unsigned()));
    put_number(&mut bytes, 2, message.get_to());
    put_number(&mut bytes, 3, message.get_from());
    put_number(&mut bytes, 4, message.get_term());
    put_number(&mut bytes, 8, message.get_commit());
    put_number(&mut bytes, 15, message.get_commit_term());
    if !context.is_empty() {
        bytes.push(12 << 3 | BYTES);
        put_varint(&mut bytes, context.len() as u64);
        bytes.extend_from_slice(context);
    }
    bytes
}

/// Writes a field of which zero is the default, which is not written.
fn put_number(bytes: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        bytes.push(field << 3 | NUMBER);
        put_varint(bytes, value);
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Message> {
        let number = || prop_oneof![Just(0), 0..300_u64, any::<u64>()];
        let numbers = proptest::array::uniform7(number());
        let context = proptest::collection::vec(any::<u8>(), 0..200);
        (any::<bool>(), numbers, context, 0..8_u8).prop_map(|(asks, numbers, context, more)| {
            let mut message = Message::default();
            message.set_msg_type(if asks {
                MessageType::MsgHeartbeat
            } else {
                MessageType::MsgHeartbeatResponse
            });
            let [to, from, term, commit, commit_term, index, hint] = numbers;
            (message.to, message.from, message.term) = (to, from, term);
            (message.commit, message.commit_term) = (commit, commit_term);
            match more {
                0 => message.index = index,
                1 => message.reject_hint = hint,
                2 => message.reject = true,
                3 => message.priority = -1,
                4 => message.mut_snapshot().mut_metadata().index = index,
                _ => {}
            }
            message.context = context.into();
            message
        })
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_the_library(message in any_message()) {
            prop_assert_eq!(encode(&message).ok(), message.write_to_bytes().ok());
        }
    }
}
