/** Loads native addons of Node-API. */
import { messageOf, SconceError } from "./errors.ts";

interface AddonFile<T> {
  readonly path: string;
  /** Name of the addon in messages. */
  readonly name: string;
  /** Advice for the operator if the addon cannot be loaded. */
  readonly fix: string;
  /** Whether the addon has the exports of this version of sconce. */
  readonly fits: (exports: unknown) => exports is T;
}

/** @returns the exports of the addon @throws SconceError `native_unavailable` */
export function loadAddon<T>({ path, name, fix, fits }: AddonFile<T>): T {
  const module: { exports: unknown } = { exports: {} };
  try {
    process.dlopen(module, path);
  } catch (cause) {
    const reason = messageOf(cause).split("\n", 1)[0];
    throw new SconceError("native_unavailable", `${name} cannot be loaded (${reason}): ${fix}`, { cause });
  }
  const { exports } = module;
  if (fits(exports)) return exports;
  throw new SconceError("native_unavailable", `${name} is of another version of sconce: ${fix}`);
}
