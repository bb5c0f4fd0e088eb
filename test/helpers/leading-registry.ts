/**
 * A loopback registry that sends its clients to a second loopback server. A fake name look-up gives the registry
 * another address.
 */
import { pull } from "../../src/package/registry/pull.ts";
import { Registry } from "../../src/package/registry/registry.ts";
import { parseRemoteReference } from "../../src/package/registry/remote-reference.ts";
import type { ModelStore } from "../../src/package/store/store.ts";

export interface LeadingRegistry extends AsyncDisposable {
  /** Number of requests that reached the second server. */
  readonly reached: number;
  pullInto(store: ModelStore): Promise<unknown>;
}

interface LeadingRegistryOptions {
  /** Address that the fake look-up gives for the registry's name. */
  readonly address: string;
  readonly lead: "redirect" | "realm";
}

export function leadingRegistry({ address, lead }: LeadingRegistryOptions): LeadingRegistry {
  let reached = 0;
  const inner = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch() {
      reached += 1;
      return new Response("{}", { status: 200 });
    },
  });
  const target = `http://127.0.0.1:${inner.port}/x`;
  const outer = Bun.serve({
    hostname: "localhost",
    port: 0,
    fetch: () =>
      lead === "redirect"
        ? new Response("", { status: 307, headers: { Location: target } })
        : new Response("", { status: 401, headers: { "WWW-Authenticate": `Bearer realm="${target}"` } }),
  });
  const registry = new Registry({
    remote: parseRemoteReference(`localhost:${outer.port}/digits:v1`),
    actions: "pull",
    isPlain: true,
    env: { HOME: "/nonexistent" },
    signal: new AbortController().signal,
    resolver: async (name) => (name === "localhost" ? [address] : ["10.0.0.7"]),
  });
  return {
    get reached() {
      return reached;
    },
    pullInto: (store) => pull({ registry, store, repository: "digits", tags: ["v1"] }),
    async [Symbol.asyncDispose]() {
      await Promise.all([inner.stop(true), outer.stop(true)]);
    },
  };
}
