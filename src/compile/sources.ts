/** Where the sources of this program lie, which it compiles executables from and which have its types: those of a checkout around this file. */
import { dirname } from "node:path";

let find = async () => dirname(dirname(import.meta.dir));

/** The folder with package.json and src/ in it; an executable unpacks it first. */
export function sourcesFolder(): Promise<string> {
  return find();
}

/** For an executable, which has its sources inside. */
export function setSources(unpack: () => Promise<string>): void {
  find = unpack;
}
