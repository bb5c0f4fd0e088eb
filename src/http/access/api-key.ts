/** An API key with its permissions. */
import type { KeyEntry, Permission } from "./key-file.ts";

/** Characters of the hash of a key's name, at the end of the ids of its predictions, in base64url: 36 bits. */
const TAG_LENGTH = 6;

export class ApiKey {
  readonly name: string;
  readonly share: number;
  /** Suffix of the ids of the key's predictions. Other keys cannot read predictions with this suffix. */
  readonly idSuffix: string;
  readonly #permissions: readonly Permission[];

  constructor({ name, share, only }: KeyEntry) {
    this.name = name;
    this.share = share;
    const digest = new Bun.CryptoHasher("sha256").update(name).digest("base64url");
    this.idSuffix = `.${digest.slice(0, TAG_LENGTH)}`;
    this.#permissions = only;
  }

  may(permission: Permission): boolean {
    return this.#permissions.includes(permission);
  }

  /** Adds the key's suffix to an id if the client left it out. */
  ownId(id: string): string {
    return id.endsWith(this.idSuffix) ? id : id + this.idSuffix;
  }
}
