/** Native sessions that stay open until the last test of a file or a `describe`. */
import { type NativeSession, openSession, type SessionOptions } from "../../src/engine/native/binding.ts";
import { fixture } from "./fixture.ts";

/** @returns a function that opens a session on the CPU, with one thread, unless its options say otherwise */
export function sessions(): (options: Partial<SessionOptions> & { readonly path: string }) => Promise<NativeSession> {
  const opened = fixture(() => new AsyncDisposableStack());
  return async (options) => {
    const session = await openSession({ device: "cpu", threads: 1, ...options });
    opened.defer(() => session.dispose());
    return session;
  };
}
