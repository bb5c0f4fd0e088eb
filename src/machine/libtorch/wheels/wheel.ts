/** One wheel of a package index, of which only the files that are asked for are fetched, where its server sends parts. */
import { createReadStream, createWriteStream, existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createInflateRaw, inflateRawSync } from "node:zlib";
import { messageOf, SconceError } from "../../../base/errors.ts";
import { directoryPlace, END_BYTES, entriesOf, HEADER_BYTES, headerSize, type ZipEntry } from "../../../base/zip.ts";
import { isLoopback } from "../../network/loopback.ts";
import { download, lookAt, type Part, readPart } from "./download.ts";
import type { IndexClient } from "./index-client.ts";
import { isLocal, type WheelLink } from "./package-index.ts";

const chunkBytes = 1024 * 1024;
/** The list of torch's files takes two megabytes, and what says what is in it less: a bound against what is something else. */
const maxTextBytes = 64 * 1024 * 1024;
/** With the longest name and the longest extra field. */
const maxHeaderBytes = HEADER_BYTES + 2 * 0xffff;

export interface WheelOptions {
  readonly client: IndexClient;
  /** Keeps what was fetched and not yet unpacked, for another run. */
  readonly partials: string;
  /** Fetches only what is asked for, though the index has a digest of the whole: the wheel's own list of digests comes from the server of the wheel. */
  readonly inParts: boolean;
  onProgress(title: string, doneBytes: number, totalBytes: number): void;
}

/** Bytes in a file on this machine. */
interface Place {
  readonly path: string;
  readonly begin: number;
  /** It is there for nothing else. */
  readonly isTemporary: boolean;
}

interface Source {
  readonly size: number;
  /** Its bytes have the digest that the index has. */
  readonly isChecked: boolean;
  read(part: Part): Promise<Buffer>;
  /** Gets parts onto the disk. */
  place(part: Part, name: string, onBytes: (done: number) => void): Promise<Place>;
}

export class Wheel {
  readonly link: WheelLink;
  readonly entries: readonly ZipEntry[];
  /** Whether its bytes have the digest that the index has; else each file was checked against the wheel's own list. */
  readonly isChecked: boolean;
  readonly #source: Source;
  readonly #directoryBegin: number;
  readonly #options: WheelOptions;
  #digests: ReadonlyMap<string, string> | undefined;

  private constructor(
    link: WheelLink,
    source: Source,
    directory: { readonly begin: number; readonly entries: readonly ZipEntry[] },
    options: WheelOptions,
  ) {
    this.link = link;
    this.entries = directory.entries;
    this.isChecked = source.isChecked;
    this.#source = source;
    this.#directoryBegin = directory.begin;
    this.#options = options;
  }

  /** @throws SconceError `index_unavailable`, `wheel_invalid` */
  static async open(link: WheelLink, options: WheelOptions): Promise<Wheel> {
    const source = await sourceOf(link, options);
    try {
      const tail = await source.read({ begin: Math.max(0, source.size - END_BYTES), end: source.size });
      const { offset, size } = directoryPlace(tail);
      if (size > maxTextBytes) throw new Error(`its list of files has ${size} bytes`);
      const entries = entriesOf(await source.read({ begin: offset, end: offset + size }));
      return new Wheel(link, source, { begin: offset, entries }, options);
    } catch (error) {
      if (error instanceof SconceError) throw error;
      throw invalid(link, `cannot be read (${messageOf(error)})`);
    }
  }

  /** The first entry of such a name. @throws SconceError `wheel_invalid` */
  async text(name: RegExp): Promise<string> {
    const entry = this.entries.find((found) => name.test(found.name));
    if (entry === undefined) throw invalid(this.link, `has no ${name.source}`);
    if (entry.packedSize > maxTextBytes) throw invalid(this.link, `has ${entry.packedSize} bytes of ${entry.name}`);
    const { begin, end } = this.#partOf(entry);
    const bytes = await this.#source.read({ begin, end: Math.min(end, begin + maxHeaderBytes + entry.packedSize) });
    const content = bytes.subarray(headerSize(bytes)).subarray(0, entry.packedSize);
    try {
      return (entry.isStored ? content : inflateRawSync(content, { maxOutputLength: maxTextBytes })).toString("utf8");
    } catch (error) {
      throw invalid(this.link, `is damaged: ${entry.name} cannot be unpacked (${messageOf(error)})`);
    }
  }

  /**
   * Unpacks entries into a folder, by their paths in the wheel; what is there need not come again.
   * @throws SconceError `index_unavailable`, `wheel_invalid`
   */
  async unpack(entries: readonly ZipEntry[], folder: string): Promise<void> {
    const { onProgress } = this.#options;
    const { filename } = this.link;
    const digests = await this.#recordedDigests();
    const totalBytes = entries.reduce((sum, { packedSize }) => sum + packedSize, 0);
    let doneBytes = 0;
    for (const entry of entries) {
      const expected = digests.get(entry.name);
      if (expected === undefined || !isPlainPath(entry.name)) throw invalid(this.link, `does not list ${entry.name}`);
      const target = join(folder, entry.name);
      if ((await sha256Of(target)) !== expected) {
        const place = await this.#source.place(
          this.#partOf(entry),
          `${filename}!${entry.name.replaceAll("/", "!")}`,
          (done) => onProgress(filename, Math.min(doneBytes + done, totalBytes), totalBytes),
        );
        await unpackEntry(entry, place, target);
        if (place.isTemporary) rmSync(place.path);
        if ((await sha256Of(target)) !== expected) {
          rmSync(target, { force: true });
          throw invalid(this.link, `is damaged: ${entry.name} does not have its digest; try again`);
        }
      }
      doneBytes += entry.packedSize;
    }
  }

  /** Up to where the next entry begins: how long the header is stands in the header. */
  #partOf({ offset }: ZipEntry): Part {
    const end = this.entries.reduce(
      (least, other) => (other.offset > offset ? Math.min(least, other.offset) : least),
      this.#directoryBegin,
    );
    return { begin: offset, end };
  }

  /** `path,sha256=…,size` of the wheel's RECORD. */
  async #recordedDigests(): Promise<ReadonlyMap<string, string>> {
    this.#digests ??= new Map(
      [...(await this.text(/^[^/]+\.dist-info\/RECORD$/)).matchAll(/^([^,"\n]+),sha256=([\w-]+)=*,\d*\r?$/gm)].map(
        ([, path = "", digest = ""]) => [path, Buffer.from(digest, "base64url").toString("hex")],
      ),
    );
    return this.#digests;
  }
}

/** No other than files below the folder. */
function isPlainPath(name: string): boolean {
  return name.split("/").every((part) => /^[\w.+-]+$/.test(part) && !/^\.+$/.test(part));
}

async function sourceOf(link: WheelLink, options: WheelOptions): Promise<Source> {
  const { client, partials, inParts, onProgress } = options;
  if (isLocal(link)) return checkedFile(link, fileURLToPath(link.url));
  const url = client.withoutCredentials(link.url.href);
  const remote = await lookAt(client, url);
  const { size, takesRanges } = remote;
  // Where anybody on the way could change it, the digest of the whole is all that protects it.
  const isPrivate = url.protocol === "https:" || isLoopback(url.host);
  if (takesRanges && size !== undefined && isPrivate && (inParts || link.sha256 === undefined)) {
    return {
      size,
      isChecked: false,
      read: (part) => readPart(client, remote, part),
      async place(part, name, onBytes) {
        const path = join(partials, name);
        await download(client, remote, { path, part, onBytes });
        return { path, begin: 0, isTemporary: true };
      },
    };
  }
  const path = join(partials, link.filename);
  await download(client, remote, {
    path,
    onBytes: (done) => onProgress(link.filename, done, size ?? done),
  });
  return checkedFile(link, path);
}

async function checkedFile(link: WheelLink, path: string): Promise<Source> {
  if (!existsSync(path)) throw invalid(link, `is not there: ${path}`);
  if (link.sha256 !== undefined) {
    const found = await sha256Of(path);
    if (found !== link.sha256) {
      if (!isLocal(link)) rmSync(path);
      throw invalid(link, `has the SHA-256 ${found} where the index has ${link.sha256}; what came was thrown away`);
    }
  }
  const file = Bun.file(path);
  return {
    size: file.size,
    isChecked: link.sha256 !== undefined,
    read: async ({ begin, end }) => Buffer.from(await file.slice(begin, end).arrayBuffer()),
    async place({ begin, end }, _name, onBytes) {
      onBytes(end - begin);
      return { path, begin, isTemporary: false };
    },
  };
}

async function unpackEntry(entry: ZipEntry, { path, begin }: Place, target: string): Promise<void> {
  const header = await Bun.file(path)
    .slice(begin, begin + HEADER_BYTES)
    .arrayBuffer();
  const start = begin + headerSize(Buffer.from(header));
  mkdirSync(dirname(target), { recursive: true });
  const bytes = createReadStream(path, { start, end: start + entry.packedSize - 1, highWaterMark: chunkBytes });
  const inflate = entry.isStored ? new PassThrough() : createInflateRaw({ chunkSize: chunkBytes });
  try {
    await pipeline(
      bytes,
      inflate,
      (chunks: AsyncIterable<Uint8Array>) => upTo(entry.size, chunks),
      createWriteStream(target, { flush: true }),
    );
  } catch (error) {
    // What is not compressed data, or more of it than is listed, does not have its digest either; a full disk is another matter.
    if (!(error instanceof Surplus || (error instanceof Error && "code" in error && /^Z_/.test(String(error.code))))) {
      throw error;
    }
  }
}

class Surplus extends Error {}

/** @throws Surplus when there is more: for so many bytes there is room */
async function* upTo(bytes: number, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let left = bytes;
  for await (const chunk of chunks) {
    left -= chunk.length;
    if (left < 0) throw new Surplus(`more than ${bytes} bytes`);
    yield chunk;
  }
}

/** Of a file, without holding it in memory; undefined where there is none. */
async function sha256Of(path: string): Promise<string | undefined> {
  if (!existsSync(path)) return undefined;
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: chunkBytes })) hasher.update(chunk);
  return hasher.digest("hex");
}

function invalid({ filename }: WheelLink, what: string): SconceError {
  return new SconceError("wheel_invalid", `${filename} ${what}`);
}
