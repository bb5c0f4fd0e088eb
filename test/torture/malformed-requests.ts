/** Bytes of valid requests, and random damage to them. */
import { gzipSync } from "node:zlib";
import type { seeded } from "../helpers/loads.ts";

type Random = ReturnType<typeof seeded>;

/** What a client sends over one connection. */
export interface Delivery {
  readonly pieces: readonly Buffer[];
  /** Whether the client resets the connection at once, without reading an answer. */
  readonly isReset: boolean;
}

interface Message {
  method: string;
  target: string;
  version: string;
  headers: string[];
  body: Buffer;
}

/** Largest number of requests on one connection. */
const MAX_PIPELINED = 5;

export class MalformedRequests {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  next(): Delivery {
    const count = this.#chance(0.2) ? 2 + this.#below(MAX_PIPELINED - 1) : 1;
    let bytes: Buffer = Buffer.concat(Array.from({ length: count }, () => this.#request()));
    if (this.#chance(0.25)) bytes = this.#damaged(bytes);
    if (this.#chance(0.1)) bytes = bytes.subarray(0, this.#below(bytes.length));
    const pieces: Buffer[] = [];
    const cuts = this.#chance(0.3) ? 1 + this.#below(4) : 0;
    let rest = bytes;
    for (let cut = 0; cut < cuts && rest.length > 1; cut++) {
      const at = 1 + this.#below(rest.length - 1);
      pieces.push(rest.subarray(0, at));
      rest = rest.subarray(at);
    }
    return { pieces: [...pieces, rest], isReset: this.#chance(0.1) };
  }

  #request(): Buffer {
    const message = this.#pick(valid)();
    const changes = this.#chance(0.05) ? 0 : 1 + this.#below(3);
    for (let change = 0; change < changes; change++) this.#change(message);
    const { method, target, version, headers, body } = message;
    const end = this.#chance(0.03) ? this.#pick(["\n", "\r", "\r\r\n", "\n\r"]) : "\r\n";
    const line = this.#chance(0.03)
      ? this.#pick([
          "",
          method,
          `${method} ${target}`,
          `${method}  ${target} ${version}`,
          `${method}\t${target}\t${version}`,
        ])
      : `${method} ${target} ${version}`;
    return Buffer.concat([Buffer.from([line, ...headers, "", ""].join(end), "latin1"), body]);
  }

  #change(message: Message): void {
    const { headers } = message;
    const at = this.#below(headers.length + 1);
    const changes: readonly (() => void)[] = [
      () => {
        message.method = this.#pick([
          "",
          "get",
          "PO ST",
          "CONNECT",
          "PRI",
          "TRACE",
          "\0",
          "A".repeat(9000),
          this.#noise(),
        ]);
      },
      () => {
        message.target = this.#pick(targets) + (this.#chance(0.3) ? this.#noise() : "");
      },
      () => {
        message.version = this.#pick([
          "",
          "HTTP/1.0",
          "HTTP/0.9",
          "HTTP/2.0",
          "HTTP/9.9",
          "http/1.1",
          "HTTP/1.1 x",
          this.#noise(),
        ]);
      },
      () => headers.splice(at, 1),
      () => headers.splice(at, 0, headers[this.#below(headers.length)] ?? ""),
      () => headers.splice(at, 0, this.#pick(strange)),
      () => headers.splice(at, 0, this.#pick(strange)),
      () => headers.splice(at, 0, `${this.#noise()}: ${this.#noise()}`),
      () => headers.splice(at, 0, ...Array.from({ length: 300 }, (_, i) => `X-${i}: ${i}`)),
      () => headers.splice(at, 1, `${headers[at] ?? "X"}${this.#noise()}`),
      () => {
        const length = headers.findIndex((header) => /^content-length/i.test(header));
        if (length >= 0) headers[length] = `Content-Length: ${this.#pick(lengths(message.body.length))}`;
      },
      () => {
        message.body = this.#damaged(message.body);
      },
      () => {
        message.body = this.#chunked(message.body);
        message.headers = headers.filter((header) => this.#chance(0.1) || !/^content-length/i.test(header));
        message.headers.push(
          this.#pick(["Transfer-Encoding: chunked", "transfer-encoding: Chunked", "Transfer-Encoding: gzip, chunked"]),
        );
      },
    ];
    this.#pick(changes)();
  }

  /** The body in chunked encoding, with random faults. */
  #chunked(body: Buffer): Buffer {
    const parts: Buffer[] = [];
    for (let at = 0; at < body.length; ) {
      const length = 1 + this.#below(body.length - at);
      const size = this.#chance(0.1) ? this.#pick(sizes) : length.toString(16);
      const extension = this.#chance(0.1) ? `;${this.#noise()}` : "";
      const end = this.#chance(0.05) ? this.#pick(["", "\n", "\r", "x"]) : "\r\n";
      parts.push(Buffer.from(`${size}${extension}\r\n`, "latin1"), body.subarray(at, at + length), Buffer.from(end));
      at += length;
    }
    const last = this.#chance(0.2)
      ? this.#pick(["", "0\r\n", "0\r\nX: y\r\n\r\n", "00000\r\n\r\n", "-0\r\n\r\n", "0\r\n: \r\n\r\n"])
      : "0\r\n\r\n";
    return Buffer.concat([...parts, Buffer.from(last)]);
  }

  #damaged(bytes: Buffer): Buffer {
    const from = this.#below(bytes.length + 1);
    const to = Math.min(bytes.length, from + this.#below(40));
    const [before, middle, after] = [bytes.subarray(0, from), bytes.subarray(from, to), bytes.subarray(to)];
    const flipped = Buffer.from(bytes);
    if (from < flipped.length) flipped[from] = (flipped[from] ?? 0) ^ (1 << this.#below(8));
    return this.#pick([
      () => flipped,
      () => Buffer.concat([before, after]),
      () => Buffer.concat([before, middle, middle, after]),
      () => Buffer.concat([before, Buffer.from(this.#noise(), "latin1"), after]),
      () => before,
    ])();
  }

  #noise(): string {
    return String.fromCharCode(...Array.from({ length: this.#below(12) }, () => this.#below(256)));
  }

  #pick<T>(of: readonly T[]): T {
    const chosen = of[this.#below(of.length)];
    if (chosen === undefined) throw new Error("there is nothing to pick from");
    return chosen;
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #chance(share: number): boolean {
    return this.#random() < share;
  }
}

const json = Buffer.from('[{"x": 1}, {"x": 2.5, "note": "\\u00e4"}]');
const form = Buffer.from(
  '--bound\r\nContent-Disposition: form-data; name="x"\r\n\r\n1.5\r\n' +
    '--bound\r\nContent-Disposition: form-data; name="note"; filename="n.txt"\r\nContent-Type: text/plain\r\n\r\nabc\r\n--bound--\r\n',
);

function message(method: string, target: string, headers: readonly string[] = [], body?: Buffer): () => Message {
  const length = body === undefined ? [] : [`Content-Length: ${body.length}`];
  return () => ({
    method,
    target,
    version: "HTTP/1.1",
    headers: ["Host: localhost", ...headers, ...length],
    body: body ?? Buffer.alloc(0),
  });
}

const isJson = "Content-Type: application/json";
const valid: readonly (() => Message)[] = [
  message("POST", "/predictions", [isJson, "Prefer: wait"], json),
  message("POST", "/predictions", [isJson, "Accept: text/event-stream"], json),
  message("POST", "/predictions", [isJson, "Cancel-After: 5", "Idempotency-Key: 0123456789abcdef"], json),
  message("POST", "/predictions", [isJson, "Content-Encoding: gzip", "Prefer: wait"], gzipSync(json)),
  message("POST", "/predictions", [isJson, "Expect: 100-continue", "Prefer: wait"], json),
  message("POST", "/predictions", ["Content-Type: multipart/form-data; boundary=bound", "Prefer: wait"], form),
  message("POST", "/demo", ['Content-Type: multipart/form-data; boundary="bound"', "Prefer: wait"], form),
  message("PUT", "/predictions/chosen-by-a-client-1", [isJson], json),
  message("POST", "/predictions/nobody/cancel", [], Buffer.alloc(0)),
  message("POST", "/v2/models/torture/infer", [isJson, "Inference-Header-Content-Length: 20"], json),
  message(
    "POST",
    "/mcp",
    [isJson, "Accept: application/json, text/event-stream"],
    Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}'),
  ),
  message("GET", "/predictions/nobody", ["Accept: text/event-stream", "Last-Event-ID: 0:nobody.0"]),
  message("GET", "/openapi.json", ["Accept-Encoding: gzip, br", "traceparent: 00-0-0-01"]),
  message("GET", "/", ["Accept: text/html", "Connection: keep-alive"]),
  message("HEAD", "/health/ready"),
  message("OPTIONS", "/predictions", ["Origin: http://other.example", "Access-Control-Request-Method: POST"]),
];

const targets = [
  "*",
  "//",
  "/%00",
  "/%",
  "/%ff%fe",
  "http://a/b",
  "http://[::1",
  "/../../etc/passwd",
  "/predictions?",
  "/predictions/%2e%2e",
  "/predictions/\u0000",
  "/\r\nX: y",
  `/${"a".repeat(9000)}`,
  `/${"a/".repeat(3000)}`,
];

const strange = [
  "Content-Length: 10",
  "Content-Length: -1",
  "Content-Length: 99999999999999999999",
  "Transfer-Encoding: chunked",
  "Transfer-Encoding: chunked, identity",
  "Transfer-Encoding : chunked",
  "Transfer-Encoding: \u000bchunked",
  "Expect: 100-continue",
  "Expect: 200-ok",
  "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13",
  "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
  "Host: a\r\nHost: b",
  "Host: [::",
  "Host: ",
  " folded",
  "no colon",
  ": no name",
  "X: a\rb",
  "X: a\nb",
  "X: \0",
  "X\0: y",
  `X: ${"a".repeat(20_000)}`,
  `${"X".repeat(20_000)}: a`,
  "Content-Type: multipart/form-data",
  "Content-Type: multipart/form-data; boundary=",
  `Content-Type: multipart/form-data; boundary=${"b".repeat(5000)}`,
  "Content-Type: multipart/form-data; boundary*=utf-8''b%0d%0a",
  "Content-Type: application/json; charset=utf-16",
  "Content-Encoding: gzip",
  "Content-Encoding: br, gzip, zstd, deflate, br",
  "Content-Encoding: zstd",
  "Range: bytes=-,5-2,0-99999999999999999999",
  "Prefer: wait=99999999999999999999, wait=x, ;;;",
  "Cancel-After: 1e999",
  "Idempotency-Key: \u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff",
  "Last-Event-ID: 99999999999999999999:log.99999999999999999999",
  "Inference-Header-Content-Length: 99999999999999999999",
  "Connection: close",
  "Connection: content-length, host",
];

const sizes = [
  "0",
  "-1",
  "0x5",
  "fffffffffffffffff",
  "ffffffffffffffff",
  "7fffffffffffffff",
  "80000000",
  "5 ",
  " 5",
  "5;",
  "g",
  "",
];

function lengths(length: number): readonly string[] {
  return [
    String(length + 7),
    String(Math.max(0, length - 3)),
    "0",
    "-1",
    `+${length}`,
    `0x${length.toString(16)}`,
    `${length}, ${length}`,
    `${length}, 3`,
    ` ${length} `,
    `0${length}`,
    "1e3",
    "18446744073709551616",
    "4294967297",
    "",
    "NaN",
  ];
}
