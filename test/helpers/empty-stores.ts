import { ModelStore } from "../../src/package/store/store.ts";
import { fixture, tempDir } from "./fixture.ts";

/** @returns a function that makes an empty model store, which lasts until the last test of the file */
export function emptyStores(): () => ModelStore {
  const folder = fixture(tempDir);
  return () => new ModelStore(folder.join(crypto.randomUUID()));
}
