/**
 * Finds sconce's sources, which contain the types for models, and from which executables are compiled. By default they
 * are the checkout or npm package around this file.
 */
import { dirname } from "node:path";

let find = async () => dirname(dirname(dirname(import.meta.dir)));

/** The folder with package.json and src/. An executable unpacks its sources first. */
export function sourcesFolder(): Promise<string> {
  return find();
}

/** Sets the function that unpacks the sources of an executable. */
export function setSources(unpack: () => Promise<string>): void {
  find = unpack;
}
