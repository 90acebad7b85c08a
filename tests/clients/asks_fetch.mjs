// Node's own fetch (undici) asks one server: `node asks_fetch.mjs BASE_URL` prints what it was told, as JSON.
import { gzipSync } from "node:zlib";

const base = process.argv[2];
const ask = { model: "m", stream: true, messages: [{ role: "user", content: "hi ".repeat(500000) }] };
const told = {};
const post = (body, headers = {}, more = {}) =>
  fetch(`${base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
    ...more,
  });

told.long = await (await post(JSON.stringify(ask))).text();
told.gzip = await (await post(gzipSync(JSON.stringify(ask)), { "content-encoding": "gzip" })).text();

const pieces = JSON.stringify(ask).match(/.{1,50000}/gs);
const upload = new ReadableStream({
  pull(controller) {
    const piece = pieces.shift();
    piece === undefined ? controller.close() : controller.enqueue(new TextEncoder().encode(piece));
  },
});
told.chunked = await (await post(upload, {}, { duplex: "half" })).text();

const leaving = new AbortController();
const slow = await post(JSON.stringify({ ...ask, user: "slow" }), {}, { signal: leaving.signal });
const first = await slow.body.getReader().read();
told.cancelled = new TextDecoder().decode(first.value).slice(0, 6);
leaving.abort();

process.stdout.write(JSON.stringify(told));
