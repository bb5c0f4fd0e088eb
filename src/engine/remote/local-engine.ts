/** An engine in this process, for commands and tests: both ends of the engine, without a socket between them. */
import type { BatchObserver, Item } from "../engine.ts";
import { EngineServer, type EngineServerOptions } from "./engine-server.ts";
import type { Wire, WireEnd } from "./frame.ts";
import { RemoteEngine } from "./remote-engine.ts";

export interface LocalEngine<T extends Item> {
  readonly engine: RemoteEngine<T>;
  /** Closes the engine and its runners. Unfinished items fail with `session_closed`. */
  close(): Promise<void>;
}

export function openLocalEngine<T extends Item>(
  options: EngineServerOptions & { readonly observer?: BatchObserver | undefined },
): LocalEngine<T> {
  const server = new EngineServer({ ...options, endsProcess: false });
  const engine = new RemoteEngine<T>(options);
  let atServer: WireEnd | undefined;
  const atFront = engine.attach(wireTo(() => atServer));
  atServer = server.accept(wireTo(() => atFront));
  return {
    engine,
    async close() {
      await engine.close();
      await server.close();
    },
  };
}

/** A wire that delivers bytes after the running code, as a socket does. */
function wireTo(endOf: () => WireEnd | undefined): Wire {
  return {
    write(bytes, byteOffset, byteLength) {
      const chunk = bytes.subarray(byteOffset, byteOffset + byteLength);
      queueMicrotask(() => endOf()?.data(chunk));
      return byteLength;
    },
    end: () => endOf()?.close(),
  };
}
