/** Bodies and outcomes that are too large for a database's rows: files in a folder beside it. */
import { chmodSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";

/** Larger ones lie in files: they never cross to the database's thread. */
export const MAX_INLINE_LENGTH = 64 * 1024;

export class KeptFiles {
  readonly folder: string;
  readonly #isDurable: boolean;

  /** @param isDurable whether a file that was written is there after a power loss */
  constructor(databasePath: string, isDurable: boolean) {
    this.folder = `${databasePath}-files`;
    this.#isDurable = isDurable;
  }

  prepare(): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    chmodSync(this.folder, 0o700);
  }

  /** Writes beside the event loop; what fails leaves no file. Returns the file's name. */
  async write(id: string, parts: readonly (string | Uint8Array)[]): Promise<string> {
    // Two processes may end one prediction: neither writes into the other's file.
    const name = `${id}.${crypto.randomUUID()}`;
    const path = join(this.folder, name);
    try {
      await using file = await open(path, "wx", 0o600);
      for (const part of parts) await file.writeFile(part);
      if (this.#isDurable) await file.sync();
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
    if (this.#isDurable) {
      await using folder = await open(this.folder, "r");
      await folder.sync();
    }
    return name;
  }

  /** Undefined when the file is gone. */
  async read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const file = Bun.file(join(this.folder, name));
    try {
      return await file.bytes();
    } catch (error) {
      if (!(await file.exists())) return undefined;
      throw error;
    }
  }

  /** One that cannot be removed now is removed by the next process, as it belongs to no row. */
  async remove(name: string): Promise<void> {
    await rm(join(this.folder, name), { force: true }).catch(() => {});
  }

  /** The same, holding the thread. */
  removeNow(name: string): void {
    try {
      rmSync(join(this.folder, name), { force: true });
    } catch {
      // As above.
    }
  }

  /** Removes all but these. */
  sweep(needed: ReadonlySet<string>): void {
    for (const name of readdirSync(this.folder)) {
      if (!needed.has(name)) this.removeNow(name);
    }
  }
}
