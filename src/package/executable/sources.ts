/**
 * Finds sconce's sources, which contain the types of models and from which executables are compiled. Default: the
 * checkout or package around this file.
 */
import { dirname } from "node:path";

let find = async () => dirname(dirname(dirname(import.meta.dir)));

/** The folder with package.json and src/. An executable unpacks it first. */
export function sourcesFolder(): Promise<string> {
  return find();
}

/** Called by an executable, which contains its sources. */
export function setSources(unpack: () => Promise<string>): void {
  find = unpack;
}
