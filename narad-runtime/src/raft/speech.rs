//! How messages leave a node: at once, with the output, or after what they came with.

use super::output::Outgoing;
use ::raft::eraftpb::{Message, MessageType};
use narad_core::ids::NodeId;
use protobuf::Message as _;
use std::collections::BTreeMap;

/// Sends a message at once.
pub type Voice = Box<dyn Fn(Outgoing) + Send>;

/// What a node says, and has said.
#[derive(Default)]
pub(super) struct Speech {
    voice: Option<Voice>,
    /// What is said once the rest of the output has been dealt with.
    later: Vec<Outgoing>,
    /// The last append to each peer.
    appends: BTreeMap<NodeId, Told>,
}

/// How far an append has told a peer of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    term: u64,
    last: u64,
    commit: u64,
    /// The tick in which it was sent.
    tick: u64,
}

impl Told {
    fn by(message: &Message, tick: u64) -> Self {
        let last = message.get_index() + message.get_entries().len() as u64;
        Self { term: message.get_term(), last, commit: message.get_commit(), tick }
    }

    /// Whether an append without entries says nothing that this one did not say a moment ago.
    fn says(&self, other: &Self) -> bool {
        let Self { term, last, commit, tick } = *other;
        (self.term, self.last, self.tick) == (term, last, tick) && self.commit >= commit
    }
}

impl Speech {
    pub(super) fn speak_by(&mut self, voice: Voice) {
        self.voice = Some(voice);
    }

    /// Forgets what peers were told: another term begins.
    pub(super) fn forget(&mut self) {
        self.appends.clear();
    }

    /// Whether messages are said as soon as they may be.
    pub(super) const fn has_voice(&self) -> bool {
        self.voice.is_some()
    }

    /// Says messages by the voice; without one they go into `out`.
    pub(super) fn say(&mut self, messages: &[Message], tick: u64, out: &mut Vec<Outgoing>) {
        self.say_rest();
        for message in messages {
            let Some(outgoing) = self.outgoing(message, tick) else { continue };
            match &self.voice {
                Some(voice) => voice(outgoing),
                None => out.push(outgoing),
            }
        }
    }

    /// Keeps messages until [`say_rest`](Self::say_rest), if there is a voice: whoever waits for
    /// this output need not wait until its peers have been told.
    pub(super) fn say_later(&mut self, messages: &[Message], tick: u64, out: &mut Vec<Outgoing>) {
        for message in messages {
            let Some(outgoing) = self.outgoing(message, tick) else { continue };
            let queue = if self.has_voice() { &mut self.later } else { &mut *out };
            queue.push(outgoing);
        }
    }

    /// Says what was kept.
    pub(super) fn say_rest(&mut self) {
        let Some(voice) = &self.voice else { return };
        for outgoing in self.later.drain(..) {
            voice(outgoing);
        }
    }

    fn outgoing(&mut self, message: &Message, tick: u64) -> Option<Outgoing> {
        if self.has_said(message, tick) {
            return None;
        }
        let to = NodeId(message.get_to());
        let is_snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
        // One that cannot be encoded (2 GiB) is lost, like any other message may be.
        let bytes = message.write_to_bytes().ok()?;
        Some(Outgoing { to, bytes, is_snapshot })
    }

    /// Notes an append; says whether its peer was told as much in this very tick.
    ///
    /// The library repeats itself to each peer whose heartbeat is answered before the append that
    /// followed it: a frame there and one back for nothing, on every change that follows a barrier.
    /// If the first one was lost, the answer to a heartbeat of the next tick has it repeated.
    fn has_said(&mut self, message: &Message, tick: u64) -> bool {
        if message.get_msg_type() != MessageType::MsgAppend {
            return false;
        }
        let (to, told) = (NodeId(message.get_to()), Told::by(message, tick));
        let said = self.appends.get(&to).is_some_and(|before| before.says(&told));
        if said && message.get_entries().is_empty() {
            return true;
        }
        self.appends.insert(to, told);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ::raft::eraftpb::Entry;

    use super::*;

    const PEER: u64 = 2;

    /// An append in term 3 of so many entries after one index.
    fn append(after: u64, entries: usize, commit: u64) -> Message {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgAppend);
        message.set_to(PEER);
        message.set_term(3);
        message.set_index(after);
        message.set_commit(commit);
        message.set_entries(vec![Entry::default(); entries].into());
        message
    }

    /// How many of these are said in a tick.
    fn said(speech: &mut Speech, messages: &[Message], tick: u64) -> usize {
        let mut out = Vec::new();
        speech.say(messages, tick, &mut out);
        out.len()
    }

    #[test]
    fn an_append_that_says_nothing_new_is_said_once_in_a_tick() {
        let mut speech = Speech::default();
        assert_eq!(said(&mut speech, &[append(7, 1, 7)], 1), 1);
        assert_eq!(said(&mut speech, &[append(8, 0, 7)], 1), 0, "as far as the entry before");
        assert_eq!(said(&mut speech, &[append(8, 0, 8)], 1), 1, "it commits more");
        assert_eq!(said(&mut speech, &[append(8, 0, 7)], 1), 0, "an earlier commit is no news");
        assert_eq!(said(&mut speech, &[append(9, 0, 8)], 1), 1, "it reaches further");
        assert_eq!(said(&mut speech, &[append(8, 0, 8)], 1), 1, "the peer may have refused that");
        assert_eq!(said(&mut speech, &[append(8, 0, 8)], 2), 1, "the first one may be lost");
        assert_eq!(said(&mut speech, &[append(7, 1, 8), append(7, 1, 8)], 2), 2, "entries");
    }

    #[test]
    fn another_peer_term_or_kind_is_no_repetition() {
        let mut speech = Speech::default();
        let first = append(8, 0, 8);
        let mut others = [first.clone(), first.clone(), first.clone()];
        others[0].set_to(PEER + 1);
        others[1].set_term(4);
        others[2].set_msg_type(MessageType::MsgHeartbeat);
        assert_eq!(said(&mut speech, std::slice::from_ref(&first), 1), 1);
        assert_eq!(said(&mut speech, &others, 1), 3);
        speech.forget();
        assert_eq!(said(&mut speech, &[first], 1), 1);
    }

    #[test]
    fn what_hurries_nobody_waits_but_never_for_what_is_said_later() {
        let mut speech = Speech::default();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        speech.speak_by(Box::new(move |said| ear.lock().expect("nobody panics").push(said.bytes)));
        let take = || std::mem::take(&mut *heard.lock().expect("nobody panics"));
        let (news, entry) = (append(8, 0, 8), append(8, 1, 8));
        let bytes = |message: &Message| message.write_to_bytes().expect("small");
        let mut out = Vec::new();

        speech.say_later(std::slice::from_ref(&news), 1, &mut out);
        assert!(take().is_empty());
        speech.say_rest();
        assert_eq!(take(), [bytes(&news)]);
        speech.say_rest();
        assert!(take().is_empty(), "once");

        speech.say_later(std::slice::from_ref(&news), 2, &mut out);
        speech.say(std::slice::from_ref(&entry), 2, &mut out);
        assert_eq!(take(), [bytes(&news), bytes(&entry)]);
        assert!(out.is_empty());
    }

    #[test]
    fn without_a_voice_everything_is_put_out() {
        let (mut speech, mut out) = (Speech::default(), Vec::new());
        speech.say_later(&[append(8, 0, 8)], 1, &mut out);
        speech.say(&[append(8, 1, 8)], 1, &mut out);
        assert_eq!(out.len(), 2);
    }
}
