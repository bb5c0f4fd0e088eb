/** Loads native addons of Node-API. */
import { messageOf, SconceError } from "./errors.ts";
import { openNativeFile } from "./native-file.ts";

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
    return refuse({ name, fix }, cause);
  }
  const { exports } = module;
  if (fits(exports)) return exports;
  throw new SconceError("native_unavailable", `${name} is of another version of sconce: ${fix}`);
}

/** Loads an addon that may be embedded in an executable. @throws as `loadAddon` */
export async function loadEmbeddedAddon<T>(addon: AddonFile<T>): Promise<T> {
  await using file = await openNativeFile(addon.path).catch((cause: unknown) => refuse(addon, cause));
  return loadAddon({ ...addon, path: file.path });
}

function refuse({ name, fix }: Pick<AddonFile<unknown>, "name" | "fix">, cause: unknown): never {
  const reason = messageOf(cause).split("\n", 1)[0];
  throw new SconceError("native_unavailable", `${name} cannot be loaded (${reason}): ${fix}`, { cause });
}
