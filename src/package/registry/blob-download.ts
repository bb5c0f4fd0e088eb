/** Downloads a blob from a registry, and resumes with a range request after an interruption. */
import { SconceError } from "../../base/errors.ts";
import type { PartialBlob } from "../store/partial-blob.ts";
import type { Registry, RegistryAnswer } from "./registry.ts";
import { Interruption } from "./retry.ts";

export interface DownloadOptions {
  readonly signal: AbortSignal;
  onBytes(count: number): void;
}

/**
 * Downloads the missing bytes of a blob. Starts over if the registry ignores the `Range` header.
 * @throws SconceError as `Registry.request` does; the received bytes stay in `partial`
 */
export async function downloadBlob(registry: Registry, partial: PartialBlob, options: DownloadOptions): Promise<void> {
  const { digest, size } = partial.blob;
  const { host, repository } = registry.remote;
  let supportsRanges = true;
  const attempt = async () => {
    if (!supportsRanges) await partial.restart();
    const from = partial.doneBytes;
    const request = {
      method: "GET",
      target: `blobs/${digest}`,
      headers: from === 0 ? {} : { Range: `bytes=${from}-` },
      expected: from === 0 ? [200] : [200, 206, 416],
      missing: `${host} no longer has blob ${digest} of ${repository}; push the model again`,
      signal: options.signal,
    } as const;
    await registry.requestOnce(request, async (answer) => {
      supportsRanges = from === 0 || isFullOrFrom(answer, from);
      if (answer.status === 200 && from > 0) await partial.restart();
      else if (!supportsRanges) return;
      for await (const chunk of answer.chunks()) {
        await partial.append(chunk);
        options.onBytes(chunk.length);
      }
      // Without a Content-Length, a truncated body looks complete. So the blob's size decides whether all bytes
      // arrived.
      if (partial.doneBytes >= size) return;
      const message = `${host} sent only a part of a blob; try again later`;
      throw new Interruption(new SconceError("registry_unavailable", message));
    });
  };
  const retry = registry.retry(options.signal);
  while (partial.doneBytes < size) await retry.run(attempt, () => partial.doneBytes);
}

/** Whether the answer contains the whole blob, or exactly the requested range that begins at byte `from`. */
function isFullOrFrom({ status, headers }: RegistryAnswer, from: number): boolean {
  return status === 200 || (status === 206 && (headers.get("content-range") ?? "").startsWith(`bytes ${from}-`));
}
