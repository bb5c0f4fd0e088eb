/** Files beside the database with bodies and outcomes that are too large for rows. */
import { chmodSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";

/** Maximum characters or bytes of a value in a row. Longer values go into files, not to the database's thread. */
export const MAX_INLINE_LENGTH = 64 * 1024;

export class ValueFiles {
  readonly folder: string;
  readonly #isDurable: boolean;

  /** @param isDurable whether a written file must survive a power loss */
  constructor(databasePath: string, isDurable: boolean) {
    this.folder = `${databasePath}-files`;
    this.#isDurable = isDurable;
  }

  prepare(): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    chmodSync(this.folder, 0o700);
  }

  /**
   * Writes a file; leaves none if it fails.
   * @returns the name of the file
   */
  async write(id: string, parts: readonly (string | Uint8Array)[]): Promise<string> {
    // Unique, because two processes may write an outcome of the same prediction.
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

  /**
   * Reads a file.
   * @returns undefined for a missing file
   */
  async read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const file = Bun.file(join(this.folder, name));
    try {
      return await file.bytes();
    } catch (error) {
      if (!(await file.exists())) return undefined;
      throw error;
    }
  }

  /** Removes a file. Ignores errors, because the next process removes files without a row. */
  async remove(name: string): Promise<void> {
    await rm(join(this.folder, name), { force: true }).catch(() => {});
  }

  /** Like `remove`, but synchronous. */
  removeNow(name: string): void {
    try {
      rmSync(join(this.folder, name), { force: true });
    } catch {}
  }

  /** Removes all files whose names are not in `needed`. */
  sweep(needed: ReadonlySet<string>): void {
    for (const name of readdirSync(this.folder)) {
      if (!needed.has(name)) this.removeNow(name);
    }
  }
}
