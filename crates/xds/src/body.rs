//! The body of a response stream: shared bytes, handed on without copying.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;

/// What a stream's task hands to its body.
pub(crate) enum Part {
    /// One gRPC message in pieces. The permit is given back when the last piece was taken.
    Message(Vec<Bytes>, Option<OwnedSemaphorePermit>),
    /// The end of the stream.
    End(Status),
}

/// The body of one response. Empty by default, as for a stream that is refused.
#[derive(Default)]
pub(crate) struct StreamBody {
    parts: Option<mpsc::Receiver<Part>>,
    current: std::vec::IntoIter<Bytes>,
    permit: Option<OwnedSemaphorePermit>,
}

impl StreamBody {
    pub(crate) fn new(parts: mpsc::Receiver<Part>) -> Self {
        Self { parts: Some(parts), ..Self::default() }
    }
}

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        loop {
            if let Some(bytes) = self.current.next() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            self.permit = None;
            let Some(parts) = &mut self.parts else { return Poll::Ready(None) };
            match parts.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Part::Message(frames, permit))) => {
                    self.current = frames.into_iter();
                    self.permit = permit;
                }
                Poll::Ready(Some(Part::End(status))) => {
                    self.parts = None;
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))));
                }
                Poll::Ready(None) => {
                    // The task ended without a status; a body without trailers would be a broken gRPC stream.
                    self.parts = None;
                    let status = Status::internal("the stream's task ended");
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_none() && self.current.as_slice().is_empty()
    }
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(Status::GRPC_STATUS, http::HeaderValue::from_static("13"));
    }
    trailers
}
