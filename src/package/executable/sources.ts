/** Finds the folder of sconce's own sources: the checkout or npm package around this file, or an unpacked archive. */
import { dirname } from "node:path";

let find = async () => dirname(dirname(dirname(import.meta.dir)));

export function sourcesFolder(): Promise<string> {
  return find();
}

/** Makes `sourcesFolder` call `unpack`, for an executable that contains the sources as an archive. */
export function setSources(unpack: () => Promise<string>): void {
  find = unpack;
}
