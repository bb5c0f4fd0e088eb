/** A rehearsal before the port opens: code that has run often is fast, so the first clients after an upgrade do not wait longer than others. */
import type { ServeConfig } from "./config.ts";
import type { Fetch } from "./http/listener.ts";

/** Count of predictions in a rehearsal. After so many, JavaScriptCore has compiled most functions. */
const COUNT = 200;
const AT_ONCE = 4;
/** Time limit of a rehearsal in milliseconds. */
const LIMIT_MS = 2000;

/**
 * Runs a model's example again and again. Ends early where the example is refused.
 * @param fetch marks the predictions as rehearsed: they are not stored
 * @param path of the model
 */
export async function rehearse(
  fetch: Fetch,
  { path, example, basePath }: { path: string; example: unknown } & Pick<ServeConfig, "basePath">,
): Promise<void> {
  const url = `http://localhost${basePath}${path}/predictions`;
  const headers = { "Content-Type": "application/json", Prefer: "wait" };
  const body = JSON.stringify([example]);
  const signal = AbortSignal.timeout(LIMIT_MS);
  let count = 0;
  const client = async () => {
    while (count++ < COUNT && !signal.aborted) {
      const answer = await fetch(new Request(url, { method: "POST", headers, body, signal }));
      await answer.arrayBuffer();
      if (!answer.ok) return;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
}
