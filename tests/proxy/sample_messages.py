"""A request, an upload, the head of a stream and a small answer, as the tests of the exchange send them."""

GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\nbody"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_OUT = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
