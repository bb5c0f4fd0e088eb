/** Gets a file of a package index, or a part of it, onto the disk, going on where it was cut short. */
import { type FileHandle, open } from "node:fs/promises";
import { Interruption } from "../../network/retry.ts";
import { type IndexClient, unavailable } from "./index-client.ts";

export interface RemoteFile {
  readonly url: URL;
  /** Undefined where the server does not say. */
  readonly size: number | undefined;
  readonly takesRanges: boolean;
}

/** Asks for a byte of it: whoever sends that byte sends other parts, too. */
export function lookAt(client: IndexClient, url: URL): Promise<RemoteFile> {
  return client.ask(url, { Range: "bytes=0-0" }, async ({ status, headers }) => {
    if (status === 404) throw unavailable(`${url.host} no longer has ${url.pathname.split("/").at(-1)}; try again`);
    const whole = /^bytes 0-0\/(\d+)$/.exec(headers.get("content-range") ?? "")?.[1];
    if (status === 206 && whole !== undefined) return { url, size: Number(whole), takesRanges: true };
    const size = headers.get("content-length");
    return { url, size: size === null ? undefined : Number(size), takesRanges: false };
  });
}

export interface Part {
  readonly begin: number;
  readonly end: number;
}

/** A part as bytes; of a server that takes ranges. */
export function readPart(client: IndexClient, { url }: RemoteFile, part: Part): Promise<Buffer> {
  const wanted = part.end - part.begin;
  return client.ask(url, rangeOf(part), async (answer) => {
    const chunks: Uint8Array[] = [];
    if (answer.status === 206) for await (const chunk of atMost(wanted, answer.chunks())) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    if (bytes.length < wanted) throw cutShort(url);
    return bytes;
  });
}

export interface DownloadOptions {
  readonly path: string;
  /** Without it all of the file. */
  readonly part?: Part;
  /** Told how many bytes are there. */
  onBytes(done: number): void;
}

/** Appends what the file at `path` lacks. @throws SconceError `index_unavailable`; the file keeps what came */
export async function download(client: IndexClient, remote: RemoteFile, options: DownloadOptions): Promise<void> {
  const { size, takesRanges } = remote;
  const { part = { begin: 0, end: size ?? Number.POSITIVE_INFINITY }, onBytes } = options;
  await using file = await open(options.path, "a");
  let { size: done } = await file.stat();
  const attempt = async () => {
    // Of a server without ranges it begins anew; so does what is longer than it may be.
    if (!takesRanges || done > part.end - part.begin) {
      await file.truncate(0);
      done = 0;
    }
    const wanted = { begin: part.begin + done, end: part.end };
    if (wanted.begin >= wanted.end) return;
    await client.askOnce(remote.url, takesRanges ? rangeOf(wanted) : {}, async (answer) => {
      if (answer.status !== (takesRanges ? 206 : 200)) throw cutShort(remote.url);
      for await (const chunk of atMost(wanted.end - wanted.begin, answer.chunks())) {
        await append(file, chunk);
        done += chunk.length;
        onBytes(done);
      }
      if (part.begin + done < (size === undefined ? done : part.end)) throw cutShort(remote.url);
    });
  };
  await client.retry().run(attempt, () => done);
  onBytes(done);
}

/** The first bytes of them: a server may send more than was asked for, and without end. */
async function* atMost(bytes: number, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let left = bytes;
  for await (const chunk of chunks) {
    yield chunk.subarray(0, left);
    left -= chunk.length;
    if (left <= 0) return;
  }
}

async function append(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) done += (await file.write(bytes, done)).bytesWritten;
}

function rangeOf({ begin, end }: Part): Record<string, string> {
  return { Range: `bytes=${begin}-${end - 1}` };
}

function cutShort(url: URL): Interruption {
  return new Interruption(unavailable(`${url.host} sent less of ${url.pathname.split("/").at(-1)} than it has`));
}
