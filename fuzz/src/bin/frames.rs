//! Whatever a stranger sends, in whatever pieces: the same frames come out, or the same error, and no
//! more is kept than was sent.
#![cfg_attr(fuzzing, no_main)]

use narad_fuzz::forge;
use narad_runtime::wire::frame::{self, Decoder, Frame, FrameError};

narad_fuzz::target!("frames", |input| {
    let Some((&piece, sent)) = input.split_first() else { return };
    let mut mended = sent.to_vec();
    forge::mend_frames(&mut mended);
    for bytes in [sent, &mended] {
        let whole = take(bytes, bytes.len());
        assert_eq!(take(bytes, 1 + usize::from(piece)), whole, "the size of pieces matters");
        assert_eq!(greedy(bytes), whole, "reading no more than what is wanted matters");
        let (frames, _) = whole;
        // One version is spoken, so a frame has one form in bytes.
        let again: Vec<u8> = frames
            .iter()
            .flat_map(|one| frame::encode(1, one.kind, &one.payload).expect("it was one"))
            .collect();
        assert!(bytes.starts_with(&again), "a frame is encoded as it was sent");
    }
});

type Taken = (Vec<Frame>, Option<FrameError>);

fn take(bytes: &[u8], piece: usize) -> Taken {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_frame(), Err(error), "an error stays");
                    assert_eq!(decoder.wanted(), 0, "nothing more is asked for after an error");
                    return (frames, Some(error));
                }
            }
        }
    }
    (frames, None)
}

/// Reads as a socket does: as many bytes as the decoder wants, and no other.
fn greedy(bytes: &[u8]) -> Taken {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    let mut rest = bytes;
    loop {
        match decoder.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => {
                let wanted = decoder.wanted();
                assert!(wanted > 0, "a frame that is not whole wants more");
                let (piece, after) = rest.split_at(wanted.min(rest.len()));
                if piece.is_empty() {
                    return (frames, None);
                }
                decoder.push(piece);
                rest = after;
            }
            Err(error) => return (frames, Some(error)),
        }
    }
}
