/** Gets a blob from a registry, going on where it was cut short. */
import { SconceError } from "../../base/errors.ts";
import { Interruption } from "../../machine/network/retry.ts";
import type { PartialBlob } from "../store/partial-blob.ts";
import type { Registry, RegistryAnswer } from "./registry.ts";

export interface DownloadOptions {
  readonly signal: AbortSignal;
  /** Told how many bytes came. */
  onBytes(count: number): void;
}

/**
 * Appends what the partial blob lacks, asking for that alone; a registry that sends all instead has it begin anew.
 *
 * @throws SconceError as `Registry.ask` does; the blob keeps what came
 */
export async function downloadBlob(registry: Registry, partial: PartialBlob, options: DownloadOptions): Promise<void> {
  const { digest, size } = partial.blob;
  let takesRanges = true;
  const attempt = async () => {
    if (!takesRanges) await partial.restart();
    const from = partial.doneBytes;
    const request = {
      method: "GET",
      target: `blobs/${digest}`,
      headers: from === 0 ? {} : { Range: `bytes=${from}-` },
      expected: from === 0 ? [200] : [200, 206, 416],
      missing: `${registry.remote.host} no longer has blob ${digest} of ${registry.remote.repository}; push the model anew`,
      signal: options.signal,
    } as const;
    await registry.askOnce(request, async (answer) => {
      takesRanges = from === 0 || isFrom(answer, from);
      if (answer.status === 200 && from > 0) await partial.restart();
      else if (!takesRanges) return;
      for await (const chunk of answer.chunks()) {
        await partial.append(chunk);
        options.onBytes(chunk.length);
      }
      // Without a Content-Length a body can end early and look whole.
      if (partial.doneBytes < size) throw new Interruption(cutShort(registry.remote.host));
    });
  };
  const retry = registry.retry(options.signal);
  while (partial.doneBytes < size) await retry.run(attempt, () => partial.doneBytes);
}

/** Whether the answer is the part that was asked for, or all. */
function isFrom({ status, headers }: RegistryAnswer, from: number): boolean {
  return status === 200 || (status === 206 && (headers.get("content-range") ?? "").startsWith(`bytes ${from}-`));
}

function cutShort(host: string): SconceError {
  return new SconceError("registry_unavailable", `${host} sent less of a blob than it has; try again later`);
}
