/** A package index on this machine, with wheels like those of torch that are made of small libraries. */
import { createHash, randomBytes } from "node:crypto";
import { basename, join } from "node:path";
import { deflateRawSync } from "node:zlib";

export interface TestWheel {
  readonly filename: string;
  readonly bytes: Buffer;
}

export interface WheelContent {
  /** By path. */
  readonly files: Readonly<Record<string, Buffer | string>>;
  readonly requires?: readonly string[];
  /** Paths whose digests in RECORD are wrong. */
  readonly damaged?: readonly string[];
}

export function wheel(filename: string, { files, requires = [], damaged = [] }: WheelContent): TestWheel {
  const info = `${filename.split("-", 2).join("-")}.dist-info`;
  const metadata = ["Metadata-Version: 2.1", ...requires.map((line) => `Requires-Dist: ${line}`), ""].join("\n");
  const all = Object.entries({ ...files, [`${info}/METADATA`]: metadata });
  const record = all.map(([path, content]) => {
    const digest = createHash("sha256").update(damaged.includes(path) ? "another" : content);
    return `${path},sha256=${digest.digest("base64url")},${content.length}`;
  });
  return { filename, bytes: zip({ ...Object.fromEntries(all), [`${info}/RECORD`]: record.join("\n") }) };
}

function zip(files: Readonly<Record<string, Buffer | string>>): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [path, content] of Object.entries(files)) {
    const packed = deflateRawSync(content);
    const name = Buffer.from(path);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(8, 4);
    common.writeUInt32LE(Bun.hash.crc32(content), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(Buffer.byteLength(content), 18);
    common.writeUInt16LE(name.length, 22);
    const ending = Buffer.alloc(14);
    ending.writeUInt32LE(offset, 10);
    directory.push(Buffer.from("PK\x01\x02\x14\0", "latin1"), common, ending, name);
    const entry = [Buffer.from("PK\x03\x04", "latin1"), common, name, packed];
    parts.push(...entry);
    offset += Buffer.concat(entry).length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", "latin1");
  end.writeUInt16LE(Object.keys(files).length, 8);
  end.writeUInt16LE(Object.keys(files).length, 10);
  end.writeUInt32LE(list.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, list, end]);
}

export interface IndexOptions {
  readonly form?: "html" | "json";
  readonly takesRanges?: boolean;
  /** NAME:PASSWORD that pages and files ask for. */
  readonly login?: string;
  /** Files come from another port, to which this one redirects. */
  readonly redirects?: boolean;
  readonly wrongDigests?: boolean;
  /** Sends so many bytes more than are asked for, in pieces, as far as they are read. */
  readonly surplusBytes?: number;
  /** How much is sent of an answer of so many bytes of a file. */
  cut?(filename: string, bytes: number): number;
}

export interface TestIndex extends Disposable {
  readonly url: string;
  /** `torch-2.13.0-….whl bytes=0-9` of every answer with a file. */
  readonly sent: readonly string[];
  /** Authorization headers that reached the host of redirected files. */
  readonly elsewhere: readonly (string | null)[];
  sentBytes: number;
}

export function packageIndex(wheels: readonly TestWheel[], options: IndexOptions = {}): TestIndex {
  const { form = "html", takesRanges = true, login, redirects = false, wrongDigests = false } = options;
  const sent: string[] = [];
  const elsewhere: (string | null)[] = [];
  const index: { sentBytes: number } = { sentBytes: 0 };
  const digestOf = ({ bytes }: TestWheel) =>
    createHash("sha256")
      .update(wrongDigests ? "another" : bytes)
      .digest("hex");

  const file = (request: Request, found: TestWheel): Response => {
    const asked = request.headers.get("range");
    const [, from, to] = (takesRanges && /^bytes=(\d+)-(\d+)$/.exec(asked ?? "")) || [];
    sent.push(`${found.filename} ${asked}`);
    const whole = found.bytes.length;
    const [begin, end] = from === undefined ? [0, whole] : [Number(from), Math.min(Number(to) + 1, whole)];
    const sentEnd = begin + (options.cut?.(found.filename, end - begin) ?? end - begin);
    const body = found.bytes.subarray(begin, sentEnd);
    index.sentBytes += body.length;
    const headers = from === undefined ? {} : { "Content-Range": `bytes ${begin}-${end - 1}/${whole}` };
    const { surplusBytes } = options;
    const content = surplusBytes === undefined ? new Uint8Array(body) : withSurplus(body, surplusBytes, index);
    return new Response(content, { status: from === undefined ? 200 : 206, headers });
  };
  const named = (url: string) => wheels.find(({ filename }) => filename === basename(new URL(url).pathname));
  const files = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      elsewhere.push(request.headers.get("authorization"));
      const found = named(request.url);
      return found === undefined ? new Response("", { status: 404 }) : file(request, found);
    },
  });
  const pages = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const expected = login && `Basic ${Buffer.from(login).toString("base64")}`;
      if (expected && request.headers.get("authorization") !== expected) return new Response("", { status: 401 });
      const found = named(request.url);
      if (found !== undefined) {
        return redirects ? Response.redirect(new URL(`/${found.filename}`, files.url).href) : file(request, found);
      }
      const project = /^\/simple\/([a-z0-9-]+)\/$/.exec(new URL(request.url).pathname)?.[1];
      const listed = wheels.filter(({ filename }) => filename.split("-", 1)[0]?.replaceAll("_", "-") === project);
      if (listed.length === 0) return new Response("", { status: 404 });
      if (form === "json") {
        const rows = listed.map((one) => ({
          filename: one.filename,
          url: `/files/${one.filename}`,
          hashes: { sha256: digestOf(one) },
        }));
        return Response.json({ files: rows }, { headers: { "Content-Type": "application/vnd.pypi.simple.v1+json" } });
      }
      const links = listed.map(
        (one) => `<a href="../../files/${one.filename}#sha256=${digestOf(one)}">${one.filename}</a>`,
      );
      return new Response(links.join("<br>\n"), { headers: { "Content-Type": "text/html" } });
    },
  });
  return Object.assign(index, {
    url: `http://${login === undefined ? "" : `${login}@`}127.0.0.1:${pages.port}/simple`,
    sent,
    elsewhere,
    [Symbol.dispose]() {
      for (const server of [pages, files]) void server.stop(true);
    },
  });
}

function withSurplus(body: Buffer, surplusBytes: number, count: { sentBytes: number }): ReadableStream<Uint8Array> {
  const piece = new Uint8Array(64 * 1024);
  const end = count.sentBytes + surplusBytes;
  return new ReadableStream({
    start: (controller) => controller.enqueue(new Uint8Array(body)),
    pull(controller) {
      if (count.sentBytes >= end) return controller.close();
      count.sentBytes += piece.length;
      controller.enqueue(piece);
    },
  });
}

/**
 * Libraries of a torch that was built for GPUs: `libtorch_cpu.so` needs `libc10.so`, and `libcupti.so.13` of another wheel.
 * @returns them by name
 */
export async function smallLibraries(folder: string): Promise<(name: string) => Promise<Buffer>> {
  await Bun.write(join(folder, "data"), new Uint8Array(randomBytes(200_000)));
  const link = async (name: string, ...needed: string[]) => {
    const run = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../nvidia/cu13/lib:$ORIGIN";
    const needs = ["-Wl,--no-as-needed", `-L${folder}`, ...needed.map((other) => `-l:${other}`)];
    const made = ["-o", join(folder, name), `-Wl,-soname,${name}`, run, ...needs];
    const child = Bun.spawn(["cc", "-shared", "-nostdlib", "-x", "assembler", "-", "-x", "none", ...made], {
      stdin: new Blob([`.data\n.incbin "${join(folder, "data")}"\n.section .note.GNU-stack\n`]),
      stdout: "ignore",
      stderr: "inherit",
    });
    if ((await child.exited) !== 0) throw new Error(`${name} could not be linked`);
  };
  await Promise.all([link("libc10.so"), link("libcupti.so.13")]);
  await link("libtorch_cpu.so", "libc10.so", "libcupti.so.13");
  return async (name) => Buffer.from(await Bun.file(join(folder, name)).bytes());
}
