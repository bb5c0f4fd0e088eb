/** Attacks: requests that make a server use as much memory as they can, beyond `--max-memory` if it has a fault. */
import { connect, type Socket } from "node:net";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { palettePng, withScans } from "../helpers/crafted-pictures.ts";
import { dataUri } from "../helpers/data-uri.ts";

export interface Target {
  readonly url: URL;
  /** Base URL of the files of `attackerFiles`. */
  readonly files: URL;
  /** Aborted when the attack has to end. */
  readonly signal: AbortSignal;
}

export interface Attack {
  readonly name: string;
  /** Runs the attack. Resolves when all its requests are answered, with whatever status. */
  run(target: Target): Promise<unknown>;
}

const MB = 1_000_000;
/** Seconds after which a prediction of an attack is canceled. */
const CANCEL_AFTER_S = 5;

const mediaFile = (name: string) => Bun.file(new URL(`../data/media/${name}`, import.meta.url)).bytes();

// A run may use only some attacks, so each attack makes its material when it needs it.
const photograph = memoized(async () =>
  new Bun.Image(await mediaFile("baseline.jpg")).resize(4000, 3000, { fit: "fill" }).jpeg({ quality: 80 }).bytes(),
);
const scans = memoized(async () => withScans(await mediaFile("progressive.jpg"), 5000));
const png = memoized(() => palettePng(7000, 7000));
const deepForm = memoized(() => formOf((part) => `name=${part}${".a".repeat(31)}`));
const parametersForm = memoized(() => gzipSync(formOf((part) => `name=${part}${";a=a".repeat(1250)}`)));

/** A function that calls `make` once, at its first call. */
function memoized<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** A multipart form of 9,998 parts. @param disposition Content-Disposition of each part */
function formOf(disposition: (part: number) => string): Buffer<ArrayBuffer> {
  const parts = Array.from(
    { length: 9998 },
    (_, part) => `--b\r\nContent-Disposition: form-data; ${disposition(part)}\r\n\r\n1\r\n`,
  );
  return Buffer.from(`${parts.join("")}--b--`);
}

/** A server with large files: `/bytes/N` with N bytes, and pictures that are expensive to decode. */
export function attackerFiles(): Bun.Server<undefined> {
  const pictures: Readonly<Record<string, () => Promise<Uint8Array>>> = { "/photograph": photograph, "/scans": scans };
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      const bytes = Number(/^\/bytes\/(\d+)$/.exec(pathname)?.[1]);
      const picture = await pictures[pathname]?.();
      return new Response(picture === undefined ? new Uint8Array(bytes) : new Uint8Array(picture));
    },
  });
}

export const attacks: readonly Attack[] = [
  {
    name: "32 PNGs of 6 kB with 7000 × 7000 pixels",
    run: (target) => {
      const picture = dataUri(png());
      return together(8, () => post(target, times(4, { pictures: [picture] })));
    },
  },
  {
    name: "64 photographs of 12 megapixels",
    run: (target) => post(target, times(64, { pictures: [fileUrl(target, "photograph")] })),
  },
  {
    name: "32 progressive JPEGs of 5,000 scans",
    run: (target) => post(target, times(32, { pictures: [fileUrl(target, "scans")] })),
  },
  {
    name: "6 MB of texts for a list of numbers",
    run: (target) => sendTogether(8, target, `[{"numbers":[${repeated('""', 2 * MB)}]}]`),
  },
  {
    name: "12 MB of empty objects",
    run: (target) => sendTogether(4, target, `[{"numbers":[${repeated("{}", 4 * MB)}]}]`),
  },
  {
    name: "12 MB of empty inputs",
    run: (target) => sendTogether(4, target, `[${repeated("{}", 4 * MB)}]`),
  },
  {
    name: "24 MB of numbers, eight times",
    run: (target) => sendTogether(8, target, `[{"numbers":[${repeated("1", 12 * MB)}]}]`),
  },
  {
    name: "12 forms of 9,998 parts in 32 places each",
    run: (target) => together(12, () => sendForm(target, deepForm())),
  },
  {
    name: "14 forms of 50 MB of parameters, compressed",
    run: (target) => together(14, () => sendForm(target, parametersForm(), { "Content-Encoding": "gzip" })),
  },
  {
    name: "9,000 gzip uploads that stop after 12 bytes",
    run: (target) => together(9000, () => begunUpload(target, "gzip", gzipSync("a").subarray(0, 12))),
  },
  {
    name: "9,000 zstd uploads that stop after 6 bytes",
    run: (target) => together(9000, () => begunUpload(target, "zstd", zstdCompressSync("a").subarray(0, 6))),
  },
  {
    name: "60 uploads of 60 MB that stop after 3 MB",
    run: (target) => together(60, () => stalledUpload(target, `Content-Length: ${60 * MB}`)),
  },
  {
    name: "24 uploads in chunks that never end",
    run: (target) => together(24, () => stalledUpload(target, "Transfer-Encoding: chunked")),
  },
  {
    name: "demos of 64 files of 30 MB",
    run: (target) =>
      together(4, () => post(target, times(64, { files: [fileUrl(target, `bytes/${30 * MB}`)] }), "/demo")),
  },
  {
    name: "200 files of 8 MB",
    run: (target) => post(target, times(200, { files: [fileUrl(target, `bytes/${8 * MB}`)] })),
  },
  {
    name: "inputs of 8 files of 30 MB",
    run: (target) => post(target, times(16, { files: times(8, fileUrl(target, `bytes/${30 * MB}`)) })),
  },
  {
    name: "two padded dimensions whose product is large",
    run: (target) =>
      together(4, () =>
        post(
          target,
          Array.from({ length: 64 }, (_, i) => (i % 2 === 0 ? { rows: 7500 } : { columns: 7500 })),
        ),
      ),
  },
  {
    name: "empty tensors of 0x60000000 layers",
    run: (target) => together(4, () => post(target, [...times(16, { layers: 0x60000000 }), ...times(16, { rows: 2 })])),
  },
  {
    name: "rows of 4 MB before a slow postprocess",
    run: (target) => post(target, times(500, { rows: MB, laterMs: 1000 })),
  },
  {
    name: "100,000 faults in each output",
    run: (target) => together(4, () => post(target, times(32, { faults: 100_000 }))),
  },
  {
    name: "results of 8 MB",
    run: (target) => together(8, () => post(target, times(25, { length: 8 * MB }))),
  },
  {
    name: "demo results of 8 MB",
    run: (target) => together(4, () => post(target, times(40, { length: 8 * MB }), "/demo")),
  },
  {
    name: "30 slow readers of a result of 50 MB",
    run: async (target) => {
      const at = await create(target, [{ length: 50 * MB }]);
      if (at !== undefined) await together(30, () => slowReader(target, at));
    },
  },
  {
    name: "200 names that never resolve",
    run: (target) =>
      post(
        target,
        Array.from({ length: 200 }, (_, i) => ({ files: [`http://n${i}.never.example/`] })),
      ),
  },
];

function fileUrl({ files }: Target, path: string): string {
  return new URL(path, files).href;
}

function times<T>(count: number, value: T): T[] {
  return Array<T>(count).fill(value);
}

/** JSON of `count` equal elements of a list, without brackets. */
function repeated(element: string, count: number): string {
  return `${`${element},`.repeat(count - 1)}${element}`;
}

/** Sends the same body `count` times at once. */
function sendTogether(count: number, target: Target, body: string): Promise<unknown> {
  const bytes = Buffer.from(body);
  return together(count, () => send(target, bytes));
}

function together(count: number, task: () => Promise<unknown>): Promise<unknown> {
  return Promise.all(Array.from({ length: count }, task));
}

function post(target: Target, inputs: readonly unknown[], path?: string): Promise<string | undefined> {
  return send(target, JSON.stringify(inputs), path);
}

/** Sends a prediction and waits for its end. @returns its path; undefined if the server created none */
async function send(
  { url, signal }: Target,
  body: string | Buffer<ArrayBuffer>,
  path = "/predictions",
): Promise<string | undefined> {
  try {
    const headers = { "Content-Type": "application/json", Prefer: "wait=60", "Cancel-After": String(CANCEL_AFTER_S) };
    const response = await fetch(new URL(path, url), { method: "POST", body, signal, headers });
    for await (const _ of response.body ?? []);
    return response.headers.get("location") ?? undefined;
  } catch {
    return undefined;
  }
}

async function sendForm(
  { url, signal }: Target,
  body: Uint8Array<ArrayBuffer>,
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  const headers = { "Content-Type": "multipart/form-data; boundary=b", ...more };
  const response = await fetch(new URL("/predictions", url), { method: "POST", body, signal, headers }).catch(() => {});
  await response?.bytes().catch(() => {});
}

/**
 * Sends a prediction until the server accepts it or the attack ends. @returns its path; undefined if the attack ended
 * first
 */
async function create(target: Target, inputs: readonly unknown[]): Promise<string | undefined> {
  for (let at: string | undefined; !target.signal.aborted; await Bun.sleep(50)) {
    at = await post(target, inputs);
    if (at !== undefined) return at;
  }
  return undefined;
}

/**
 * Sends the head and 3 MB of a body at most, and then nothing until the attack ends or the server closes the
 * connection.
 */
function stalledUpload(target: Target, length: string): Promise<void> {
  const head = `POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
  const chunk = `[${" ".repeat(3 * MB)}`;
  const isChunked = !length.startsWith("Content-Length");
  return opened(target, (socket) => {
    socket.resume();
    socket.write(head);
    socket.write(isChunked ? `${chunk.length.toString(16)}\r\n${chunk}\r\n` : chunk);
  });
}

/** Sends the head and the first bytes of a compressed body, and then nothing. */
function begunUpload(target: Target, encoding: string, start: Uint8Array): Promise<void> {
  const type = `Content-Type: application/json\r\nContent-Encoding: ${encoding}`;
  return opened(target, (socket) => {
    socket.resume();
    socket.write(`POST /predictions HTTP/1.1\r\nHost: localhost\r\n${type}\r\nContent-Length: 100000\r\n\r\n`);
    socket.write(start);
  });
}

/** Requests a result and never reads it, so that the buffers of the system fill up. */
function slowReader(target: Target, at: string): Promise<void> {
  return opened(target, (socket) => {
    socket.pause();
    socket.write(`GET ${at} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  });
}

/** Opens a connection. Resolves when it has ended, at the latest with the attack. */
function opened({ url, signal }: Target, use: (socket: Socket) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket = connect({ host: url.hostname, port: Number(url.port) }, () => use(socket));
  const end = () => socket.destroy();
  signal.addEventListener("abort", end, { once: true });
  socket.on("error", () => {});
  socket.once("close", () => {
    signal.removeEventListener("abort", end);
    resolve();
  });
  return promise;
}
